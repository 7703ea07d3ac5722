// DeformableConvolution: it is a Convolution where no point is moved; its gradients; torchvision's
// deform_conv2d; refusals.
#include <unistd.h>

#include <filesystem>

#include "banyan/base/error.hpp"
#include "banyan/io/arrays.hpp"
#include "layers/gradient_checker.hpp"
#include "python_script.hpp"

namespace banyan::testing {
namespace {

struct DeformableCase {
  std::string settings;
  Shape image;
  int kernel_h, kernel_w, groups;
};

const DeformableCase kDeformable[] = {
    {"num_output: 5 kernel_size: 3 pad: 1", {2, 4, 6, 5}, 3, 3, 1},
    {"num_output: 6 kernel_size: 3 pad: 2 dilation: 2 stride: 2 deformable_group: 4 bias_term: false",
     {2, 8, 7, 6},
     3,
     3,
     4},
    {"num_output: 4 kernel_h: 1 kernel_w: 2 stride_h: 2 stride_w: 1 group: 2 deformable_group: 3",
     {1, 6, 5, 4},
     1,
     2,
     3}};

std::string deformable_text(const std::string& type, std::string settings) {
  if (type == "Convolution")
    if (const auto at = settings.find(" deformable_group: "); at != std::string::npos) settings.erase(at, 20);
  return "type: '" + type + "' convolution_param { " + settings + " }";
}

Shape output_of(const DeformableCase& tested) {
  return Bench(deformable_text("Convolution", tested.settings), {tested.image}, 1).outputs[0]->shape;
}
Shape offsets_of(const DeformableCase& tested) {
  const Shape out = output_of(tested);
  return {tested.image[0], 2 * tested.groups * tested.kernel_h * tested.kernel_w, out[2], out[3]};
}

void set_deformable_parameters(Bench& bench) {
  for (std::size_t p = 0; p < bench.layer().parameters().size(); ++p)
    bench.set_parameter(
        p, spread_values(bench.layer().parameters()[p].shape.count(), 5 + static_cast<unsigned>(p)));
}

TEST(DeformableConvolution, IsAConvolutionWhereNothingIsMoved) {
  for (const DeformableCase& tested : kDeformable) {
    Bench plain(deformable_text("Convolution", tested.settings), {tested.image}, 1);
    Bench moved(deformable_text("DeformableConvolution", tested.settings), {tested.image, offsets_of(tested)},
                1);
    const Values x = spread_values(tested.image.count(), 1);
    const Values dy = spread_values(output_of(tested).count(), 2);
    for (Bench* bench : {&plain, &moved}) {
      set_deformable_parameters(*bench);
      bench->set_input(0, x);
    }
    moved.set_input(1, Values(static_cast<std::size_t>(offsets_of(tested).count()), 0.0));
    plain.forward();
    moved.forward();
    ASSERT_EQ(moved.outputs[0]->shape, plain.outputs[0]->shape);
    for (Bench* bench : {&plain, &moved}) {
      bench->zero_parameter_gradients();
      bench->backward(dy);
    }
    const auto same = [](const Values& found, const Values& expected) {
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12);
    };
    same(moved.output(), plain.output());
    same(moved.input_gradient(0), plain.input_gradient(0));
    for (std::size_t p = 0; p < plain.layer().parameters().size(); ++p)
      same(moved.parameter_gradient(p), plain.parameter_gradient(p));
  }
}

TEST(DeformableConvolution, HasItsGradients) {
  for (const DeformableCase& tested : kDeformable) {
    Bench bench(deformable_text("DeformableConvolution", tested.settings), {tested.image, offsets_of(tested)},
                1);
    set_deformable_parameters(bench);
    bench.set_input(0, spread_values(tested.image.count(), 1));
    bench.set_input(1, spread_values(offsets_of(tested).count(), 3, 1.7));
    GradientChecker(bench).run();
  }
}

TEST(DeformableConvolution, LearnsABiasBesideFixedWeights) {
  Bench bench(
      "type: 'DeformableConvolution' param { lr_mult: 0 } convolution_param { num_output: 2 kernel_size: 1 }",
      {Shape{2, 1, 2, 2}, Shape{2, 2, 2, 2}}, 1);
  bench.set_input(0, Values(8, 1));
  bench.set_input(1, Values(16, 0));
  bench.forward();
  bench.zero_parameter_gradients();
  bench.backward(Values{1, 2, 3, 4, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 2, 0});
  EXPECT_EQ(bench.parameter_gradient(1), (Values{15, 3}));
}

std::string deformable_refusal(const std::string& settings, const std::vector<Shape>& shapes) {
  try {
    Bench bench(deformable_text("DeformableConvolution", settings), shapes, 1);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(DeformableConvolution, RefusesWhatDoesNotFit) {
  const Shape image{1, 6, 5, 5}, offsets{1, 18, 3, 3};
  const auto expect = [&](const std::string& settings, const std::vector<Shape>& shapes,
                          const std::string& part) {
    const std::string found = deformable_refusal(settings, shapes);
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect("kernel_size: 3", {image, offsets}, "num_output is missing");
  expect("num_output: 4 kernel_size: 3 deformable_group: 4", {image, offsets},
         "deformable_group 4 must divide the 6 input channels");
  expect("num_output: 4 kernel_size: 3 group: 3", {image, offsets},
         "group 3 must divide both the 6 input channels and num_output 4");
  expect("num_output: 4 kernel_size: 3 deformable_group: 2", {image, offsets},
         "the offsets \"input1\" have the shape 1 18 3 3 (162); expected 1 36 3 3 (324)");
  expect("num_output: 4 kernel_size: 3", {Shape{1, 6, 5}, offsets}, "expected images (N, C, H, W)");
  expect("num_output: 4 kernel_size: 7", {image, offsets}, "is smaller than the kernel");
  try {
    Bench("type: 'Convolution' convolution_param { num_output: 4 kernel_size: 3 deformable_group: 2 }",
          {image}, 1);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("deformable_group is for DeformableConvolution"),
              std::string::npos);
  }
}

/// Every point lies between pixels, or a pixel or more outside: within one pixel of the border torchvision
/// lets values fade to 0, Deformable R-FCN's Caffe does not.
Values offsets_off_the_border(const DeformableCase& tested, int stride, int pad, int dilation) {
  const Shape moves = offsets_of(tested);
  std::mt19937 random(7);
  std::uniform_real_distribution<double> share(0, 1);
  Values offsets;
  for (std::int64_t n = 0; n < moves[0]; ++n)
    for (std::int64_t channel = 0; channel < moves[1]; ++channel)
      for (std::int64_t i = 0; i < moves[2]; ++i)
        for (std::int64_t j = 0; j < moves[3]; ++j) {
          const std::int64_t k = channel / 2 % (tested.kernel_h * tested.kernel_w);
          const bool down = channel % 2 == 0;
          const std::int64_t length = tested.image[down ? 2 : 3];
          const std::int64_t at =
              (down ? i : j) * stride - pad + (down ? k / tested.kernel_w : k % tested.kernel_w) * dilation;
          const double inside = share(random) * static_cast<double>(length - 1);
          const double outside =
              share(random) < 0.5 ? -1 - share(random) : static_cast<double>(length) + share(random);
          offsets.push_back((share(random) < 0.9 ? inside : outside) - static_cast<double>(at));
        }
  return offsets;
}

TEST(DeformableConvolution, ComputesWhatTorchvisionComputes) {
  const std::string folder = ::testing::TempDir() + "banyan_deform_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const int strides[] = {1, 2}, pads[] = {1, 2};
  for (std::size_t k = 0; k < 2; ++k) {
    const DeformableCase& tested = kDeformable[k];
    BenchOptions options;
    options.dtype = DType::f32;
    Bench bench(deformable_text("DeformableConvolution", tested.settings), {tested.image, offsets_of(tested)},
                1, options);
    set_deformable_parameters(bench);
    const Values x = spread_values(tested.image.count(), 1);
    const Values offsets = offsets_off_the_border(tested, strides[k], pads[k], pads[k]);
    const Values dy = spread_values(output_of(tested).count(), 2);
    bench.set_input(0, x);
    bench.set_input(1, offsets);
    bench.forward();
    const Values y = bench.output();
    bench.zero_parameter_gradients();
    bench.backward(dy);
    io::NamedArrays arrays;
    const auto keep = [&](const std::string& name, const Shape& shape, const Values& values) {
      io::NamedArray& array = arrays.emplace_back();
      array.name = name;
      array.data.shape = shape.dims();
      array.data.doubles = values;
    };
    keep("x", tested.image, x);
    keep("offsets", offsets_of(tested), offsets);
    keep("weight", bench.layer().parameters()[0].shape, bench.parameter(0));
    keep("dweight", bench.layer().parameters()[0].shape, bench.parameter_gradient(0));
    if (bench.layer().parameters().size() > 1) {
      keep("bias", bench.layer().parameters()[1].shape, bench.parameter(1));
      keep("dbias", bench.layer().parameters()[1].shape, bench.parameter_gradient(1));
    }
    keep("y", output_of(tested), y);
    keep("dy", output_of(tested), dy);
    keep("dx", tested.image, bench.input_gradient(0));
    keep("doffsets", offsets_of(tested), bench.input_gradient(1));
    keep("windows", Shape{3}, {double(strides[k]), double(pads[k]), double(pads[k])});
    io::write_npz(folder + "/deform_" + std::to_string(k) + ".npz", arrays);
  }
  const ScriptRun run = run_python("layers/torchvision_compare.py", "'" + folder + "'", folder + "/report");
  std::filesystem::remove_all(folder);
  if (run.lacks_modules) GTEST_SKIP() << "needs Python with torchvision (BANYAN_PYTHON): " << run.report;
  EXPECT_EQ(run.code, 0) << run.report;
}

}  // namespace
}  // namespace banyan::testing
