// Net: a NetParameter turned into an execution plan on one device, and the running of that plan.
//
// The plan is made by small passes, each a pure function with a header of its own in this room: filter_net,
// insert_splits, check_connections, prune_backward, conversions (layout), find_in_place_abn,
// choose_cuts (checkpoints), find_lifetimes, plan_memory. A Net belongs to one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/io/weights.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/net/fusion.hpp"
#include "banyan/net/in_place_abn.hpp"
#include "banyan/net/layout_plan.hpp"
#include "banyan/net/lifetimes.hpp"
#include "banyan/net/memory_plan.hpp"
#include "banyan/net/parameters.hpp"
#include "banyan/observe/activity.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

struct NetOptions {
  Phase phase = Phase::train;
  int level = 0;
  std::vector<std::string> stages;
  DType dtype = DType::f32;
  /// Activations of 4 and 5 axes, where layers want it; unset: as channels_last_by_default says. Never so
  /// unless dtype is f32.
  std::optional<bool> channels_last;
  int rank = 0, devices = 1;
  std::uint64_t seed = 0;
  SyncBatchNorm sync_batch_norm = SyncBatchNorm::as_written;
  /// Only with shapes_only: shapes of the outputs of source layers whose data need not exist.
  std::map<std::string, Shape> input_shapes;
  bool shapes_only = false;  ///< no storage is bound; sources with a shape in input_shapes are not opened
  /// Blobs share memory where their lifetimes do not overlap: after a pass only the outputs of sources, the
  /// net's outputs and the parameters hold what their names say. Off: every blob keeps its own data and
  /// gradient.
  bool reuse_memory = true;
  /// ReLUs run as a part of their neighbours (net/fusion.hpp); with reuse_memory only. The bits are the same.
  bool fuse = true;
  std::string origin;  ///< file that the net came from; for messages
};

class Net {
 public:
  /// `parameter` is upgraded (io::upgrade_net) and unfiltered. Throws bad_input for anything wrong in it.
  /// Parameters hold zeros until fill_parameters, load_weights or share_parameters.
  Net(const caffe::NetParameter& parameter, const NetOptions& options, Context& context, Activity& activity);
  ~Net();
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  /// Takes the next batch of every source, reshapes if a source's shapes changed, runs the layers in order.
  void forward(Pass& pass);
  /// Seeds the gradients of weighted outputs and runs the layers that need it in reverse; then, for each
  /// layer whether it needs it or not, highest index first, calls layer_done(layer index). Gradients of
  /// parameters are added to.
  void backward(Pass& pass, const std::function<void(int)>& layer_done = {});
  /// Infers all shapes anew after outputs of sources were given other shapes by hand, and binds the storage.
  /// forward() does so by itself; needed only to fill an Input's blob before the first forward() with a new
  /// shape.
  void reshape();
  /// f64 (1) on the device, written by forward(): sum over weighted outputs of weight * sum of the output.
  Tensor& loss() { return loss_; }
  /// From here on gradients count as zero. Their memory says so only after the next backward(): each layer
  /// clears its own when it gets there, or overwrites them.
  void zero_gradients();
  /// Waits for the device and lets every layer check the results of the passes since the last check.
  void check_results();

  /// Those of all layers, the layer's name before each piece of work.
  ops::KernelChoices kernel_choices() const;

  const std::string& name() const { return name_; }
  const NetOptions& options() const { return options_; }
  /// Filtered and split-inserted, without blobs.
  const caffe::NetParameter& definition() const { return definition_; }
  const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }
  Blobs inputs_of(int layer) const;
  Blobs outputs_of(int layer) const;
  bool needs_backward(int layer) const { return plan_.at(static_cast<std::size_t>(layer)).needs_backward; }
  /// False for a source whose shape was given instead (shapes_only).
  bool opened(int layer) const { return !plan_.at(static_cast<std::size_t>(layer)).given_shape; }
  bool has_backward() const { return trains_; }
  /// For each blob of the layer the index of its owner in parameters().
  const std::vector<int>& parameter_owners(int layer) const {
    return store_.owner.at(static_cast<std::size_t>(layer));
  }
  /// The blob of that name (the last one if layers work on it in place), or null.
  Blob* find_blob(const std::string& name) const;
  /// What no layer consumes, in alphabetical order.
  const std::vector<Blob*>& outputs() const { return outputs_; }
  double loss_weight(const Blob& blob) const;
  /// See Layer::output_is_share.
  bool output_is_share(const Blob& blob) const;
  /// How the activations share memory; sizes in elements of the net's dtype.
  const MemoryPlan& memory_plan() const { return memory_plan_; }
  /// The actions of a pass, forward and backward; with checkpoints, what runs again stands before the
  /// backward pass of its segment.
  const Schedule& schedule() const { return schedule_; }
  /// First layers of the segments after the first one; empty without checkpoints.
  const std::vector<int>& checkpoint_cuts() const { return cuts_; }
  /// memory_plan().total if there were no checkpoints.
  std::int64_t planned_without_checkpoints() const { return planned_without_checkpoints_; }
  /// With the net's in_place_abn: what became of each batch normalization that has a backward pass.
  const std::vector<InPlaceAbn>& in_place_abn() const { return in_place_abn_; }
  /// memory_plan().total without in_place_abn. Plans anew, and what the activations hold is lost.
  std::int64_t planned_without_in_place_abn();
  /// Number of layer inputs that are converted to another physical layout with the current shapes.
  int layout_conversions() const;

  std::vector<LearnableParameter>& parameters() { return store_.parameters; }
  const std::vector<LearnableParameter>& parameters() const { return store_.parameters; }
  /// Exchanged parameters (learnable, lr_mult not 0) in descending order of ready_layer, each 64-byte
  /// aligned.
  Tensor& flat_values() { return store_.flat_values; }
  Tensor& flat_gradients() { return store_.flat_gradients; }  ///< undefined in nets without backward
  Tensor& statistics() { return store_.statistics; }  ///< all running statistics; undefined if there are none

  /// Initial values by the fillers, from options.seed and the parameter's identity: the same on every device.
  void fill_parameters();
  /// Lets this net use the values of `other` (on the same device) wherever a layer of this net has the name
  /// of one of `other`. Throws bad_input naming layer and shapes where parameters differ.
  void share_parameters(Net& other, bool share_statistics);
  /// Fills parameters by layer name. Layers that only one side has are skipped. `origin` names the file in
  /// messages; throws bad_input naming layer, blob and both shapes where something does not fit.
  void load_weights(const io::ModelWeights& weights, const std::string& origin);
  /// What a .caffemodel holds: name and every layer with its blobs.
  caffe::NetParameter to_proto(bool with_gradients);

  /// Observers: called on the host before and after each layer's forward or backward. They see what each
  /// layer does by itself, so nothing is fused any more.
  using LayerHook = std::function<void(int layer, bool backward)>;
  void observe_layers(LayerHook before, LayerHook after);

 private:
  /// One layer's place in the plan. Blob numbers index blobs_.
  struct Step {
    std::vector<int> inputs, outputs;
    std::vector<double> loss_weights;  ///< one per output
    bool needs_backward = false;
    std::vector<bool> propagate;  ///< one per input
    std::vector<bool> receives;   ///< per output: a layer further down gives its gradient
    bool given_shape = false;     ///< a source that was not opened
    /// What the layer gets: the blobs, or stand-ins in another layout (Step::stand_ins, null where none is
    /// needed).
    Blobs layer_inputs, layer_outputs;
    std::vector<std::unique_ptr<Blob>> stand_ins;
    std::vector<Conversion> conversions;  ///< one per input
    Fusion fusion;
    int kept_output = -1;  ///< the blob that backward() takes instead of its input (in_place_abn.hpp)
    Tensor seed;           ///< the loss weight of an output whose gradient also comes from further down

    bool converts_inputs() const {
      return std::any_of(conversions.begin(), conversions.end(),
                         [](Conversion conversion) { return conversion != Conversion::none; });
    }
    bool weighted() const {
      return std::any_of(loss_weights.begin(), loss_weights.end(), [](double weight) { return weight != 0; });
    }
  };
  struct BlobState {
    std::unique_ptr<Blob> blob;
    int producer = -1;
    int loss_step = -1, loss_output = -1;  ///< where its loss weight stands
    bool automatic = false;                ///< a top that the file does not name
    Shape bound;                           ///< the shape for which storage was last bound
  };

  /// Per tensor of TensorUses: its place in memory_plan_, -1: none.
  struct Slots {
    std::vector<int> data, grad;
  };

  void build();
  void add_layer(int index);
  void connect_outputs(int index);
  bool works_in_place(int index, int output) const;
  void set_up_layer(int index);
  bool take_given_shapes(int index);
  void find_outputs();
  void mark_backward();
  void choose_inputs(int index);
  void reshape_layer(int index);
  void choose_in_place_abn();
  void fuse();
  void bind();
  bool is_own(int blob) const;
  TensorUses tensor_uses(std::vector<Blob*>& tensors) const;
  double cost_of(int index) const;
  bool like_output(int index) const;
  std::vector<Lifetime> lifetimes_of(const TensorUses& uses, const Schedule& schedule, Slots& slots) const;
  void plan(const TensorUses& uses, Slots& slots);
  void bind_arena(const std::vector<Blob*>& tensors, const TensorUses& uses, const Slots& slots);
  void bind_views(const std::vector<Blob*>& tensors, const TensorUses& uses);
  void seed_gradients(Context& context, int index);
  void settle_gradients(Context& context, int index);
  void add_loss(Context& context, int index);
  void run_forward(Pass& pass, int index);
  void run_backward(Pass& pass, int index);
  void run_again(Pass& pass, int index, bool layer_too);
  void convert_inputs(Context& context, int index);
  bool sources_changed() const;
  [[noreturn]] void rethrow_with_place();
  Layer& layer(int index) const { return *layers_[static_cast<std::size_t>(index)]; }
  Step& step(int index) { return plan_[static_cast<std::size_t>(index)]; }
  const Step& step(int index) const { return plan_[static_cast<std::size_t>(index)]; }
  Blob& blob(int index) const { return *blobs_[static_cast<std::size_t>(index)].blob; }
  int steps() const { return static_cast<int>(plan_.size()); }

  std::string name_;
  NetOptions options_;
  caffe::NetParameter definition_;
  Context* context_;
  Activity* activity_;
  bool trains_ = false;  ///< gradients exist
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Step> plan_;
  std::vector<BlobState> blobs_;
  std::map<std::string, int> blob_of_name_;
  std::vector<Blob*> outputs_;
  ParameterStore store_;
  Schedule schedule_;
  int segments_wanted_ = 1;  ///< as read_checkpoint has it
  bool cuts_chosen_ = false;
  bool wants_in_place_abn_ = false;
  std::vector<InPlaceAbn> in_place_abn_;
  std::vector<int> cuts_;
  MemoryPlan memory_plan_;
  std::int64_t planned_without_checkpoints_ = 0;
  Tensor arena_;  ///< all activations and gradients that are planned together
  Tensor loss_, partial_loss_;
  bool loss_started_ = false;                    ///< in the running forward pass
  std::optional<std::int64_t> first_unchecked_;  ///< iteration of the first pass since check_results()
  std::int64_t last_unchecked_ = 0;
  LayerHook before_layer_, after_layer_;
};

}  // namespace banyan
