// Net: a NetParameter made ready to run on one device. It sets up the layers, infers shapes and delegates the
// rest:
//
//   NetParameter and the layers' traits -> Graph      layers and blobs (graph.hpp)
//   Graph and shapes                    -> Plan       tensors in memory, a list of steps (plan.hpp)
//   Plan                                -> Executor   runs the steps (executor.hpp)
//
// A Net belongs to one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/net/executor.hpp"
#include "banyan/net/graph.hpp"
#include "banyan/net/parameters.hpp"
#include "banyan/net/plan.hpp"
#include "banyan/net/precision.hpp"
#include "banyan/observe/activity.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

struct NetOptions {
  Phase phase = Phase::train;
  int level = 0;
  std::vector<std::string> stages;
  DType dtype = DType::f32;   ///< of all tensors that the net's `storage` does not cover
  bool channels_last = true;  ///< images, on CPUs volumes too, where layers want it; off unless dtype is f32
  int rank = 0, devices = 1;
  std::uint64_t seed = 0;
  SyncBatchNorm sync_batch_norm = SyncBatchNorm::as_written;
  bool shapes_only = false;  ///< no storage is bound
  /// Blobs share memory where their lifetimes do not overlap: after a pass, only the sources' outputs, the
  /// net's outputs and the parameters hold their own values. Off: every blob keeps its own data and gradient.
  bool reuse_memory = true;
  /// Off, with reuse_memory: the gradient of a parameter has memory, among the activations, only from the
  /// first step of a backward pass that touches it until layer_done(ready_layer) returns. There are no
  /// flat_gradients(), and every backward pass begins with zeros.
  bool keep_gradients = true;
  bool gradients_travel = false;  ///< other processes on this machine may copy them from flat_gradients()
  /// ReLUs and sums run as part of their neighbours (net/fusion.hpp); only with reuse_memory. Results are
  /// bit-identical, except for the sign of zeros.
  bool fuse = true;
  /// Parameters change between passes only if parameters_replaced() is called after it: layers may keep them
  /// in an order of their own.
  bool parameters_stay = false;
  /// In nets without a backward pass: steps whose tensors take more bytes run for some samples at a time
  /// (net/sample_parts.hpp). 0: all run for all samples. Only with reuse_memory and parameters_stay.
  std::int64_t cache = 0;
  /// Of f32 nets without a backward pass, on CPU devices: a depthwise convolution computes the 1 x 1
  /// convolution before it, too, if that makes so many bytes of a sample (ops/expanded_convolution.hpp). 0:
  /// none does. Only with reuse_memory, fuse and parameters_stay. Results differ by rounding.
  std::int64_t expansion_bytes = 0;
  /// Scale layers serve as slope and bias of the batch normalizations before them; only with reuse_memory.
  /// Results differ by one rounding.
  bool fuse_scale = true;
  std::string origin;  ///< file that the net came from, for messages
};

class Net {
 public:
  /// `parameter` is upgraded (io::upgrade_net) and unfiltered. Throws bad_input for anything wrong in it.
  /// Parameters are zero until filled, read or shared (parameter_values.hpp).
  Net(const caffe::NetParameter& parameter, const NetOptions& options, Context& context, Activity& activity);
  ~Net();
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  /// prepare(), then run().
  void forward(Pass& pass);
  /// The host's part of a pass: takes the next batch of every source, reshapes if a source's shapes changed,
  /// and writes what changes from pass to pass into device memory for the kernels (docs/architecture.md,
  /// "Captured into a graph").
  void prepare(Pass& pass);
  /// Runs the layers in order.
  void run(Pass& pass);
  /// Seeds the gradients of weighted outputs and runs the layers that need it in reverse; then calls
  /// layer_done(layer index) for every layer, whether it needed it or not, highest index first. Adds to the
  /// parameters' gradients.
  void backward(Pass& pass, const std::function<void(int)>& layer_done = {});
  /// Infers all shapes again after the shapes of source outputs were changed by hand, plans, and binds the
  /// storage. forward() does this by itself; needed only to fill an Input's blob before the first forward()
  /// with a new shape.
  void reshape();
  /// Puts values, in logical order, into an output of a layer that the program fills (Input, MemoryData);
  /// they stay until the next call. Throws bad_input for a blob that no such layer makes, and for another
  /// number of values than its shape says.
  void set_input(const std::string& blob, const std::vector<double>& values);
  /// f64 (1) on the device, written by forward(): sum over weighted outputs of weight * sum of the output.
  Tensor& loss() { return executor_->loss(); }
  /// From here on gradients count as zero. Their memory reflects that only after the next backward(), where
  /// each layer clears or overwrites its own.
  void zero_gradients() { executor_->zero_gradients(); }
  /// To be called after parameter values were written by hand.
  void parameters_replaced();
  /// Waits for the device and lets every layer check the results of all passes since the last check.
  void check_results();

  /// Those of all layers, with the layer's name before each entry.
  ops::KernelChoices kernel_choices() const;

  const std::string& name() const { return name_; }
  const NetOptions& options() const { return options_; }
  const Precision& precision() const { return precision_; }
  Context& context() const { return *context_; }
  Activity& activity() const { return *activity_; }
  /// Filtered and split-inserted, without weights.
  const caffe::NetParameter& definition() const { return definition_; }
  const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }
  const Graph& graph() const { return graph_; }
  const Plan& plan() const { return plan_; }
  /// The plan it would have without in_place_abn, cut at the same places.
  Plan plan_without_in_place_abn() const;

  Blobs inputs_of(int layer) const;
  Blobs outputs_of(int layer) const;
  /// The blob of that name (the last one if layers work on it in place), or null.
  Blob* find_blob(const std::string& name) const;
  /// Blobs that no layer reads, in alphabetical order; without those whose shapes depend on the samples that
  /// a Filter passes on.
  const Blobs& outputs() const { return outputs_; }
  double loss_weight(const Blob& blob) const;
  /// Does its data outlive a pass? Other blobs share memory, and what they hold after it may be of a part of
  /// the samples.
  bool keeps(const Blob& blob) const;
  /// Is it a share of a global value (LayerTraits::shares)?
  bool output_is_share(const Blob& blob) const;

  ParameterStore& parameter_store() { return store_; }
  const ParameterStore& parameter_store() const { return store_; }
  std::vector<LearnableParameter>& parameters() { return store_.parameters; }
  const std::vector<LearnableParameter>& parameters() const { return store_.parameters; }
  /// Exchanged parameters (learnable, lr_mult not 0) in descending order of ready_layer, each 64-byte
  /// aligned.
  Tensor& flat_values() { return store_.flat_values; }
  Tensor& flat_gradients() { return store_.flat_gradients; }  ///< undefined without backward, keep_gradients
  Tensor& statistics() { return store_.statistics; }  ///< all running statistics; undefined if there are none

  /// Observers see what each layer does on its own, so nothing stays fused except Scale layers, whose outputs
  /// are those of the normalizations as well: observing changes no result.
  void observe_layers(Executor::LayerHook before, Executor::LayerHook after);
  /// From now on calls it after each layer's step of a forward pass (null: no more). The plan stays as it is,
  /// but steps run for all samples and no blob is left out: outputs hold what the plan makes of them, with
  /// what is fused into the layer, until a later step uses their memory.
  void probe_layers(std::function<void(int layer)> after_forward);
  /// Frees all activations, after their last use: only parameters can be read from then on. Waits for the
  /// device.
  void release_activations();

 private:
  void build();
  void find_ready_layers();
  void add_layer(int index);
  void set_up_layer(int index);
  void reshape_layer(int index);
  void reshape_after(int layer, std::int64_t samples);
  std::vector<bool> find_choices();
  void plan_and_bind();
  Plan plan_with(const PlanPolicy& policy) const;
  bool sources_changed() const;
  int number_of(const Blob& blob) const;
  [[noreturn]] void rethrow_with_place();

  std::string name_;
  NetOptions options_;
  Precision precision_;
  caffe::NetParameter definition_;
  Context* context_;
  Activity* activity_;
  std::vector<std::unique_ptr<Layer>> layers_;
  Graph graph_;
  Activations activations_;
  /// Per layer that chooses samples: the layers that get their shapes again when it has chosen, because no
  /// other one before them chooses later.
  std::vector<std::vector<int>> after_;
  Blobs outputs_;
  ParameterStore store_;
  PlanPolicy policy_;
  Plan plan_;
  std::unique_ptr<Executor> executor_;           ///< none with shapes_only
  std::optional<std::int64_t> first_unchecked_;  ///< iteration of the first pass since check_results()
  std::int64_t last_unchecked_ = 0;
};

}  // namespace banyan
