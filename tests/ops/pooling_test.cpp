// Pooling against naive loops that write out Caffe's rules.
#include "banyan/ops/pooling.hpp"

#include <cfloat>

#include "banyan/base/error.hpp"
#include "ops/device_fixture.hpp"
#include "ops/gradient_check.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;
using ops::PoolingGeometry;
using ops::PoolingMethod;

struct PoolingCase {
  const char* name;
  std::int64_t h, w, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;

  PoolingGeometry geometry(PoolingMethod method) const {
    return {method, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w};
  }
  /// As computed by the layer: rounded up, without a window that starts beyond in + pad.
  static std::int64_t length(std::int64_t in, std::int64_t k, std::int64_t s, std::int64_t pad, bool padded) {
    std::int64_t out = (in + 2 * pad - k + s - 1) / s + 1;
    if (padded && (out - 1) * s >= in + pad) --out;
    return out;
  }
  Shape output(std::int64_t n, std::int64_t c) const {
    const bool padded = pad_h > 0 || pad_w > 0;
    return {n, c, length(h, kernel_h, stride_h, pad_h, padded), length(w, kernel_w, stride_w, pad_w, padded)};
  }
};

const PoolingCase kPoolingCases[] = {
    {"2x2 stride 2", 6, 8, 2, 2, 2, 2, 0, 0},
    {"overhang", 7, 6, 3, 3, 2, 2, 0, 0},  // 6 wide: the last window overhangs the right edge
    {"overlapping with pad", 7, 9, 3, 3, 2, 2, 1, 1},
    {"stride 1 with pad", 5, 4, 3, 3, 1, 1, 1, 1},
    {"uneven", 9, 5, 2, 3, 3, 1, 0, 2},
    {"overhang with pad", 8, 8, 3, 3, 3, 3, 1, 1},
    {"whole input", 4, 5, 4, 5, 1, 1, 0, 0},
    {"window outside", 5, 5, 1, 1, 3, 3, 0, 0},  // Caffe keeps a third window, which starts beyond the input
};
constexpr std::int64_t kBatch = 2, kChannels = 5;

/// Calls visit(output index, input indices of the window in order, Caffe's divisor).
template <class Visit>
void for_each_window(const PoolingCase& k, const Shape& out, Visit visit) {
  std::size_t o = 0;
  for (std::int64_t plane = 0; plane < out.count(0, 2); ++plane)
    for (std::int64_t oh = 0; oh < out[2]; ++oh)
      for (std::int64_t ow = 0; ow < out[3]; ++ow) {
        const std::int64_t h0 = oh * k.stride_h - k.pad_h, w0 = ow * k.stride_w - k.pad_w;
        const std::int64_t h1 = std::min(h0 + k.kernel_h, k.h + k.pad_h),
                           w1 = std::min(w0 + k.kernel_w, k.w + k.pad_w);
        std::vector<std::size_t> inside;
        for (std::int64_t h = h0; h < h1; ++h)
          for (std::int64_t w = w0; w < w1; ++w)
            if (h >= 0 && h < k.h && w >= 0 && w < k.w)
              inside.push_back(static_cast<std::size_t>((plane * k.h + h) * k.w + w));
        visit(o++, inside, static_cast<double>((h1 - h0) * (w1 - w0)));
      }
}

class PoolingTest : public DeviceTest {
 protected:
  std::int64_t channels_ = kChannels;
  bool counts_padding_ = true;
  DType mask_type_ = DType::i32;
  struct Result {
    Values output, mask, grad_input;
  };
  Result run(const PoolingCase& k, PoolingMethod method, const Values& x, const Values& dy, Layout layout,
             bool training = true, ops::RandomKey key = {}, ops::SampleIndex samples = {}) {
    const std::int64_t batch = static_cast<std::int64_t>(x.size()) / (channels_ * k.h * k.w);
    const Shape in{batch, channels_, k.h, k.w}, out = k.output(batch, channels_);
    const Tensor input = make(in, x, layout), grad_output = make(out, dy, layout);
    Tensor output = empty(out, layout), grad_input = make(in, Values(x.size(), NAN), layout);
    Tensor mask(device(), out, mask_type_, layout);
    PoolingGeometry geometry = k.geometry(method);
    geometry.counts_padding = counts_padding_;
    ops::pooling_forward(context(), geometry, input, training, on_device(key), samples, output, mask);
    Result result;
    result.output = values(output);
    if (training || method == PoolingMethod::maximum)
      ops::pooling_backward(context(), geometry, grad_output, mask, grad_input);
    if (method != PoolingMethod::average && (training || method == PoolingMethod::maximum))
      result.mask = values(mask);
    result.grad_input = values(grad_input);
    return result;
  }
  Values input(const PoolingCase& k, unsigned seed, double low = -1) {
    return rounded(random_values(kBatch * kChannels * k.h * k.w, seed, low));
  }
};

TEST_P(PoolingTest, Maximum) {
  for (const PoolingCase& k : kPoolingCases) {
    const Shape out = k.output(kBatch, kChannels);
    Values x = input(k, 1);
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 0.5;  // ties: the first counts
    const Values dy = rounded(random_values(out.count(), 2));
    Values y, mask, dx(x.size(), 0.0);
    for_each_window(k, out, [&](std::size_t o, const auto& window, double) {
      double best = -static_cast<double>(FLT_MAX);
      double where = -1;
      for (const std::size_t i : window)
        if (x[i] > best) best = x[i], where = static_cast<double>(i);
      y.push_back(best);
      if (where >= 0) dx[where] += dy[o];
      mask.push_back(where < 0 ? -1 : std::fmod(where, static_cast<double>(k.h * k.w)));
    });
    for (const Layout layout : kLayouts) {
      SCOPED_TRACE(cat(k.name, " ", name_of(layout)));
      const Result found = run(k, PoolingMethod::maximum, x, dy, layout);
      EXPECT_EQ(found.output, y);
      EXPECT_EQ(found.mask, mask);
      expect_near(found.grad_input, dx, 8 * epsilon());  // at most 9 terms
    }
  }
}

TEST_P(PoolingTest, MaximumOfManyChannelsIsTheSameInBothLayouts) {
  channels_ = 80;  // vectors of several lengths
  for (const PoolingCase& k : kPoolingCases) {
    SCOPED_TRACE(k.name);
    Values x = rounded(random_values(channels_ * k.h * k.w, 1));
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 0.5;
    for (std::size_t i = 0; i < x.size(); i += 17) x[i] = NAN;  // never greater than another value
    const Values dy = rounded(random_values(k.output(1, channels_).count(), 2));
    const Result contiguous = run(k, PoolingMethod::maximum, x, dy, Layout::contiguous);
    const Result last = run(k, PoolingMethod::maximum, x, dy, Layout::channels_last);
    EXPECT_EQ(last.output, contiguous.output);
    EXPECT_EQ(last.mask, contiguous.mask);
    EXPECT_EQ(last.grad_input, contiguous.grad_input);
  }
}

TEST_P(PoolingTest, MaskOfBytesGivesTheSameGradient) {
  channels_ = 40;
  for (const PoolingCase& k : kPoolingCases) {
    Values x = rounded(random_values(kBatch * channels_ * k.h * k.w, 3));
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 0.5;
    for (std::size_t i = 0; i < x.size(); i += 4) x[i] = NAN;
    const Values dy = rounded(random_values(k.output(kBatch, channels_).count(), 4));
    for (const Layout layout : kLayouts) {
      SCOPED_TRACE(cat(k.name, " ", name_of(layout)));
      mask_type_ = DType::i32;
      const Result wide = run(k, PoolingMethod::maximum, x, dy, layout);
      mask_type_ = ops::smallest_mask(k.geometry(PoolingMethod::maximum));
      ASSERT_EQ(mask_type_, DType::u8);
      const Result narrow = run(k, PoolingMethod::maximum, x, dy, layout);
      EXPECT_EQ(narrow.output, wide.output);
      EXPECT_EQ(narrow.grad_input, wide.grad_input);
      for (std::size_t o = 0; o < wide.mask.size(); ++o)
        ASSERT_EQ(narrow.mask[o] == 255, wide.mask[o] == -1) << o;
    }
  }
}

TEST_P(PoolingTest, MaskOfBytesIsForSmallWindowsOnly) {
  PoolingGeometry geometry{PoolingMethod::maximum, 16, 16, 1, 1};
  EXPECT_EQ(ops::smallest_mask(geometry), DType::i32);
  const Tensor input = empty({1, 1, 16, 16});
  Tensor output = empty({1, 1, 1, 1}), mask(device(), {1, 1, 1, 1}, DType::u8);
  EXPECT_THROW(ops::pooling_forward(context(), geometry, input, true, {}, {}, output, mask), Error);
  geometry.kernel_h = 15;
  EXPECT_EQ(ops::smallest_mask(geometry), DType::u8);
}

TEST_P(PoolingTest, Average) {
  for (const PoolingCase& k : kPoolingCases) {
    const Shape out = k.output(kBatch, kChannels);
    const Values x = input(k, 3), dy = rounded(random_values(out.count(), 4));
    Values y, dx(x.size(), 0.0);
    for_each_window(k, out, [&](std::size_t o, const auto& window, double divisor) {
      double sum = 0;
      for (const std::size_t i : window) {
        sum += x[i];
        dx[i] += dy[o] / divisor;
      }
      y.push_back(window.empty() ? 0 : sum / divisor);
    });
    std::vector<Result> results;
    for (const Layout layout : kLayouts) {
      SCOPED_TRACE(cat(k.name, " ", name_of(layout)));
      const Result found = run(k, PoolingMethod::average, x, dy, layout);
      expect_near(found.output, y, 16 * epsilon());  // at most 20 terms
      expect_near(found.grad_input, dx, 16 * epsilon());
      results.push_back(found);
    }
    EXPECT_EQ(results[0].output, results[1].output) << k.name;  // the same additions in the same order
    EXPECT_EQ(results[0].grad_input, results[1].grad_input) << k.name;
  }
}

TEST_P(PoolingTest, AverageOfManyChannelsIsTheSameInBothLayouts) {
  channels_ = 1100;  // more than CPU devices take at a time
  for (const PoolingCase& k : kPoolingCases)
    for (const std::int64_t batch : {1, 3}) {  // fewer maps than threads, and more
      SCOPED_TRACE(cat(k.name, ", ", batch));
      const Values x = rounded(random_values(batch * channels_ * k.h * k.w, 5));
      Values dy = rounded(random_values(k.output(batch, channels_).count(), 6));
      for (std::size_t i = 0; i < dy.size(); i += 5) dy[i] = -0.0;
      const Result contiguous = run(k, PoolingMethod::average, x, dy, Layout::contiguous);
      const Result last = run(k, PoolingMethod::average, x, dy, Layout::channels_last);
      EXPECT_EQ(last.output, contiguous.output);
      EXPECT_EQ(last.grad_input, contiguous.grad_input);
      for (const Result* result : {&contiguous, &last})  // sums that begin with 0
        EXPECT_TRUE(std::none_of(result->grad_input.begin(), result->grad_input.end(),
                                 [](double g) { return g == 0 && std::signbit(g); }));
    }
}

TEST_P(PoolingTest, AverageOfThePixelsInside) {
  counts_padding_ = false;
  for (const PoolingCase& k : kPoolingCases) {
    const Shape out = k.output(kBatch, kChannels);
    const Values x = input(k, 3), dy = rounded(random_values(out.count(), 4));
    Values y, dx(x.size(), 0.0);
    for_each_window(k, out, [&](std::size_t o, const auto& window, double) {
      double sum = 0;
      for (const std::size_t i : window) {
        sum += x[i];
        dx[i] += dy[o] / static_cast<double>(window.size());
      }
      y.push_back(window.empty() ? 0 : sum / static_cast<double>(window.size()));
    });
    for (const Layout layout : kLayouts) {
      SCOPED_TRACE(cat(k.name, " ", name_of(layout)));
      const Result found = run(k, PoolingMethod::average, x, dy, layout);
      expect_near(found.output, y, 16 * epsilon());  // at most 20 terms
      expect_near(found.grad_input, dx, 16 * epsilon());
    }
  }
}

TEST_P(PoolingTest, StochasticInTestsWeighsByValue) {
  const PoolingCase k = kPoolingCases[1];
  Values x = input(k, 5, 0);
  for (std::size_t i = 0; i < 14; ++i) x[i] = 0;  // whole windows of zeros
  Values y;
  for_each_window(k, k.output(kBatch, kChannels), [&](std::size_t, const auto& window, double) {
    double sum = 0, squares = 0;
    for (const std::size_t i : window) sum += x[i], squares += x[i] * x[i];
    y.push_back(sum > 0 ? squares / sum : 0);
  });
  for (const Layout layout : kLayouts) {
    const Result found = run(k, PoolingMethod::stochastic, x, Values(y.size(), 0.0), layout, false);
    expect_near(found.output, y, 16 * epsilon());
  }
}

TEST_P(PoolingTest, StochasticTrainingDependsOnTheSampleAlone) {
  const PoolingCase k = kPoolingCases[0];
  const Values x = input(k, 6, 0);
  const std::size_t outputs = static_cast<std::size_t>(k.output(kBatch, kChannels).count());
  const Values dy(outputs, 1.0);
  const ops::RandomKey key{7, 8, 9};
  const Result first = run(k, PoolingMethod::stochastic, x, dy, Layout::contiguous, true, key, {3, 2});
  const Result last = run(k, PoolingMethod::stochastic, x, dy, Layout::channels_last, true, key, {3, 2});
  EXPECT_EQ(first.output, last.output);
  EXPECT_EQ(first.mask, last.mask);
  EXPECT_EQ(first.grad_input, last.grad_input);
  // Sample 1 of {3, 2} is global sample 5: alone on another device it draws the same values.
  const Values second(x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  const Result alone = run(k, PoolingMethod::stochastic, second, Values(outputs / 2, 1.0), Layout::contiguous,
                           true, key, {5, 1});
  EXPECT_EQ(alone.output,
            Values(first.output.begin() + static_cast<std::ptrdiff_t>(outputs / 2), first.output.end()));
  // Every output is the value its mask points at.
  for_each_window(k, k.output(kBatch, kChannels), [&](std::size_t o, const auto&, double) {
    const std::size_t plane = o / 12;  // 3 x 4 outputs
    EXPECT_EQ(first.output[o], x[plane * 48 + static_cast<std::size_t>(first.mask[o])]);
  });
}

TEST_P(PoolingTest, StochasticTrainingDrawsInProportion) {
  // One 2 x 2 window with shares 0.1, 0.2, 0.3, 0.4, drawn for 4000 samples.
  const std::int64_t draws = 4000;
  Values x;
  for (std::int64_t i = 0; i < draws; ++i) x.insert(x.end(), {1, 2, 3, 4});
  const Tensor input = make({draws, 1, 2, 2}, x);
  Tensor output = empty({draws, 1, 1, 1}), mask(device(), {draws, 1, 1, 1}, DType::i32);
  ops::pooling_forward(context(), {PoolingMethod::stochastic, 2, 2, 2, 2, 0, 0}, input, true,
                       on_device({1, 2, 3}), {}, output, mask);
  double seen[4] = {0, 0, 0, 0};
  for (const double where : values(mask)) seen[static_cast<std::size_t>(where)] += 1;
  // 5 standard deviations of a binomial count; the seed is fixed, so this cannot be flaky.
  for (int i = 0; i < 4; ++i) {
    const double share = 0.1 * (i + 1);
    EXPECT_NEAR(seen[i], share * draws, 5 * std::sqrt(draws * share * (1 - share)));
  }
}

TEST_P(PoolingTest, GradientsMatchDifferences) {
  if (dtype() != DType::f64) GTEST_SKIP() << "differences need f64";
  const PoolingCase k = kPoolingCases[2];
  const Values x = input(k, 10);  // no two values closer than the step: maxima do not change
  const Values dy = random_values(k.output(kBatch, kChannels).count(), 11);
  for (const PoolingMethod method : {PoolingMethod::maximum, PoolingMethod::average}) {
    for (const Layout layout : kLayouts) {
      expect_gradient([&](const Values& moved) { return dot(run(k, method, moved, dy, layout).output, dy); },
                      x, run(k, method, x, dy, layout).grad_input, 1e-7, 1e-7);
    }
  }
}

TEST_P(PoolingTest, OneOutputPixelMayHaveEitherLayout) {
  const PoolingCase k = kPoolingCases[6];
  const Values x = input(k, 12);
  for (const Layout in : kLayouts) {
    for (const Layout out : kLayouts) {
      const Tensor input = make({kBatch, kChannels, k.h, k.w}, x, in);
      Tensor output = empty({kBatch, kChannels, 1, 1}, out), none;
      ops::pooling_forward(context(), k.geometry(PoolingMethod::average), input, true, {}, {}, output, none);
      Values expected;
      for_each_window(k, output.shape(), [&](std::size_t, const auto& window, double divisor) {
        double sum = 0;
        for (const std::size_t i : window) sum += x[i];
        expected.push_back(sum / divisor);
      });
      expect_near(values(output), expected, 16 * epsilon());
    }
  }
}

TEST_P(PoolingTest, EmptyBatchAndMisfits) {
  Tensor input = empty({0, 3, 4, 4}), output = empty({0, 3, 2, 2});
  Tensor mask(device(), {0, 3, 2, 2}, DType::i32);
  const PoolingGeometry geometry{PoolingMethod::maximum, 2, 2, 2, 2, 0, 0};
  ops::pooling_forward(context(), geometry, input, true, {}, {}, output, mask);
  ops::pooling_backward(context(), geometry, output, mask, input);
  const Tensor other = empty({1, 3, 4, 4});
  Tensor mixed = empty({1, 3, 2, 2}, Layout::channels_last);
  EXPECT_THROW(ops::pooling_forward(context(), geometry, other, true, {}, {}, mixed, mask), Error);
}

BANYAN_ON_ALL_DEVICES(PoolingTest);

}  // namespace
}  // namespace banyan
