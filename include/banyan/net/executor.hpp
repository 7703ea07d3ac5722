// Executor: binds a plan's storage on one device and runs its steps in order. It decides nothing.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "banyan/net/plan.hpp"
#include "banyan/observe/activity.hpp"
#include "banyan/ops/device_value.hpp"

namespace banyan {

class Executor {
 public:
  /// Called on the host before and after a layer's forward or backward.
  using LayerHook = std::function<void(int layer, bool backward)>;
  /// Gives the outputs of a layer that chose so many samples, and the blobs after it, their shapes.
  using Reshape = std::function<void(int layer, std::int64_t samples)>;

  /// All must outlive the executor.
  Executor(const std::vector<std::unique_ptr<Layer>>& layers, Context& context, Activity& activity,
           Reshape reshape_after);

  /// From now on runs `plan`, which must outlive that use. Gives the blobs their storage; `outside` tensors
  /// keep theirs if their shape has not changed.
  void bind(const Plan& plan, Activations& activations);

  /// What the plan's offsets are in.
  const Tensor& memory() const { return memory_; }

  /// Writes what the steps of `pass` read from device memory.
  void prepare(const Pass& pass);
  void forward(Pass& pass);
  /// `layer_done`: see Net::backward.
  void backward(Pass& pass, const std::function<void(int)>& layer_done);
  /// The next backward pass treats the parameters' gradients as zero.
  void zero_gradients() { gradients_count_as_zero_ = true; }
  /// f64 (1) on the device.
  Tensor& loss() { return loss_; }
  void observe(LayerHook before, LayerHook after);
  /// Called on the host after each layer's step of a forward pass, whether it runs the layer or others did
  /// its work: its outputs are there.
  void probe(std::function<void(int layer)> after_forward);

 private:
  void bind_memory();
  void bind_views();
  void bind_seed();
  void place(std::int64_t PlannedTensor::*offset, Tensor Blob::*member, int tensor);
  void bind_changed(int PlannedTensor::*of, std::int64_t PlannedTensor::*offset, Tensor Blob::*member);
  void follow(int PlannedTensor::*of, Tensor Blob::*member, int tensor);
  void bind_parts();
  void run_parts(std::size_t number, Pass& pass);
  void run_forward(std::size_t index, Pass& pass);
  void choose_samples(const PlanStep& step, Pass& pass);
  void run_again(std::size_t index, Pass& pass);
  void run_backward(std::size_t index, Pass& pass);
  void clear_gradients(const PlanStep& step);
  void copy(const PlanStep& step, Tensor Blob::*member);
  void add_loss(const PlanStep& step);
  void seed_gradients(const PlanStep& step);
  Layer& layer_of(const PlanStep& step) const { return *layers_[step.layer]; }
  LayerBlobs& blobs_of(const PlanStep& step) const { return activations_->layers[step.layer]; }
  Blob& tensor(int number) const { return *tensors_[number]; }
  /// Of the memory that is bound.
  Shape held(int number) const;

  const std::vector<std::unique_ptr<Layer>>& layers_;
  Context& context_;
  Activity& activity_;
  Reshape reshape_after_;
  const Plan* plan_ = nullptr;
  Activations* activations_ = nullptr;
  Blobs tensors_;             ///< numbered as in the plan
  std::vector<Fused> fused_;  ///< per step
  /// Tensors of a run of steps (Plan::parts), with their data in each part, and as it was bound.
  struct PartRun {
    std::vector<int> tensors;
    std::vector<std::vector<Tensor>> parts;
    std::vector<Tensor> whole;
  };
  class BoundParts;
  std::vector<PartRun> part_runs_;
  Tensor memory_;  ///< holds all activations and gradients that are planned together
  Tensor loss_, partial_loss_, seed_;
  ops::DeviceValue<std::uint64_t> draw_;
  bool gradients_count_as_zero_ = false;
  bool reshaped_ = false;  ///< since gradients were bound
  LayerHook before_, after_;
  std::function<void(int layer)> probe_;
};

}  // namespace banyan
