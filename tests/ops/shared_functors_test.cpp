// Functors that only the CUDA back end instantiates (the CPU has faster operators for the same purpose), run
// on the CPU and compared with its operators. Compiled without contraction, as for GPUs.
#include <cfloat>

#include "banyan/base/error.hpp"
#include "ops/common/loss.hpp"
#include "ops/common/normalization.hpp"
#include "ops/common/pooling.hpp"
#include "ops/cpu/cpu_backend.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;

/// NaN equals NaN.
void expect_identical(const Values& found, const Values& expected) { expect_near(found, expected, 0); }

// Batch normalization.

/// What a kernel does with one element.
template <class T, class End>
struct ForwardEach {
  ops::detail::NormalizeForward<T, End> f;
  void operator()(std::int64_t i) const { f.y[i] = f.apply(f.terms(f.channel(i)), i); }
};
template <class T, class End>
struct BackwardEach {
  ops::detail::NormalizeBackward<T, End> f;
  void operator()(std::int64_t i) const {
    const std::int64_t c = f.forward.channel(i);
    f.dx[i] = f.apply(f.forward.terms(c), f.terms(c), i);
  }
};

class SharedNormalizationTest : public DeviceTest {
 protected:
  /// x and related tensors, in one layout.
  struct Data {
    Tensor x, dy, addend, moments, mean_inv_std;
    ops::Affine affine;
    std::int64_t channels;
  };
  Data data(const Shape& shape, Layout layout, bool affine, const ops::Activation& activation,
            double mean = 0) {
    Data d;
    const std::int64_t count = shape.count();
    d.channels = shape[1];
    d.x = make(shape, random_values(count, 1, mean - 2, mean + 5), layout);
    d.dy = make(shape, random_values(count, 2), layout);
    d.addend = make(shape, random_values(count, 3), layout);
    d.moments = Tensor(device(), {1 + 2 * d.channels}, DType::f64);
    d.mean_inv_std = Tensor(device(), {2 * d.channels}, DType::f64);
    ops::batch_moments(context(), d.x, d.moments);
    ops::finish_moments(context(), d.moments, 1e-5, false, d.mean_inv_std);
    if (affine) {
      d.affine.slope = make({d.channels}, random_values(d.channels, 4, -2, 2));
      d.affine.bias = make({d.channels}, random_values(d.channels, 5));
    }
    d.affine.activation = activation;
    d.affine.output = Tensor(device(), shape, dtype(), layout);
    ops::normalize_forward(context(), d.x, d.mean_inv_std, d.affine, d.affine.output);
    return d;
  }
  /// Calls check(data) for all shapes, layouts and kinds of Affine.
  template <class Check>
  void for_all(const Check& check) {
    for (const Shape& shape :
         {Shape{1, 1, 1, 1}, Shape{5, 1, 4, 4}, Shape{6, 37}, Shape{4, 1}, Shape{1, 3, 1, 1},
          Shape{3, 5, 7, 9}, Shape{4, 70, 5, 3}, Shape{2, 4, 3, 5, 2}, Shape{9, 3, 65, 31}})
      for (const Layout layout : kLayouts)
        for (const bool affine : {false, true})
          for (const ops::Activation& activation :
               {ops::Activation(), ops::relu_activation(0.25), ops::elu_activation({0.5, 2})}) {
            SCOPED_TRACE(cat(shape.to_string(), " ", name_of(layout), affine ? ", affine" : "",
                             ", activation ", static_cast<int>(activation.kind)));
            check(data(shape, layout, affine, activation));
          }
  }
  /// The CPU's operators sum short blocks in the dtype: about sqrt(4096) roundings each, with a safety factor
  /// of 4. The functors sum in f64, which adds nothing in f32 and less than that in f64.
  double sum_tolerance() const { return 256 * epsilon(); }
  void expect_same(const Data& d, const Tensor& found, const Tensor& expected);
};

TEST_P(SharedNormalizationTest, Moments) {
  for (const double mean : {0.0, 1e4})
    for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{0, 3, 2, 2}, Shape{5, 1, 40, 40}, Shape{6, 37},
                               Shape{3, 5, 7, 9}, Shape{300, 17, 2, 2}, Shape{9, 3, 65, 31}})
      for (const Layout layout : kLayouts) {
        SCOPED_TRACE(cat(shape.to_string(), " ", name_of(layout), " around ", mean));
        const Data d = data(shape, layout, false, {}, mean);
        Tensor moments(device(), d.moments.shape(), DType::f64);
        ops::batch_moments_on<ops::CpuBackend>(context(), d.x, moments);
        const Values found = values(moments), expected = values(d.moments);
        ASSERT_EQ(found.size(), expected.size());
        EXPECT_EQ(found[0], expected[0]);
        for (std::int64_t c = 0; c < d.channels; ++c) {
          const double m2 = expected[1 + d.channels + c], spread = std::sqrt(m2 / std::max(1.0, expected[0]));
          // Means are stored in f64: a few roundings of the mean itself besides those of the deviations.
          EXPECT_NEAR(found[1 + c], expected[1 + c],
                      sum_tolerance() * spread + 8 * DBL_EPSILON * std::abs(mean));
          // Where partial sets are merged, the difference of their means is off by a rounding of the mean,
          // which changes M2 by at most the count times the spread times that.
          EXPECT_NEAR(found[1 + d.channels + c], m2,
                      sum_tolerance() * m2 + DBL_EPSILON * std::abs(mean) * expected[0] * spread);
        }
      }
}

/// Values of functors compiled here, and of the library's kernels. Where these are for more instructions than
/// this program (BANYAN_NATIVE=OFF), an ELU's exp may differ in the last place.
void SharedNormalizationTest::expect_same(const Data& d, const Tensor& found, const Tensor& expected) {
#if defined(__AVX2__)
  constexpr bool kFewer = false;
#else
  constexpr bool kFewer = true;
#endif
  if (kFewer && d.affine.activation.kind == ops::Activation::Kind::elu)
    expect_near(values(found), values(expected), 4 * epsilon());
  else
    expect_identical(values(found), values(expected));
}

TEST_P(SharedNormalizationTest, Forward) {
  for_all([&](const Data& d) {
    Tensor expected(device(), d.x.shape(), dtype(), d.x.layout()),
        found(device(), d.x.shape(), dtype(), d.x.layout());
    ops::normalize_forward(context(), d.x, d.mean_inv_std, d.affine, expected);
    dispatch_float(dtype(), "test", [&]<class T>() {
      ops::detail::with_forward_functor<T>(
          d.x, d.mean_inv_std, d.affine, found.data<T>(), [&](const auto& f) {
            ops::CpuBackend::for_each(context(), d.x.count(),
                                      ForwardEach<T, std::decay_t<decltype(f.end)>>{f});
          });
    });
    expect_same(d, found, expected);
    ops::normalize_and_add(context(), d.x, d.mean_inv_std, d.affine, d.addend, expected);
    dispatch_float(dtype(), "test", [&]<class T>() {
      ops::detail::with_forward_functor<T>(d.x, d.mean_inv_std, d.affine, found.data<T>(), [&](auto f) {
        f.addend = d.addend.data<T>();
        ops::CpuBackend::for_each(context(), d.x.count(), ForwardEach<T, decltype(f.end)>{f});
      });
    });
    expect_same(d, found, expected);
  });
}

TEST_P(SharedNormalizationTest, BackwardSums) {
  for_all([&](const Data& d) {
    Tensor expected(device(), {2 * d.channels}, DType::f64), found(device(), {2 * d.channels}, DType::f64);
    ops::normalize_backward_sums(context(), d.x, d.dy, d.mean_inv_std, d.affine, expected);
    ops::normalize_backward_sums_on<ops::CpuBackend>(context(), d.x, d.dy, d.mean_inv_std, d.affine, found);
    // |dy| <= 1, and the squares of xhat sum to at most the count: so do |dy xhat| (Cauchy-Schwarz).
    const double largest = values(d.moments)[0];
    const Values f = values(found), e = values(expected);
    for (std::size_t i = 0; i < e.size(); ++i) EXPECT_NEAR(f[i], e[i], sum_tolerance() * largest);
  });
}

TEST_P(SharedNormalizationTest, Backward) {
  for_all([&](const Data& d) {
    Tensor sums(device(), {2 * d.channels}, DType::f64);
    ops::normalize_backward_sums(context(), d.x, d.dy, d.mean_inv_std, d.affine, sums);
    for (const Tensor& used : {sums, Tensor()}) {  // undefined: statistics were constants
      Tensor expected(device(), d.x.shape(), dtype(), d.x.layout()),
          found(device(), d.x.shape(), dtype(), d.x.layout());
      ops::normalize_backward(context(), d.x, d.dy, d.mean_inv_std, d.affine, used, d.moments, expected);
      dispatch_float(dtype(), "test", [&]<class T>() {
        ops::detail::with_backward_functor<T>(
            d.x, d.dy, d.mean_inv_std, d.affine, used, d.moments, found, [&](const auto& f) {
              using End = std::decay_t<decltype(f.forward.end)>;
              ops::CpuBackend::for_each(context(), d.x.count(), BackwardEach<T, End>{f});
            });
      });
      expect_same(d, found, expected);  // except for the sign of zeros
    }
  });
}

BANYAN_ON_ALL_DEVICES(SharedNormalizationTest);

// Softmax and its loss.

class SharedSoftmaxTest : public DeviceTest {
 protected:
  /// One element, one class, one position, rows, planes smaller and larger than a block of the CPU's
  /// operator.
  static std::vector<ops::Channels> shapes() {
    return {{1, 1, 1}, {4, 1, 7}, {7, 1000, 1}, {1, 3, 1}, {3, 10, 1}, {2, 5, 300}, {3, 4, 17}, {0, 4, 1}};
  }
  static Shape shape_of(const ops::Channels& over) { return {over.outer, over.channels, over.inner}; }
};

TEST_P(SharedSoftmaxTest, Forward) {
  for (const ops::Channels& over : shapes()) {
    const Shape shape = shape_of(over);
    SCOPED_TRACE(shape.to_string());
    const Tensor x = make(shape, random_values(shape.count(), 1, -30, 30));
    Tensor expected = empty(shape), found = empty(shape);
    ops::softmax_forward(context(), x, over, expected);
    ops::softmax_forward_on<ops::CpuBackend>(context(), x, over, found);
    const Values f = values(found), e = values(expected);
    // Relative, in units of epsilon / 2: the CPU's exponential 4 (2 units in the last place), the library's
    // 2, the sums of exponentials the same again, and two roundings on each side for the scale and the
    // product.
    for (std::size_t i = 0; i < e.size(); ++i) EXPECT_NEAR(f[i], e[i], 8 * epsilon() * e[i] + FLT_MIN) << i;
  }
}

TEST_P(SharedSoftmaxTest, LossBackward) {
  const Tensor grad_loss = make({1}, {0.7});
  const Tensor divisor = make_as(DType::f64, {1}, {3});
  for (const ops::Channels& over : shapes())
    for (const ops::IgnoreLabel& ignore : {ops::IgnoreLabel{}, ops::IgnoreLabel{true, 0}}) {
      const Shape shape = shape_of(over);
      SCOPED_TRACE(cat(shape.to_string(), ignore.enabled ? ", class 0 ignored" : ""));
      const Tensor p = make(shape, random_values(shape.count(), 1, 0, 1));
      // All classes in turn, and labels that are no class.
      Values wanted(over.outer * over.inner);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const double none[] = {-1, 0.5, static_cast<double>(over.channels), NAN};
        wanted[i] =
            i % 5 == 4 ? none[i / 5 % 4] : static_cast<double>(i % static_cast<std::size_t>(over.channels));
      }
      const Tensor labels = make({over.outer, over.inner}, wanted);
      Tensor expected = empty(shape), found = empty(shape);
      ops::softmax_loss_backward(context(), p, labels, over, ignore, grad_loss, divisor, expected);
      ops::softmax_loss_backward_on<ops::CpuBackend>(context(), p, labels, over, ignore, grad_loss, divisor,
                                                     found);
      expect_identical(values(found), values(expected));
    }
}

BANYAN_ON_ALL_DEVICES(SharedSoftmaxTest);

// Pooling.

class SharedPoolingTest : public DeviceTest {};

/// The functor gathers, the CPU's operators scatter; each pixel gets its terms in the same order.
TEST_P(SharedPoolingTest, Backward) {
  using ops::PoolingMethod;
  struct Case {
    std::int64_t h, w, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, output_h, output_w;
  };
  const Case cases[] = {
      {1, 1, 1, 1, 1, 1, 0, 0, 1, 1},  // one pixel
      {6, 8, 2, 2, 2, 2, 0, 0, 3, 4},  // tiles
      {7, 6, 3, 3, 2, 2, 0, 0, 3, 3},  // the last window overhangs the right edge
      {7, 9, 3, 3, 2, 2, 1, 1, 4, 5},  // overlapping, padded
      {5, 4, 3, 3, 1, 1, 1, 1, 5, 4}, {9, 5, 2, 3, 3, 1, 0, 2, 4, 7},
      {4, 5, 4, 5, 1, 1, 0, 0, 1, 1},  // the whole input
      {5, 5, 1, 1, 3, 3, 0, 0, 3, 3},  // the last window is outside
  };
  for (const PoolingMethod method :
       {PoolingMethod::maximum, PoolingMethod::average, PoolingMethod::stochastic})
    for (const Case& k : cases)
      for (const std::int64_t channels : {1, 5, 33})
        for (const Layout layout : kLayouts) {
          const ops::PoolingGeometry geometry{method,     k.kernel_h, k.kernel_w, k.stride_h,
                                              k.stride_w, k.pad_h,    k.pad_w,    channels != 5};
          const Shape in{2, channels, k.h, k.w}, out{2, channels, k.output_h, k.output_w};
          SCOPED_TRACE(cat("method ", static_cast<int>(method), ", ", in.to_string(), " to ", out.to_string(),
                           " ", name_of(layout)));
          const Tensor x = make(in, random_values(in.count(), 1, 0, 1), layout);
          const Tensor dy = make(out, random_values(out.count(), 2), layout);
          Tensor y = empty(out, layout), mask(device(), out, DType::i32, layout);
          ops::pooling_forward(context(), geometry, x, true, on_device({}), {}, y, mask);
          Tensor expected = make(in, Values(in.count(), NAN), layout);
          Tensor found = make(in, Values(in.count(), NAN), layout);
          ops::pooling_backward(context(), geometry, dy, mask, expected);
          ops::pooling_backward_on<ops::CpuBackend>(context(), geometry, dy, mask, found);
          expect_identical(values(found), values(expected));
        }
}

BANYAN_ON_ALL_DEVICES(SharedPoolingTest);

}  // namespace
}  // namespace banyan
