// An iteration captured into a CUDA graph and replayed is bit-identical to one enqueued step by step,
// although rate, bias correction, clip factor and random numbers differ every time.
#include <cmath>
#include <functional>

#include "banyan/device/stamp.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/net/net.hpp"
#include "banyan/net/parameter_values.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/train/updater.hpp"
#include "gpu/gpu_training.hpp"

namespace banyan {
namespace {

using ops::UpdateRule;

/// The inputs are filled once and stay on the GPU.
const char* const kNet = R"(
layer { name: 'in' type: 'Input' top: 'data' top: 'label'
  input_param { shape { dim: 6 dim: 2 dim: 8 dim: 8 } shape { dim: 6 } } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
  param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'bn' type: 'BN' bottom: 'conv' top: 'bn'
  bn_param { slope_filler { value: 1 } bias_filler { value: 0.5 } } }
layer { name: 'relu' type: 'ReLU' bottom: 'bn' top: 'bn' }
layer { name: 'pool' type: 'Pooling' bottom: 'bn' top: 'pool'
  pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 } }
layer { name: 'drop' type: 'Dropout' bottom: 'pool' top: 'pool' dropout_param { dropout_ratio: 0.4 } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
)";

struct Result {
  std::vector<double> losses, parameters, statistics;
  bool operator==(const Result&) const = default;
};

std::vector<double> host_values(Context& context, const Tensor& tensor) {
  std::vector<double> values;
  dispatch_float(tensor.dtype(), "test", [&]<class T>() {
    std::vector<T> typed(tensor.count());
    copy_to_host(context, tensor, typed.data());
    values.assign(typed.begin(), typed.end());
  });
  return values;
}

class Training {
 public:
  Training(UpdateRule rule, DType dtype) {
    NetOptions options;
    options.dtype = dtype;
    options.seed = 3;
    net_ = std::make_unique<Net>(io::parse_net_text(kNet, "net"), options, context_, activity_);
    fill_parameters(*net_);
    fill("data", [](std::int64_t i) { return std::sin(static_cast<double>(i)); });
    fill("label", [](std::int64_t i) { return static_cast<double>(i % 5); });
    SolverSettings solver;
    solver.update.rule = rule;
    solver.update.momentum = 0.9;
    solver.update.momentum2 = 0.99;
    solver.update.rms_decay = 0.98;
    solver.update.delta = 1e-4;
    solver.update.weight_decay = 0.01;
    if (rule == UpdateRule::sgd || rule == UpdateRule::sag) {  // so that the replay covers them too
      solver.update.layer_wise = LayerWise::larc_scale;
      solver.update.layer_wise_eta = 0.1;
      solver.update.larc_turbo = rule == UpdateRule::sag;
    }
    updater_ =
        std::make_unique<Updater>(context_, solver, net_->parameters(),
                                  std::vector<parallel::Bucket>{{0, net_->flat_values().count(), 1, 0}}, 0,
                                  net_->flat_values(), net_->flat_gradients());
    pass_.context = &context_;
    pass_.seed = 7;
  }

  void begin(int iteration) {
    draw(iteration);
    updater_->begin(context_, iteration, rate(iteration));
  }
  void draw(int iteration) {
    pass_.iteration = pass_.draw = iteration;
    net_->prepare(pass_);
  }
  void clip() {
    const double norm = std::sqrt(updater_->sum_of_squares(context_));
    updater_->set_gradient_factor(context_, norm > 0.125 ? 0.125 / norm : 1);
  }
  void forward_backward() {
    net_->zero_gradients();
    net_->run(pass_);
    net_->backward(pass_);
  }
  void update() { updater_->update(context_, 0); }
  void note_loss() { result_.losses.push_back(host_values(context_, net_->loss())[0]); }
  Result result() {
    result_.parameters = host_values(context_, net_->flat_values());
    result_.statistics = host_values(context_, net_->statistics());
    return result_;
  }
  std::unique_ptr<ExecutableGraph> captured(const std::function<void()>& work) {
    return context_.stream().capture(work);
  }
  Context& context() { return context_; }

 private:
  static double rate(int iteration) { return 0.05 / (1 + 0.3 * iteration); }
  void fill(const char* name, double (*value)(std::int64_t)) {
    Tensor& blob = net_->find_blob(name)->data;
    dispatch_float(blob.dtype(), "test", [&]<class T>() {
      std::vector<T> values;
      for (std::int64_t i = 0; i < blob.count(); ++i) values.push_back(static_cast<T>(value(i)));
      copy_from_host(context_, values.data(), blob);
    });
  }

  std::unique_ptr<Device> device_ = make_cuda_device(0, 0);
  Context context_{*device_};
  Activity activity_{"gpu:0"};
  std::unique_ptr<Net> net_;
  std::unique_ptr<Updater> updater_;
  Pass pass_;
  Result result_;
};

constexpr int kIterations = 5;

Result step_by_step(UpdateRule rule, DType dtype, bool clip = false) {
  Training training(rule, dtype);
  for (int i = 0; i < kIterations; ++i) {
    training.begin(i);
    training.forward_backward();
    if (clip) training.clip();
    training.update();
    training.note_loss();
  }
  return training.result();
}

/// The first iteration is not captured: it chooses kernels and allocates scratch memory.
Result replayed(UpdateRule rule, DType dtype, const std::function<void(Training&, int)>& begin) {
  Training training(rule, dtype);
  const auto iteration = [&] {
    training.forward_backward();
    training.update();
  };
  training.begin(0);
  iteration();
  training.note_loss();
  const auto graph = training.captured(iteration);
  for (int i = 1; i < kIterations; ++i) {
    begin(training, i);
    graph->replay(training.context().stream());
    training.note_loss();
  }
  return training.result();
}

class GraphReplay : public GpuTraining {};

TEST_F(GraphReplay, GivesTheBitsOfAnIterationStepByStep) {
  for (const UpdateRule rule :
       {UpdateRule::sgd, UpdateRule::nesterov, UpdateRule::sag, UpdateRule::adagrad, UpdateRule::rmsprop,
        UpdateRule::adadelta, UpdateRule::adam, UpdateRule::adamw, UpdateRule::lamb})
    for (const DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(cat(name_of(rule), " ", name_of(dtype)));
      const Result expected = step_by_step(rule, dtype);
      const Result found = replayed(rule, dtype, [](Training& training, int i) { training.begin(i); });
      EXPECT_EQ(found.losses, expected.losses);
      EXPECT_EQ(found.parameters, expected.parameters);
      EXPECT_EQ(found.statistics, expected.statistics);
    }
}

/// Shows that the equality above is not one of numbers that never change.
TEST_F(GraphReplay, ReadsDrawAndRateWhenItRuns) {
  const Result expected = step_by_step(UpdateRule::adam, DType::f32);
  const auto same_rate = [](Training& training, int i) { training.draw(i); };
  const auto same_draw = [](Training& training, int i) {
    training.begin(i);
    training.draw(0);
  };
  EXPECT_NE(replayed(UpdateRule::adam, DType::f32, same_rate).parameters, expected.parameters);
  EXPECT_NE(replayed(UpdateRule::adam, DType::f32, same_draw).losses, expected.losses);
}

/// The host decides between two graphs.
TEST_F(GraphReplay, TakesAClipFactorOnItsWay) {
  const Result expected = step_by_step(UpdateRule::nesterov, DType::f32, true);
  EXPECT_NE(expected, step_by_step(UpdateRule::nesterov, DType::f32, false));
  Training training(UpdateRule::nesterov, DType::f32);
  std::unique_ptr<ExecutableGraph> pass, update;
  for (int i = 0; i < kIterations; ++i) {
    training.begin(i);
    i == 0 ? training.forward_backward() : pass->replay(training.context().stream());
    training.clip();
    i == 0 ? training.update() : update->replay(training.context().stream());
    training.note_loss();
    if (i > 0) continue;
    pass = training.captured([&] { training.forward_backward(); });
    update = training.captured([&] { training.update(); });
  }
  EXPECT_EQ(training.result(), expected);
}

class StreamCapture : public GpuTraining {
 protected:
  void SetUp() override {
    GpuTraining::SetUp();
    if (IsSkipped()) return;
    device_ = make_cuda_device(0, 0);
    context_ = std::make_unique<Context>(*device_);
    tensor_ = Tensor(*device_, {3}, DType::f32);
    ops::fill(*context_, tensor_, 1);
    context_->synchronize();
  }
  std::vector<double> values() { return host_values(*context_, tensor_); }
  void doubled(Context& context) { ops::axpby(context, 1, tensor_, 1, tensor_); }
  std::string message_of(const std::function<void()>& work) {
    try {
      static_cast<void>(context_->stream().capture(work));
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Context> context_;
  Tensor tensor_;
};

TEST_F(StreamCapture, RunsNothingUntilItIsReplayed) {
  const auto graph = context_->stream().capture([&] { doubled(*context_); });
  EXPECT_EQ(values(), std::vector<double>(3, 1));
  for (int i = 0; i < 3; ++i) graph->replay(context_->stream());
  EXPECT_EQ(values(), std::vector<double>(3, 8));
}

TEST_F(StreamCapture, TakesInStreamsThatJoin) {
  Context other(*device_, "other");
  const auto fork = device_->create_event(), join = device_->create_event();
  const auto graph = context_->stream().capture([&] {
    doubled(*context_);
    context_->stream().record(*fork);
    other.stream().wait(*fork);
    doubled(other);
    other.stream().record(*join);
    context_->stream().wait(*join);
    ops::axpby(*context_, 1, tensor_, 0, tensor_);
  });
  graph->replay(context_->stream());
  graph->replay(context_->stream());
  EXPECT_EQ(values(), std::vector<double>(3, 16));
}

TEST_F(StreamCapture, OfWhatCannotBeCapturedFailsAndLeavesTheStreamUsable) {
  EXPECT_NE(message_of([&] { context_->synchronize(); }).find("the work of stream \"compute\" failed: "),
            std::string::npos);
  EXPECT_NE(message_of([&] { context_->workspace(std::size_t{1} << 20); }).find("failed"), std::string::npos);
  EXPECT_EQ(message_of([&] { runtime_failure("not today"); }), "not today");
  Context other(*device_, "other");
  const auto fork = device_->create_event();
  EXPECT_NE(message_of([&] {
              context_->stream().record(*fork);
              other.stream().wait(*fork);
              doubled(other);
            }).find("the capture of stream \"compute\" failed"),
            std::string::npos)
      << "the other stream has not joined";
  doubled(*context_);
  EXPECT_EQ(values(), std::vector<double>(3, 2));
}

/// An event that is captured is no point in time.
TEST_F(StreamCapture, IsNotStamped) {
  std::atomic<std::int64_t> at{0};
  const auto graph = context_->stream().capture([&] {
    stamp(context_->stream(), at);
    doubled(*context_);
  });
  graph->replay(context_->stream());
  EXPECT_EQ(values(), std::vector<double>(3, 2));
  EXPECT_EQ(at, 0);
}

TEST_F(StreamCapture, RunsOnItsOwnGpuOnly) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "one GPU only";
  const auto graph = context_->stream().capture([&] { doubled(*context_); });
  const auto other = make_cuda_device(1, 0);
  Context elsewhere(*other);
  EXPECT_THROW(graph->replay(elsewhere.stream()), Error);
}

}  // namespace
}  // namespace banyan
