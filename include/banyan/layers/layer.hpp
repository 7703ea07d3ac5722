// Layer: one operation of a net, written once for every device in terms of operators.
//
// Lifecycle: constructed from its LayerParameter -> setup() once with the shapes of its inputs (declares
// parameters) -> reshape() whenever an input's shape changes -> forward()/backward(). A layer never allocates
// its outputs: it sets their shapes, the Net binds storage. Gradients: backward() overwrites the inputs'
// gradients and adds to the parameters'.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/text.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/layers/blob.hpp"
#include "banyan/layers/pass.hpp"
#include "banyan/ops/kernel_choices.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

using Blobs = std::vector<Blob*>;

enum class Phase : std::uint8_t { train, test };
inline Phase phase_of(caffe::Phase phase) { return phase == caffe::TRAIN ? Phase::train : Phase::test; }
inline caffe::Phase phase_of(Phase phase) { return phase == Phase::train ? caffe::TRAIN : caffe::TEST; }

enum class ParameterKind : std::uint8_t {
  learnable,
  statistic,  ///< running statistics: excluded from gradient exchange and updates
};

/// One of a layer's `blobs`, in the order of .caffemodel files.
struct Parameter {
  Shape shape;
  ParameterKind kind = ParameterKind::learnable;
  caffe::FillerParameter filler;
  std::vector<double> first_values;  ///< instead of the filler's, if not empty
  std::string share_name;            ///< if not empty, shared with every parameter of that name
  bool permissive = false;           ///< sharing compares counts, not shapes
  double lr_mult = 1, decay_mult = 1;
  /// The multiplier that the layer's type imposes whatever the file says (NV BatchNorm's scale: 1); negative:
  /// none.
  double forced_mult = -1;
  /// Each pass computes with `used` in place of `value`, which it makes of it, and the update begins from
  /// there: a layer does not write its parameters, because other devices may still read them.
  bool adjusted = false;
  Tensor value, grad;  ///< bound by the Net; grad stays undefined for statistics and where lr_mult is 0
  Tensor used;         ///< see `adjusted`; the layer's
};

/// Caffe's limits on the number of inputs and outputs; -1: no limit.
struct Arity {
  int min_inputs = 1, max_inputs = 1, min_outputs = 1, max_outputs = 1;
  bool outputs_equal_inputs = false;
};

/// How a layer handles channels-last inputs of 3 or more axes.
enum class LayoutRule : std::uint8_t {
  contiguous,     ///< needs and produces contiguous tensors; the Net converts before and after
  follows,        ///< any layout, the same on all inputs; outputs inherit it
  channels_last,  ///< any layout per input, faster channels-last; outputs are channels-last if the input is
                  ///< or LayerOptions::channels_last asks for it
};

/// Whether a layer can work with 16-bit activations. All of a layer's inputs and outputs have one type; the
/// Net converts inputs that arrive in another. Parameters are never 16-bit.
enum class StorageRule : std::uint8_t {
  full,         ///< no: it takes and produces tensors of the run's type
  follows,      ///< it only moves values: 16 bits if all its inputs are
  sixteen_bits  ///< yes
};

/// How a layer's outputs are views of its first input.
enum class View : std::uint8_t {
  none,
  data,               ///< of its data
  data_and_gradient,  ///< and of its gradient: there is nothing to compute
};

/// How much of an activation a layer's own operators can do (net/fusion.hpp).
enum class ActivationFusion : std::uint8_t {
  none,
  forward,  ///< forward() can end with it
  both,     ///< and backward() can begin with its gradient; an ELU's by its output's data, in outputs[0]
};

/// Whether backward() can end with the gradient of an activation that made the layer's input.
enum class InputActivation : std::uint8_t {
  none,
  by_input,        ///< any that shows its gradient, by the input's data
  relu_by_output,  ///< a ReLU, by the output's: the input may have been overwritten
};

/// When a layer exchanges values with the other devices of a training run.
enum class Meets : std::uint8_t { never, forward, both_ways };

/// What a layer is. Set by its constructor, completed by setup(), then fixed whatever the shapes.
struct LayerTraits {
  Arity arity = {};
  bool source = false;          ///< prepare() takes a batch and sets the shapes of the outputs
  bool filled_by_user = false;  ///< a source that writes nothing: its outputs hold zeros until they are set
  bool needs_values = false;    ///< filled_by_user: a pass before they are set is refused
  bool loss = false;            ///< output 0 has loss weight 1 unless the file gives one
  /// choose_samples() decides in each forward pass how many samples (axis 0) the outputs hold.
  bool chooses_samples = false;
  LayoutRule layout = LayoutRule::contiguous;
  StorageRule storage = StorageRule::full;
  /// forward() may write output 0 over input 0 unless backward() reads inputs, and backward() the gradient of
  /// input 0 over that of output 0.
  bool in_place = false;
  /// forward() computes a part of the samples (axis 0 of all inputs and outputs) as it would compute all of
  /// them, given only their data and shapes: reshape() keeps nothing that depends on their number.
  bool by_sample = false;
  View view = View::none;
  bool backward_reads_inputs = true, backward_reads_outputs = true;  ///< their data
  bool repeatable = true;  ///< recompute() may be called; otherwise the outputs are kept
  bool one_sweep = false;  ///< recompute() costs no more than reading the input and writing the output
  int differentiable_inputs = -1;   ///< gradients can flow only to the first this many; -1: all
  int constant_input = -1;          ///< nor to this one; -1: there is none
  int label_input = -1;             ///< this one holds numbers of classes or rows: integers; -1: none does
  int differentiable_outputs = -1;  ///< and only from the first this many; -1: all
  /// This many leading outputs are the device's shares of global values: those of all replicas are summed for
  /// display (losses, training accuracy).
  int shares = 0;
  /// Each sample is compared with all of these inputs, from this one on; -1: there are none.
  int compared_inputs = -1;
  Meets meets = Meets::never;
  std::vector<bool> passes_gradient = {};  ///< per input: its gradient is that of output 0; empty: none
  bool gathers_gradients = false;          ///< the gradient of the input is the sum of those of the outputs
  bool overwrites_gradients = false;       ///< backward() heeds Pass::fresh; for large gradients
  ops::Activation activation = {};         ///< what it computes, if that is a ReLU or an ELU
  Dropping dropping = {};                  ///< the same of dropout
  bool recovers_input = false;             ///< backward() can use Fused::kept_output instead of its input
  bool plain_sum = false;                  ///< output 0 is the sum of the inputs
  /// Output 0 is a 1 x 1 convolution of images with the first parameter, plus the second if there is one.
  bool pointwise = false;
  bool fuses_pointwise = false;  ///< forward() can begin with one, see ops/expanded_convolution.hpp
  /// The layer multiplies each channel by the first of these parameters and adds the second; -1: it does not.
  int channel_slope = -1, channel_bias = -1;
  bool fuses_affine = false;  ///< forward() can end with such a layer, backward() begin with its gradients
  ActivationFusion fuses_activation = ActivationFusion::none;
  InputActivation fuses_activation_of_input = InputActivation::none;
  bool fuses_dropout = false;  ///< forward() can end with dropout
  bool fuses_sum = false;      ///< forward() can end with the sum of its output and another tensor

  bool differentiable(int input) const {
    return (differentiable_inputs < 0 || input < differentiable_inputs) && input != constant_input;
  }
  bool differentiable_output(int output) const {
    return differentiable_outputs < 0 || output < differentiable_outputs;
  }
};

/// Overrides the file's choice between synchronized and local batch normalization (--sync_bn).
enum class SyncBatchNorm : std::uint8_t { as_written, on, off };

/// What the Net tells a layer about the run when making it.
struct LayerOptions {
  Phase phase = Phase::test;      ///< what the layer does: its `phase` field, or else net_phase
  Phase net_phase = Phase::test;  ///< how batches are dealt and outputs of replicas are combined
  DType dtype = DType::f32;       ///< of parameters, and of activations that are not 16-bit
  bool channels_last = false;     ///< the plan uses channels-last activations of 4 axes
  bool volumes_last = false;      ///< and of 5 axes
  bool parameters_stay = false;   ///< as NetOptions::parameters_stay
  int rank = 0, devices = 1;      ///< this replica's place
  std::uint64_t seed = 0;
  std::string net_name;
  SyncBatchNorm sync_batch_norm = SyncBatchNorm::as_written;
};

class Layer {
 public:
  Layer(const caffe::LayerParameter& parameter, const LayerOptions& options, LayerTraits traits)
      : traits_(std::move(traits)), parameter_(parameter), options_(options) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const caffe::LayerParameter& parameter() const { return parameter_; }
  const std::string& name() const { return parameter_.name(); }
  const std::string& type() const { return parameter_.type(); }
  const LayerTraits& traits() const { return traits_; }
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  /// Reads settings and refuses what can be refused without the inputs and without the data of a source.
  /// Called once, before setup(). Throws bad_input naming field and value.
  virtual void read_settings() {}
  /// Refuses what does not fit the inputs and declares parameters_ (shape, kind, filler). Throws bad_input
  /// naming field and value.
  virtual void setup(const Blobs& inputs, const Blobs& outputs);
  /// Sets every output's shape and layout from the inputs'; types are already set. Must accept any batch
  /// size, including 0.
  virtual void reshape(const Blobs& inputs, const Blobs& outputs) = 0;
  /// LayerTraits::chooses_samples: the length of axis 0 of all outputs in this pass, from the values of the
  /// inputs; at most what reshape() said. Called before forward(), not before recompute(). Waits for the
  /// device.
  virtual std::int64_t choose_samples(Pass& pass, const Blobs& inputs);
  virtual void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) = 0;
  /// Produces the outputs of the pass's forward() again from the same inputs, bit-identical and without other
  /// effects: no exchange, no update of running statistics.
  virtual void recompute(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
    forward(pass, inputs, outputs);
  }
  /// `propagate[i]`: the gradient of input i is wanted.
  virtual void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                        const Blobs& inputs) = 0;

  /// Sources only: takes the next batch and sets the outputs' shapes before forward().
  virtual void prepare(Pass& pass, const Blobs& outputs);
  /// Sources that the program fills: it has put values into this output (Net::set_input).
  virtual void filled(std::size_t) {}

  /// The blob of a file's layer that fills each parameter; null: the parameter keeps its value. By default
  /// blob i fills parameter i. Throws bad_input naming the layer if the numbers do not match; checking shapes
  /// is up to the caller.
  virtual std::vector<const io::BlobData*> match_blobs(const io::LayerWeights& source) const;
  /// Multiply-adds of one forward pass with the current shapes.
  virtual double forward_flops(const Blobs& inputs, const Blobs& outputs) const;
  /// See ops::Convolution::kernel_choices.
  virtual ops::KernelChoices kernel_choices() const { return {}; }
  /// What goes from one forward pass into the next, besides running statistics: a row (axis 0) for each
  /// sample of the last batch; undefined: zeros. Passes that leave no trace do not change it, except in test
  /// nets.
  virtual std::vector<Tensor*> carried() { return {}; }
  /// Called on the host when the pass's results have arrived: throws what the device could only record (label
  /// out of range).
  virtual void check_results(Context& context);
  /// The parameters now have values that no pass produced.
  virtual void parameters_replaced() {}

 protected:
  DType dtype() const { return options_.dtype; }
  const LayerOptions& options() const { return options_; }
  /// Gives `tensor` at least this shape on the context's device; for a layer's internal tensors.
  static void ensure(Context& context, Tensor& tensor, const Shape& shape, DType dtype,
                     Layout layout = Layout::contiguous);
  /// Adds a parameter; name, sharing and multipliers come from the file's `param` entry in that position.
  Parameter& declare(const Shape& shape, const caffe::FillerParameter& filler,
                     ParameterKind kind = ParameterKind::learnable);
  /// The key of this layer's random numbers in `pass`.
  ops::PassKey random_key(const Pass& pass) const;
  static void set_output(Blob& output, const Shape& shape, Layout layout = Layout::contiguous);
  /// Throws bad_input with the layer's name and type in front of the message.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    bad_input("layer ", quoted(name()), " (", type(), "): ", parts...);
  }

  /// Of a layer's settings that were `given` it or not.
  void require_num_output(bool given, std::int64_t num_output) const {
    if (num_output == 0) refuse(given ? "num_output must be positive" : "num_output is missing");
  }

  /// The shape of an input that must be N x C x H x W.
  const Shape& image_shape(const Blob& input) const {
    if (input.shape.axes() != 4)
      refuse("input ", quoted(input.name), " has ", input.shape.axes(), " axes; expected 4 (N, C, H, W)");
    return input.shape;
  }

  LayerTraits traits_;
  caffe::LayerParameter parameter_;
  LayerOptions options_;
  std::vector<Parameter> parameters_;
};

using LayerFactory = std::unique_ptr<Layer> (*)(const caffe::LayerParameter&, const LayerOptions&);

/// What is known about a layer type besides its code: for `trainer layers`, and for tests that run every
/// layer.
struct LayerInfo {
  std::string about;    ///< what it does, in a few words
  std::string message;  ///< the field of LayerParameter that holds its settings; "" if it has none
  /// Settings that tests can run it with, written as in a file; its inputs are small blobs N x 4 x 5 x 5, or
  /// scores of 4 classes with their labels, unless `inputs` says more. None for layers that need files.
  std::vector<std::string> examples = {""};
  /// How many devices share statistics in a layer with these settings, 0: all; null: the type has no such
  /// groups.
  int (*sync_group_size)(const caffe::LayerParameter&) = nullptr;
  /// One sample of each input of the examples. An input without a gradient holds integers in [0, 4).
  std::vector<Shape> inputs = {};
  /// Further fields that hold settings, besides loss_param of losses and transform_param of layers that bring
  /// data.
  std::vector<std::string> further = {};

  /// `message` and `further`.
  std::vector<std::string> messages() const;
};

/// One line per layer type, in the layer's own file:
/// `const RegisterLayer<ReluLayer> registered_relu("ReLU", {"the rectifier", "relu_param"});`
void register_layer(const std::string& type, LayerFactory factory, LayerInfo info);
template <class L>
struct RegisterLayer {
  RegisterLayer(const std::string& type, LayerInfo info) {
    register_layer(
        type,
        [](const caffe::LayerParameter& parameter, const LayerOptions& options) -> std::unique_ptr<Layer> {
          return std::make_unique<L>(parameter, options);
        },
        std::move(info));
  }
};
/// Throws bad_input for an unknown type: with the nearest known one, or saying which branch of Caffe has it.
std::unique_ptr<Layer> make_layer(const caffe::LayerParameter& parameter, const LayerOptions& options);
std::vector<std::string> registered_layer_types();
/// `type` must be registered.
const LayerInfo& layer_info(const std::string& type);
/// The sizes of all groups in which the net's layers share statistics, ascending. Ignores types that are not
/// registered.
std::vector<int> sync_group_sizes(const caffe::NetParameter& net);

}  // namespace banyan
