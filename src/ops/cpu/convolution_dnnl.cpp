// Convolution through oneDNN: f32 tensors or bf16 activations, one to three spatial axes. Unless Math is
// full, the kernels' factors are rounded to bf16 first; sums are f32. bf16 activations go to bf16 kernels
// unchanged (Math::bf16), to others as f32 in scratch memory.
//
// All primitives compute on channels-last activations, for which oneDNN has vectorized kernels in every
// case tried (thin inputs, groups, dilation, odd channel counts); contiguous tensors are reordered into
// scratch memory and back. Weights are reordered on every call from the caller's order to the kernels'
// preferred one, because they change in every iteration, unless weights_stay(). The preferred order is
// queried for one fixed batch size, so that a share of a batch is computed like the whole.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "banyan/ops/basic.hpp"
#include "banyan/ops/convolution.hpp"
#include "banyan/ops/functions.hpp"
#include "ops/common/convolution_check.hpp"
#include "ops/cpu/convolution_choice.hpp"
#include "ops/cpu/convolution_columns.hpp"
#include "ops/cpu/convolution_depthwise.hpp"
#include "ops/cpu/convolution_groups.hpp"
#include "ops/cpu/convolution_products.hpp"
#include "ops/cpu/convolution_rows.hpp"
#include "ops/cpu/convolution_turned.hpp"
#include "ops/cpu/convolution_winograd.hpp"
#include "ops/cpu/dnnl_version.hpp"
#include "ops/cpu/openmp_threads.hpp"
#include "ops/cpu/round_to_bf16.hpp"

namespace banyan::ops {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto kF32 = memory::data_type::f32, kBf16 = memory::data_type::bf16;
constexpr std::int64_t kFixedBatch = 32;
constexpr std::size_t kMostPlans = 64;  ///< of a convolution: each takes up to 0.2 MB

std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// One tensor of a primitive: the caller's format, the kernel's format, and the conversion between the two.
struct Port {
  Port(int argument_of_kernel, const memory::desc& outer_desc, const memory::desc& inner_desc,
       bool is_written)
      : argument(argument_of_kernel), outer(outer_desc), inner(inner_desc), written(is_written) {}
  int argument;
  memory::desc outer, inner;
  bool written;
  bool rounded = false;                  ///< to bf16, in the scratch copy
  bool widened = false;                  ///< the caller's memory is bf16, the kernel's is not
  bool turned = false;                   ///< the caller's weights lead the other way: see turn_weights
  std::size_t place = 0;                 ///< of what was widened or turned (`outer`) in the workspace
  std::size_t offset = 0;                ///< of the scratch copy in the workspace
  std::optional<dnnl::reorder> convert;  ///< neither this nor rounded: the kernel uses the caller's memory
  memory outside, inside;                ///< inside: of the scratch copy, if there is one

  bool is_copied() const { return convert || rounded; }
};

/// Where weights stay in the kernel's order from call to call; without a place they do not.
struct KeptWeights {
  void* place = nullptr;
  bool empty = true;  ///< to be filled by this call
};

/// A primitive with its reorders. Scratch memory is one block: a copy per converted port, and the kernel's
/// scratch memory.
class Plan {
 public:
  /// `rounds`: the kernel's factors are rounded to bf16 first, although their type is f32.
  Plan(const dnnl::engine& engine, const memory::desc& scratchpad, bool rounds)
      : engine_(engine), scratchpad_(scratchpad), rounds_(rounds) {
    bytes_ = padded(scratchpad.get_size());
  }
  void set_kernel(dnnl::primitive kernel) { kernel_ = std::move(kernel); }
  void read(int argument, const memory::desc& outer, const memory::desc& inner) {
    Port port(argument, outer, inner, false);
    widen_outside(port);
    port.rounded = rounds_ && argument != DNNL_ARG_BIAS && !port.widened;
    if (port.outer != inner)
      convert(port, port.outer, inner, {});
    else if (port.rounded)
      take_scratch(port);
    ports_.push_back(std::move(port));
  }
  /// The caller's weights are those of `geometry`, `outer` and `inner` are of the turned convolution.
  void read_turned(const ConvolutionGeometry& geometry, const memory::desc& outer,
                   const memory::desc& inner) {
    Port port(DNNL_ARG_WEIGHTS, outer, inner, false);
    port.turned = true;
    turned_from_ = geometry;
    take_place(port);
    if (outer != inner) convert(port, outer, inner, {});
    ports_.push_back(std::move(port));
  }
  void write(int argument, const memory::desc& outer, const memory::desc& inner) {
    Port port(argument, outer, inner, true);
    widen_outside(port);
    if (port.outer != inner) convert(port, inner, port.outer, {});
    ports_.push_back(std::move(port));
  }
  void write_or_add(int argument, const memory::desc& outer, const memory::desc& inner, bool adds) {
    adds ? add(argument, outer, inner) : write(argument, outer, inner);
  }
  /// Like write, but adds the result to the caller's memory.
  void add(int argument, const memory::desc& outer, const memory::desc& inner) {
    Port port(argument, outer, inner, true);
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(sum);
    convert(port, inner, outer, attributes);
    ports_.push_back(std::move(port));
  }
  std::size_t bytes() const { return bytes_; }
  /// Of the weights that the kernel reads, if they are the caller's in another order; else empty.
  memory::desc converted_weights() const {
    for (const Port& port : ports_)
      if (is_converted_weight(port)) return port.inner;
    return {};
  }

  /// `data`: the callers' memory, in the order in which the ports were added. Not for two threads at a time:
  /// the primitive's arguments stay from call to call, with other addresses.
  void execute(const std::vector<void*>& data, void* workspace, const KeptWeights& kept) {
    if (arguments_.empty()) make_arguments();
    const auto scratch = [&](std::size_t offset) { return static_cast<char*>(workspace) + offset; };
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      Port& port = ports_[i];
      const bool is_kept = kept.place != nullptr && is_converted_weight(port);
      void* const outside = port.widened || port.turned ? scratch(port.place) : data[i];
      port.outside.set_data_handle(outside);
      if (port.is_copied()) port.inside.set_data_handle(is_kept ? kept.place : scratch(port.offset));
      if (port.written || (is_kept && !kept.empty)) continue;
      if (port.widened)
        widen(omp_get_max_threads(), count(port.outer), static_cast<const BFloat16*>(data[i]),
              static_cast<float*>(outside));
      if (port.turned)
        turn_weights(omp_get_max_threads(), turned_from_, static_cast<const float*>(data[i]),
                     static_cast<float*>(outside));
      if (port.convert) port.convert->execute(stream_, port.outside, port.inside);
      if (port.rounded)
        round_to_bf16(
            omp_get_max_threads(), count(port.inner),
            static_cast<const float*>((port.convert ? port.inside : port.outside).get_data_handle()),
            static_cast<float*>(port.inside.get_data_handle()));
    }
    scratch_.set_data_handle(workspace);
    kernel_.execute(stream_, arguments_);
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      Port& port = ports_[i];
      if (!port.written) continue;
      if (port.convert) port.convert->execute(stream_, port.inside, port.outside);
      if (port.widened)
        narrow(omp_get_max_threads(), count(port.outer),
               static_cast<const float*>(port.outside.get_data_handle()), static_cast<BFloat16*>(data[i]));
    }
    stream_.wait();
  }

 private:
  static bool is_converted_weight(const Port& port) {
    return port.argument == DNNL_ARG_WEIGHTS && port.is_copied() && !port.turned;
  }
  /// Number of values of an f32 tensor.
  static std::int64_t count(const memory::desc& desc) {
    return static_cast<std::int64_t>(desc.get_size() / sizeof(float));
  }
  /// If the caller's memory is bf16 and the kernel's f32: from here on the caller's is an f32 copy.
  void widen_outside(Port& port) {
    if (data_type_of(port.outer) != kBf16 || data_type_of(port.inner) == kBf16) return;
    port.widened = true;
    port.outer = with_type(port.outer, kF32);
    take_place(port);
  }
  void take_place(Port& port) {
    port.place = bytes_;
    bytes_ += padded(port.outer.get_size());
  }
  void take_scratch(Port& port) {
    port.offset = bytes_;
    bytes_ += padded(port.inner.get_size());
  }
  void convert(Port& port, const memory::desc& from, const memory::desc& to,
               const dnnl::primitive_attr& attributes) {
    take_scratch(port);
    port.convert.emplace(dnnl::reorder::primitive_desc(engine_, from, engine_, to, attributes));
  }

  void make_arguments() {
    stream_ = dnnl::stream(engine_);
    const auto memory_of = [&](const memory::desc& desc) { return memory(desc, engine_, DNNL_MEMORY_NONE); };
    for (Port& port : ports_) {
      port.outside = memory_of(port.outer);
      if (port.is_copied()) port.inside = memory_of(port.inner);
      arguments_.emplace(port.argument, port.is_copied() ? port.inside : port.outside);
    }
    scratch_ = memory_of(scratchpad_);
    arguments_.emplace(DNNL_ARG_SCRATCHPAD, scratch_);
  }

  dnnl::engine engine_;
  memory::desc scratchpad_;
  bool rounds_;
  dnnl::primitive kernel_;
  std::vector<Port> ports_;
  std::unordered_map<int, memory> arguments_;  ///< those of the ports and scratch_; empty: not yet made
  memory scratch_;
  dnnl::stream stream_;
  ConvolutionGeometry turned_from_;
  std::size_t bytes_ = 0;
};

/// first_backward_weight overwrites gradients.
enum class Pass : std::uint8_t { forward, backward_data, backward_weight, first_backward_weight };

bool is_of_weight(Pass pass) { return pass == Pass::backward_weight || pass == Pass::first_backward_weight; }

/// A kernel that is neither vectorized nor GEMM-based would be slower than our own im2col + GEMM.
template <class Description>
bool is_slow(const Description& description) {
  return std::string_view(description.impl_info_str()).find("ref") != std::string_view::npos;
}

/// Are numbers of 16 bits still such numbers after it? Then a kernel, which rounds once at its end, computes
/// what two operators compute.
bool keeps_bf16(const Activation& activation) {
  const auto is_bf16 = [](double value) {
    return BFloat16::rounded(static_cast<float>(value)) == static_cast<float>(value);
  };
  return activation.kind == Activation::Kind::clip ? is_bf16(activation.low) && is_bf16(activation.high)
                                                   : activation.slope == 0;
}

/// `by_rules`: ours stand in for oneDNN's where the rules say so, and gradients of inputs are forward passes.
enum class Kernels : std::uint8_t { by_rules, library, turned };

class DnnlConvolution final : public Convolution {
 public:
  DnnlConvolution(const ConvolutionGeometry& geometry, Math math, Kernels kernels)
      : geometry_(geometry),
        engine_(dnnl::engine::kind::cpu, 0),
        math_(math),
        by_rules_(kernels == Kernels::by_rules),
        own_kernels_(by_rules_ && math == Math::full),
        always_turns_(kernels == Kernels::turned),
        attributes_(plain_attributes()),
        stride_(geometry.stride),
        pad_(geometry.pad),
        reference_(make_reference_convolution(geometry)) {
    for (const std::int64_t dilation : geometry.dilation) dilation_.push_back(dilation - 1);
  }

  bool fuse_activation(const Activation& activation) override {
    const bool has_kernel = activation.kind != Activation::Kind::elu;
    end_ = has_kernel ? activation : Activation();
    return has_kernel;
  }

  void weights_stay() override {
    weights_stay_ = true;
    kept_order_ = {};
    transformed_are_filled_ = false;
  }

  void forward(Context& context, const Tensor& input, const Tensor& weight, const Tensor& bias,
               Tensor& output) override {
    check_convolution(geometry_, input, weight, output);
    if (output.count() == 0) return;
    inside_ = output.dtype() == DType::f32 || keeps_bf16(end_) ? end_ : Activation();
    if (const auto tile = by_winograd(WinogradPass::forward, input, output)) {
      if (inside_.kind != Activation::Kind::relu) inside_ = {};
      const Tensor& kept = transformed_weights(context, *tile);
      forward_by_winograd(context, *tile, geometry_, input, weight, bias, inside_.on() ? inside_.slope : 1,
                          kept, std::exchange(transformed_are_filled_, weights_stay_), output);
    } else if (own_kernels_ && rows_pay_forward(geometry_, input, output)) {
      if (inside_.kind != Activation::Kind::relu) inside_ = {};
      forward_by_rows(context, geometry_, input, weight, bias, inside_.on() ? inside_.slope : 1, output);
    } else if (own_kernels_ && groups_pay(GroupPass::forward, geometry_, input, output)) {
      if (inside_.kind != Activation::Kind::relu) inside_ = {};
      forward_by_groups(context, geometry_, input, weight, bias, inside_.on() ? inside_.slope : 1, output);
    } else if (own_kernels_ && products_pay_forward(geometry_, input, output)) {
      if (inside_.kind != Activation::Kind::relu) inside_ = {};
      forward_by_products(context, geometry_, input, weight, bias, inside_.on() ? inside_.slope : 1, output);
    } else if (own_kernels_ && depthwise_pays(DepthwisePass::forward, geometry_, input, output)) {
      forward_depthwise(context, geometry_, input, weight, bias, inside_, output);
    } else if (Plan* plan = plan_for(context, Pass::forward, input, output, bias.defined())) {
      forward_by(context, *plan, input, weight, bias, output);
    } else {
      inside_ = {};
      reference_->forward(context, input, weight, bias, output);
    }
    if (!inside_.on()) activate(context, end_, output);
  }

  void backward_data(Context& context, const Tensor& grad_output, const Tensor& weight,
                     Tensor& grad_input) override {
    check_convolution(geometry_, grad_input, weight, grad_output);
    if (grad_input.count() == 0) return;
    if (own_kernels_ && products_pay_backward_data(geometry_, grad_input, grad_output))
      return backward_data_by_products(context, geometry_, grad_output, weight, grad_input);
    if (own_kernels_ && groups_pay(GroupPass::backward_data, geometry_, grad_input, grad_output))
      return backward_data_by_groups(context, geometry_, grad_output, weight, grad_input);
    if (own_kernels_ && depthwise_pays(DepthwisePass::backward_data, geometry_, grad_input, grad_output))
      return backward_data_depthwise(context, geometry_, grad_output, weight, grad_input);
    if (const auto tile = by_winograd(WinogradPass::backward_data, grad_input, grad_output))
      return backward_data_by_winograd(context, *tile, geometry_, grad_output, weight, grad_input);
    if (own_kernels_ && columns_pay(geometry_, grad_input, grad_output, context.device().threads()))
      return backward_data_by_columns(context, geometry_, grad_output, weight, column_values(), grad_input);
    Plan* plan = plan_for(context, Pass::backward_data, grad_input, grad_output, false);
    if (plan == nullptr) return reference_->backward_data(context, grad_output, weight, grad_input);
    run(context, *plan, {activation(grad_output), address(weight), activation(grad_input)}, "backward data");
  }

  void backward_weight(Context& context, const Tensor& input, const Tensor& grad_output, Tensor& grad_weight,
                       Tensor& grad_bias) override {
    check_convolution(geometry_, input, grad_weight, grad_output);
    if (input.count() == 0) return;
    if (backward_weight_by_own(context, true, input, grad_output, grad_weight, grad_bias)) return;
    if (own_kernels_ && rows_pay_backward_weight(geometry_, input, grad_output))
      return backward_weight_by_rows(context, geometry_, input, grad_output, grad_weight, grad_bias);
    if (!backward_weight_by_plan(context, Pass::backward_weight, input, grad_output, grad_weight, grad_bias))
      reference_->backward_weight(context, input, grad_output, grad_weight, grad_bias);
  }

  void first_backward_weight(Context& context, const Tensor& input, const Tensor& grad_output,
                             Tensor& grad_weight, Tensor& grad_bias) override {
    check_convolution(geometry_, input, grad_weight, grad_output);
    if (backward_weight_by_own(context, false, input, grad_output, grad_weight, grad_bias)) return;
    const bool others = input.count() == 0 ||
                        (own_kernels_ && rows_pay_backward_weight(geometry_, input, grad_output)) ||
                        !backward_weight_by_plan(context, Pass::first_backward_weight, input, grad_output,
                                                 grad_weight, grad_bias);
    if (others) Convolution::first_backward_weight(context, input, grad_output, grad_weight, grad_bias);
  }

 private:
  using Key = std::vector<std::int64_t>;

  /// Depthwise, products, groups or Winograd, which can overwrite; false: none of them pays.
  bool backward_weight_by_own(Context& context, bool adds, const Tensor& input, const Tensor& grad_output,
                              Tensor& grad_weight, Tensor& grad_bias) const {
    if (own_kernels_ && depthwise_pays(DepthwisePass::backward_weight, geometry_, input, grad_output)) {
      backward_weight_depthwise(context, geometry_, input, grad_output, adds, grad_weight, grad_bias);
      return true;
    }
    if (const auto tile = by_winograd(WinogradPass::backward_weight, input, grad_output))
      backward_weight_by_winograd(context, *tile, geometry_, input, grad_output, adds, grad_weight);
    else if (own_kernels_ &&
             products_pay_backward_weight(geometry_, input, grad_output, context.device().threads()))
      backward_weight_by_products(context, geometry_, input, grad_output, adds, grad_weight);
    else if (own_kernels_ && groups_pay(GroupPass::backward_weight, geometry_, input, grad_output))
      backward_weight_by_groups(context, geometry_, input, grad_output, adds, grad_weight);
    else
      return false;
    if (!grad_bias.defined()) return true;
    if (!adds) fill(context, grad_bias, 0);
    const std::int64_t outputs = geometry_.out_channels;
    scale_backward(context, Tensor(), grad_output, {grad_output.count() / outputs, outputs, 1}, grad_bias);
    return true;
  }

  /// False: oneDNN has no good kernel.
  bool backward_weight_by_plan(Context& context, Pass pass, const Tensor& input, const Tensor& grad_output,
                               Tensor& grad_weight, Tensor& grad_bias) {
    Plan* plan = plan_for(context, pass, input, grad_output, grad_bias.defined());
    if (plan == nullptr) return false;
    std::vector<void*> data{activation(input), activation(grad_output), grad_weight.data<float>()};
    if (grad_bias.defined()) data.push_back(grad_bias.data<float>());
    run(context, *plan, std::move(data), "backward weight");
    return true;
  }

  void forward_by(Context& context, Plan& plan, const Tensor& input, const Tensor& weight, const Tensor& bias,
                  Tensor& output) {
    std::vector<void*> data{activation(input), address(weight), activation(output)};
    if (bias.defined()) data.push_back(address(bias));
    run(context, plan, std::move(data), "forward");
  }

  static void* address(const Tensor& tensor) { return const_cast<float*>(tensor.data<float>()); }
  static void* activation(const Tensor& tensor) {
    return tensor.dtype() == DType::bf16 ? const_cast<BFloat16*>(tensor.data<BFloat16>()) : address(tensor);
  }

  void run(Context& context, Plan& plan, std::vector<void*> data, const char* pass) {
    void* workspace = context.workspace(plan.bytes());
    const KeptWeights kept = kept_for(context, plan);
    const int threads = context.device().threads();
    context.run([&plan, data = std::move(data), workspace, kept, threads, pass] {
      const OpenMpThreads guard(threads);
      try {
        plan.execute(data, workspace, kept);
      } catch (const dnnl::error& failure) {
        runtime_failure("oneDNN convolution ", pass, ": ", failure.what());
      }
    });
  }

  KeptWeights kept_for(Context& context, const Plan& plan) {
    const memory::desc order = weights_stay_ ? plan.converted_weights() : memory::desc();
    if (order == memory::desc()) return {};
    const bool empty = kept_order_ != order;
    const auto bytes = static_cast<std::int64_t>(order.get_size());
    if (empty && (!kept_.defined() || kept_.count() < bytes)) {
      context.synchronize();  // pending work may use the memory released here
      kept_ = Tensor(context.device(), Shape{bytes}, DType::u8);
    }
    kept_order_ = order;
    return {kept_.raw(), empty};
  }

  /// Of images stored in bf16 it rounds the weights too, as all kernels do unless Math is full.
  std::optional<WinogradTile> by_winograd(WinogradPass pass, const Tensor& input,
                                          const Tensor& output) const {
    const bool rounds = input.dtype() == DType::bf16 && pass != WinogradPass::backward_weight;
    const bool may =
        by_rules_ && (rounds ? math_ != Math::full : own_kernels_ || input.dtype() == DType::bf16);
    return may ? winograd_tile(pass, geometry_, input, output) : std::nullopt;
  }

  /// Where forward_by_winograd keeps its weights; undefined if they change.
  const Tensor& transformed_weights(Context& context, WinogradTile tile) {
    if (!weights_stay_) return transformed_;
    const std::int64_t count = winograd_weights(tile, geometry_);
    if (!transformed_.defined() || transformed_.count() != count) {  // images of another size, other tiles
      if (transformed_.defined()) context.synchronize();             // pending work may use them
      transformed_ = Tensor(context.device(), Shape{count}, DType::f32);
      transformed_are_filled_ = false;
    }
    return transformed_;
  }

  /// The plan for these shapes and layouts, made on first use; nullptr if our reference should be used.
  Plan* plan_for(Context& context, Pass pass, const Tensor& input, const Tensor& output, bool bias) {
    const int threads = context.device().threads();
    const Activation end = pass == Pass::forward ? inside_ : Activation();
    const auto bits = [](double value) { return std::bit_cast<std::int64_t>(value); };
    Key key = input.shape().dims();
    key.insert(key.end(), {static_cast<std::int64_t>(pass), static_cast<std::int64_t>(input.layout()),
                           static_cast<std::int64_t>(output.layout()), bias, threads,
                           static_cast<std::int64_t>(end.kind), bits(end.slope), bits(end.low),
                           bits(end.high), static_cast<std::int64_t>(input.dtype())});
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second ? &*found->second : nullptr;
    if (plans_.size() >= kMostPlans) {  // sizes that keep changing, or a Filter
      context.synchronize();            // pending work uses them
      plans_.clear();
    }
    const OpenMpThreads guard(threads);  // kernels are generated for a fixed number of threads
    std::optional<Plan> plan;
    if (math_ == Math::bf16) plan = plan_with(kBf16, pass, input, output, bias);
    if (!plan) plan = plan_with(kF32, pass, input, output, bias);
    const auto [place, inserted] = plans_.emplace(std::move(key), std::move(plan));
    return place->second ? &*place->second : nullptr;
  }

  /// oneDNN (2.6 and 3.2) with AVX2 computes a wrong gradient of the weights of a strided 1 x 1 convolution
  /// if channels do not fill a vector of 8.
  bool is_miscomputed(Pass pass) const {
    constexpr std::int64_t kVector = 8;
    const auto is_one = [](std::int64_t length) { return length == 1; };
    return is_of_weight(pass) && std::ranges::all_of(geometry_.kernel, is_one) &&
           !std::ranges::all_of(geometry_.stride, is_one) &&
           (geometry_.in_channels / geometry_.group % kVector != 0 ||
            geometry_.out_channels / geometry_.group % kVector != 0);
  }

  /// With factors of type `type`; empty if oneDNN has no good kernel.
  std::optional<Plan> plan_with(memory::data_type type, Pass pass, const Tensor& input, const Tensor& output,
                                bool bias) {
    if (is_miscomputed(pass)) return std::nullopt;
    try {
      return make_plan(type, pass, input, output, bias);
    } catch (const dnnl::error& failure) {
      if (failure.status != dnnl_unimplemented) runtime_failure("oneDNN convolution: ", failure.what());
    }
    return std::nullopt;
  }

  Tag activation_tag(bool channels_last) const {
    constexpr Tag kTags[3][2] = {{Tag::ncw, Tag::nwc}, {Tag::nchw, Tag::nhwc}, {Tag::ncdhw, Tag::ndhwc}};
    return kTags[geometry_.spatial_axes() - 1][channels_last ? 1 : 0];
  }
  Tag weight_tag() const {
    constexpr Tag kTags[3][2] = {{Tag::oiw, Tag::goiw}, {Tag::oihw, Tag::goihw}, {Tag::oidhw, Tag::goidhw}};
    return kTags[geometry_.spatial_axes() - 1][geometry_.group > 1 ? 1 : 0];
  }
  memory::desc kernel_activation(const memory::dims& shape, memory::data_type type) const {
    return memory::desc(shape, type, activation_tag(true));
  }
  static memory::desc any_order(const memory::desc& weight, memory::data_type type) {
    return {dims_of(weight), type, Tag::any};
  }
  /// The caller's memory; if the layouts coincide it counts as channels-last and needs no reorder.
  memory::desc caller_activation(const Tensor& tensor) const {
    const ChannelView view = channel_view(tensor);
    const bool same = view.channels == 1 || view.inner == 1;
    return memory::desc(tensor.shape().dims(), tensor.dtype() == DType::bf16 ? kBf16 : kF32,
                        activation_tag(same || view.channels_last));
  }
  memory::desc caller_weight(const ConvolutionGeometry& g) const {
    memory::dims shape{g.out_channels / g.group, g.in_channels / g.group};
    if (g.group > 1) shape.insert(shape.begin(), g.group);
    shape.insert(shape.end(), g.kernel.begin(), g.kernel.end());
    return {shape, kF32, weight_tag()};
  }

  using Forward = dnnl::convolution_forward;
  using BackwardData = dnnl::convolution_backward_data;
  using BackwardWeights = dnnl::convolution_backward_weights;
  static constexpr auto kDirect = dnnl::algorithm::convolution_direct;

  /// Fresh attributes: a copy would share the original's contents.
  static dnnl::primitive_attr plain_attributes() {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attributes;
  }
  dnnl::primitive_attr forward_attributes() const {
    dnnl::primitive_attr attributes = plain_attributes();
    if (inside_.on()) {
      const bool clips = inside_.kind == Activation::Kind::clip;
      dnnl::post_ops end;
      append_activation(end, clips ? dnnl::algorithm::eltwise_clip : dnnl::algorithm::eltwise_relu,
                        static_cast<float>(clips ? inside_.low : inside_.slope),
                        static_cast<float>(clips ? inside_.high : 0));
      attributes.set_post_ops(end);
    }
    return attributes;
  }
  Forward::primitive_desc forward_desc(const memory::desc& in, const memory::desc& weight,
                                       const memory::desc& out, bool bias,
                                       const dnnl::primitive_attr& attributes) const {
    return forward_desc(in, weight, out, bias, pad_, attributes);
  }
  Forward::primitive_desc forward_desc(const memory::desc& in, const memory::desc& weight,
                                       const memory::desc& out, bool bias, const memory::dims& pad,
                                       const dnnl::primitive_attr& attributes) const {
    return describe<Forward>(engine_, attributes, dnnl::prop_kind::forward_training, kDirect, in, weight,
                             bias_desc(bias), out, stride_, dilation_, pad, pad);
  }
  BackwardData::primitive_desc backward_data_desc(const memory::desc& in, const memory::desc& weight,
                                                  const memory::desc& out) const {
    // next_impl() reads the hint again, which must still be there.
    const auto hint = forward_desc(with_type(in, data_type_of(out)), any_order(weight, data_type_of(out)),
                                   with_type(out, kF32), false, attributes_);
    const auto describe_it = [&] {
      return describe_gradient<BackwardData>(engine_, attributes_, hint, kDirect, in, weight, out, stride_,
                                             dilation_, pad_, pad_);
    };
    const auto first = describe_it();
    if (!is_general_for_few(first)) return first;
    auto other = describe_it();  // a copy would share what next_impl() changes
    while (other.next_impl())
      if (std::string_view(other.impl_info_str()).starts_with("jit")) return other;
    return first;
  }
  /// For strided convolutions oneDNN 3 prefers a general kernel of its own to those of version 2, which it
  /// has too. For few channels it takes longer: up to 130 times as long where groups have one channel, up
  /// to 3.5 times with 16 to 32 (3.2, bf16 and f32, AVX-512).
  bool is_general_for_few(const BackwardData::primitive_desc& desc) const {
    constexpr std::int64_t kFew = 32;
    return std::max(geometry_.in_channels, geometry_.out_channels) <= kFew * geometry_.group &&
           std::string_view(desc.impl_info_str()).starts_with("brgconv_strided");
  }
  BackwardWeights::primitive_desc backward_weight_desc(const memory::desc& in, const memory::desc& weight,
                                                       const memory::desc& out, bool bias) const {
    return describe_gradient<BackwardWeights>(
        engine_, attributes_,
        forward_desc(in, any_order(weight, data_type_of(in)), with_type(out, kF32), bias, attributes_),
        kDirect, in, weight, bias_desc(bias), out, stride_, dilation_, pad_, pad_);
  }
  memory::desc bias_desc() const { return memory::desc({geometry_.out_channels}, kF32, Tag::x); }
  /// Empty: none.
  memory::desc bias_desc(bool bias) const { return bias ? bias_desc() : memory::desc(); }

  static memory::desc weight_order(const Forward::primitive_desc& desc) { return desc.weights_desc(); }
  static memory::desc weight_order(const BackwardData::primitive_desc& desc) { return desc.weights_desc(); }
  static memory::desc weight_order(const BackwardWeights::primitive_desc& desc) {
    return desc.diff_weights_desc();
  }

  /// Calls describe(in, weight, out), with factors in type `factors` and the result in f32, or bf16 where a
  /// bf16 kernel produces bf16 activations: first for the fixed batch with free choice of the weights' order,
  /// then for the real batch with that order, or with free choice again if no good kernel supports it.
  template <class Describe>
  auto choose(memory::data_type factors, Pass pass, const Tensor& input, const Tensor& output,
              const memory::desc& weight, Describe describe) const {
    memory::dims in = input.shape().dims(), out = output.shape().dims();
    const bool makes_bf16 = !is_of_weight(pass) && input.dtype() == DType::bf16;
    const auto type_of = [&](bool is_made) { return is_made && !makes_bf16 ? kF32 : factors; };
    const memory::desc any = any_order(weight, type_of(is_of_weight(pass)));
    const auto at = [&](std::int64_t batch, const memory::desc& weight) {
      in[0] = out[0] = batch;
      return describe(kernel_activation(in, type_of(pass == Pass::backward_data)), weight,
                      kernel_activation(out, type_of(pass == Pass::forward)));
    };
    const std::int64_t batch = input.shape()[0];
    auto fixed = at(kFixedBatch, any);
    try {
      auto chosen = at(batch, weight_order(fixed));
      if (!is_slow(chosen)) return chosen;
    } catch (const dnnl::error&) {
    }
    return at(batch, any);
  }

  using Desc = memory::desc;
  std::optional<Plan> make_plan(memory::data_type factors, Pass pass, const Tensor& input,
                                const Tensor& output, bool bias) const {
    const memory::desc in = caller_activation(input), out = caller_activation(output);
    const memory::desc weight = caller_weight(geometry_);
    switch (pass) {
      case Pass::forward: {
        const dnnl::primitive_attr attributes = forward_attributes();
        const auto chosen =
            choose(factors, pass, input, output, weight, [&](const Desc& i, const Desc& w, const Desc& o) {
              return forward_desc(i, w, o, bias, attributes);
            });
        if (is_slow(chosen)) return std::nullopt;
        Plan plan(engine_, chosen.scratchpad_desc(), math_ == Math::bf16_in_f32);
        plan.set_kernel(Forward(chosen));
        plan.read(DNNL_ARG_SRC, in, chosen.src_desc());
        plan.read(DNNL_ARG_WEIGHTS, weight, chosen.weights_desc());
        plan.write(DNNL_ARG_DST, out, chosen.dst_desc());
        if (bias) plan.read(DNNL_ARG_BIAS, bias_desc(), chosen.bias_desc());
        return plan;
      }
      case Pass::backward_data: {
        if (always_turns_ || (own_kernels_ && turning_pays(geometry_, input, output)))
          if (auto plan = make_turned_plan(input, output)) return plan;
        const auto chosen =
            choose(factors, pass, input, output, weight,
                   [&](const Desc& i, const Desc& w, const Desc& o) { return backward_data_desc(i, w, o); });
        if (is_slow(chosen)) return std::nullopt;
        Plan plan(engine_, chosen.scratchpad_desc(), math_ == Math::bf16_in_f32);
        plan.set_kernel(BackwardData(chosen));
        plan.read(DNNL_ARG_DIFF_DST, out, chosen.diff_dst_desc());
        plan.read(DNNL_ARG_WEIGHTS, weight, chosen.weights_desc());
        plan.write(DNNL_ARG_DIFF_SRC, in, chosen.diff_src_desc());
        return plan;
      }
      case Pass::backward_weight:
      case Pass::first_backward_weight: {
        const bool adds = pass == Pass::backward_weight;
        const auto chosen = choose(
            factors, pass, input, output, weight,
            [&](const Desc& i, const Desc& w, const Desc& o) { return backward_weight_desc(i, w, o, bias); });
        if (is_slow(chosen)) return std::nullopt;
        Plan plan(engine_, chosen.scratchpad_desc(), math_ == Math::bf16_in_f32);
        plan.set_kernel(BackwardWeights(chosen));
        plan.read(DNNL_ARG_SRC, in, chosen.src_desc());
        plan.read(DNNL_ARG_DIFF_DST, out, chosen.diff_dst_desc());
        plan.write_or_add(DNNL_ARG_DIFF_WEIGHTS, weight, chosen.diff_weights_desc(), adds);
        if (bias) plan.write_or_add(DNNL_ARG_DIFF_BIAS, bias_desc(), chosen.diff_bias_desc(), adds);
        return plan;
      }
    }
    return std::nullopt;
  }

  /// The gradient of the input by the turned convolution's forward pass.
  std::optional<Plan> make_turned_plan(const Tensor& input, const Tensor& output) const {
    const ConvolutionGeometry other = turned(geometry_);
    const memory::desc weight = caller_weight(other);
    const auto chosen = choose(kF32, Pass::backward_data, input, output, weight,
                               [&](const Desc& i, const Desc& w, const Desc& o) {
                                 return forward_desc(o, w, i, false, other.pad, attributes_);
                               });
    if (is_slow(chosen)) return std::nullopt;
    Plan plan(engine_, chosen.scratchpad_desc(), false);
    plan.set_kernel(Forward(chosen));
    plan.read(DNNL_ARG_SRC, caller_activation(output), chosen.src_desc());
    plan.read_turned(geometry_, weight, chosen.weights_desc());
    plan.write(DNNL_ARG_DST, caller_activation(input), chosen.dst_desc());
    return plan;
  }

  ConvolutionGeometry geometry_;
  dnnl::engine engine_;
  Math math_;
  bool by_rules_, own_kernels_;  ///< ours stand in for oneDNN's; those for f32 too
  bool always_turns_;
  dnnl::primitive_attr attributes_;  // for everything but a forward pass with a ReLU
  memory::dims stride_, dilation_, pad_;
  Activation end_;                            ///< of forward(): no ELU
  Activation inside_;                         ///< the same if the kernel runs it
  std::map<Key, std::optional<Plan>> plans_;  // node-based: enqueued work refers to its elements
  bool weights_stay_ = false;
  Tensor kept_;              ///< the weights as the last plan's kernel reads them,
  memory::desc kept_order_;  ///< in this order; empty: not yet
  Tensor transformed_;       ///< the weights as forward_by_winograd reads them,
  bool transformed_are_filled_ = false;
  std::unique_ptr<Convolution> reference_;
};

std::unique_ptr<Convolution> make_cpu_convolution(Context& context, const ConvolutionGeometry& geometry,
                                                  DType dtype) {
  if (dtype != DType::f32 && dtype != DType::f64)
    runtime_failure("convolution on CPU does not support ", name_of(dtype), " tensors (f32 and f64 only)");
  if (dtype == DType::f64 || geometry.spatial_axes() < 1 || geometry.spatial_axes() > 3)
    return make_reference_convolution(geometry);
  return std::make_unique<DnnlConvolution>(geometry, context.device().math(), Kernels::by_rules);
}

const bool defined = (define_convolution(DeviceKind::cpu, &make_cpu_convolution), true);

}  // namespace

std::unique_ptr<Convolution> make_library_convolution(const ConvolutionGeometry& geometry, Math math) {
  return std::make_unique<DnnlConvolution>(geometry, math, Kernels::library);
}
std::unique_ptr<Convolution> make_turned_convolution(const ConvolutionGeometry& geometry) {
  return std::make_unique<DnnlConvolution>(geometry, Math::full, Kernels::turned);
}

}  // namespace banyan::ops
