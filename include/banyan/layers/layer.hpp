// Layer: one operation of a net, written once for every device in terms of operators.
//
// Life: constructed from its LayerParameter -> setup() once with the shapes of its inputs (declares
// parameters) -> reshape() whenever an input's shape changes -> forward()/backward(). A layer never allocates
// its outputs: it sets their shapes, the Net binds storage. Gradients: backward() overwrites the gradients of
// inputs and adds to those of parameters.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/text.hpp"
#include "banyan/layers/blob.hpp"
#include "banyan/layers/pass.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/kernel_choices.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

using Blobs = std::vector<Blob*>;

enum class Phase : std::uint8_t { train, test };

enum class ParameterKind : std::uint8_t {
  learnable,
  statistic,  ///< running statistics: not the gradients' business, never scaled or summed
};

/// One blob of a layer's `blobs`, in the order of .caffemodel files.
struct Parameter {
  Shape shape;
  ParameterKind kind = ParameterKind::learnable;
  caffe::FillerParameter filler;
  std::string share_name;   ///< non-empty: shared with every parameter of that name
  bool permissive = false;  ///< sharing compares counts, not shapes
  double lr_mult = 1, decay_mult = 1;
  /// What the layer's type asks of the multipliers whatever the file says (NV BatchNorm's scale: 1);
  /// negative: nothing.
  double forced_mult = -1;
  Tensor value, grad;  ///< bound by the Net; grad stays undefined for statistics and where lr_mult is 0
  /// grad holds nothing yet: backward() overwrites it and clears this (Layer::overwrites_gradients).
  bool fresh = false;
};

/// Caffe's limits on the number of inputs and outputs; -1: no limit.
struct Arity {
  int min_inputs = 1, max_inputs = 1, min_outputs = 1, max_outputs = 1;
  bool outputs_equal_inputs = false;
};

/// How a layer stands to channels-last inputs of 3 and more axes.
enum class LayoutRule : std::uint8_t {
  contiguous,     ///< needs and makes contiguous tensors; the Net converts before and after
  follows,        ///< any layout, the same on all inputs; outputs take it over
  channels_last,  ///< faster so; converts its own contiguous input, makes channels-last where the Net asks
                  ///< (wants_channels_last)
};

/// What a layer can take over of a ReLU that works in place on its only output (net/fusion.hpp).
enum class ReluFusion : std::uint8_t {
  none,
  forward,  ///< forward() ends with it
  both,     ///< and backward() begins with its gradient, which it finds without the output's data
};
/// What runs as a part of a layer, with the bits of the layers by themselves.
struct Fused {
  ops::Rectifier output;  ///< a ReLU behind the layer
  ops::Rectifier input;   ///< in front of it: backward() ends with its gradient, by the sign of the input
  /// forward() adds it to its result, whose memory is that of the sum, and runs the ReLU behind the sum. The
  /// backward pass knows nothing of it.
  const Blob* addend = nullptr;
  ops::Rectifier sum;
};

/// Overrides the files' choice between synchronized and local batch normalization (--sync_bn).
enum class SyncBatchNorm : std::uint8_t { as_written, on, off };

/// What the Net tells a layer about the run when it makes it.
struct LayerOptions {
  Phase phase = Phase::test;      ///< what the layer does: its `phase` field, or else net_phase
  Phase net_phase = Phase::test;  ///< how batches are dealt and outputs of replicas are combined
  DType dtype = DType::f32;
  bool channels_last = false;  ///< the plan uses channels-last activations
  int rank = 0, devices = 1;   ///< place of this replica
  std::uint64_t seed = 0;
  std::string net_name;
  SyncBatchNorm sync_batch_norm = SyncBatchNorm::as_written;
};

class Layer {
 public:
  Layer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : parameter_(parameter), options_(options) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const caffe::LayerParameter& parameter() const { return parameter_; }
  const std::string& name() const { return parameter_.name(); }
  const std::string& type() const { return parameter_.type(); }
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  virtual Arity arity() const = 0;
  /// Checks settings and declares parameters_ (shape, kind, filler). Throws bad_input naming field and value.
  virtual void setup(const Blobs& inputs, const Blobs& outputs);
  /// Sets shape and layout of every output from those of the inputs. Must accept any batch size, 0 included.
  virtual void reshape(const Blobs& inputs, const Blobs& outputs) = 0;
  virtual void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) = 0;
  /// Makes the outputs of the pass's forward() again from the same inputs, bit for bit and without any other
  /// effect: no exchange, no update of running statistics.
  virtual void recompute(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
    forward(pass, inputs, outputs);
  }
  /// `propagate[i]`: the gradient of input i is wanted.
  virtual void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                        const Blobs& inputs) = 0;

  /// Sources only: takes the next batch and sets the outputs' shapes before forward().
  virtual void prepare(Pass& pass, const Blobs& outputs);
  virtual bool is_source() const { return false; }

  virtual LayoutRule layout_rule() const { return LayoutRule::contiguous; }
  /// May output i be the same blob as input i? The Net may let them have the same memory on its own account
  /// too.
  virtual bool allows_in_place() const { return false; }
  /// Index of the input whose data (and layout) output i shares, or -1. Its gradient too if
  /// shares_gradient().
  virtual int shared_input(int output) const { return output < 0 ? 0 : -1; }
  virtual bool shares_gradient() const { return false; }
  /// The gradient of input i is that of the output: backward() leaves it alone where both are the same
  /// memory.
  virtual bool passes_gradient(int) const { return false; }
  /// The gradient of the input may be the same memory as that of one of the first four outputs.
  virtual bool gathers_gradients() const { return false; }
  /// The slope of a layer that is a ReLU.
  virtual std::optional<double> relu_slope() const { return {}; }
  virtual ReluFusion fuses_relu() const { return ReluFusion::none; }
  /// Can backward() take over the gradient of a ReLU whose output is the layer's only input?
  virtual bool fuses_relu_of_input() const { return false; }
  /// Can forward() end with the sum of its output and another blob?
  virtual bool fuses_sum() const { return false; }
  virtual bool is_plain_sum() const { return false; }
  void fuse(const Fused& fused) { fused_ = fused; }
  /// Does backward() mind Parameter::fresh? For large gradients, whose zeroing and reading cost time.
  virtual bool overwrites_gradients() const { return false; }
  /// Does backward() read the data of its inputs / outputs? (memory plan)
  virtual bool backward_reads_inputs() const { return true; }
  virtual bool backward_reads_outputs() const { return true; }
  /// May recompute() be called? Otherwise the outputs are kept until they are no longer needed.
  virtual bool repeatable() const { return !is_source(); }
  /// What the layer computes, if its output tells the input.
  virtual std::optional<ops::InvertibleActivation> inverse() const { return {}; }
  /// Can backward() do with the output of an invertible activation behind the layer, instead of its input?
  virtual bool recovers_input() const { return false; }
  /// From now on backward() uses that output, and overwrites it; null: the input.
  void keep_output(const Blob* output, const ops::InvertibleActivation& activation) {
    kept_output_ = output;
    kept_activation_ = activation;
  }
  /// Can gradients flow to input i at all? (labels: no)
  virtual bool differentiable_input(int) const { return true; }
  /// Loss weight of output i when the file gives none (losses: 1 for output 0).
  virtual double default_loss_weight(int) const { return 0; }
  /// Output i is this device's share of a global value: replicas' outputs are summed for display (losses,
  /// training accuracy).
  virtual bool output_is_share(int) const { return false; }
  /// Multiply-adds of one forward pass with the current shapes.
  virtual double forward_flops(const Blobs& inputs, const Blobs& outputs) const;
  /// See ops::Convolution::kernel_choices.
  virtual ops::KernelChoices kernel_choices() const { return {}; }
  /// Called on the host when the pass's results have arrived: throws what the device could only note (label
  /// out of range).
  virtual void check_results(Context& context);

 protected:
  DType dtype() const { return options_.dtype; }
  const LayerOptions& options() const { return options_; }
  /// Gives `tensor` at least this shape on the context's device; for what a layer keeps itself.
  static void ensure(Context& context, Tensor& tensor, const Shape& shape, DType dtype,
                     Layout layout = Layout::contiguous);
  /// Adds a parameter; name, sharing and multipliers come from the file's `param` entry at its position.
  Parameter& declare(const Shape& shape, const caffe::FillerParameter& filler,
                     ParameterKind kind = ParameterKind::learnable);
  /// The key of this layer's random numbers in `pass`.
  ops::RandomKey random_key(const Pass& pass) const;
  /// Sets shape, layout and dtype of an output.
  void set_output(Blob& output, const Shape& shape, Layout layout = Layout::contiguous) const;
  /// Throws bad_input with the layer's name and type before the message.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    bad_input("layer ", quoted(name()), " (", type(), "): ", parts...);
  }

  const Blob* kept_output_ = nullptr;  ///< see keep_output
  ops::InvertibleActivation kept_activation_;
  caffe::LayerParameter parameter_;
  LayerOptions options_;
  std::vector<Parameter> parameters_;
  Fused fused_;
};

using LayerFactory = std::unique_ptr<Layer> (*)(const caffe::LayerParameter&, const LayerOptions&);

/// One line per layer type, in the layer's own file: `const RegisterLayer<ReluLayer> registered("ReLU");`
void register_layer(const std::string& type, LayerFactory factory);
template <class L>
struct RegisterLayer {
  explicit RegisterLayer(const std::string& type) {
    register_layer(
        type,
        [](const caffe::LayerParameter& parameter, const LayerOptions& options) -> std::unique_ptr<Layer> {
          return std::make_unique<L>(parameter, options);
        });
  }
};
/// Throws bad_input for an unknown type with the known ones, nearest first.
std::unique_ptr<Layer> make_layer(const caffe::LayerParameter& parameter, const LayerOptions& options);
std::vector<std::string> registered_layer_types();

}  // namespace banyan
