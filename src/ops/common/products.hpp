// Products of all elements of two vectors, for every back end (see backend.hpp).
#pragma once

#include <algorithm>

#include "banyan/ops/products.hpp"
#include "ops/common/backend.hpp"
#include "ops/common/checks.hpp"

namespace banyan::ops {
namespace detail {

template <class T>
struct OuterProduct {
  OuterShape shape;
  const T *a, *b;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / shape.b;
    y[i] = a[row] * b[row / shape.a * shape.b + i % shape.b];
  }
};

/// dx has `length` elements of a sample, `step` apart in dy, other `others`, `other_step` apart.
template <class T>
struct OuterProductGradient {
  std::int64_t length, step, others, other_step;
  const T *dy, *other;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t sample = i / length;
    const T* const gradients = dy + sample * length * others + i % length * step;
    double sum = 0;
    for (std::int64_t k = 0; k < others; ++k)
      sum += static_cast<double>(gradients[k * other_step]) * static_cast<double>(other[sample * others + k]);
    dx[i] = static_cast<T>(sum);
  }
};

template <class T>
BANYAN_HOST_DEVICE inline T with_sign(std::int32_t coded, T value) {
  return coded % 2 == 0 ? value : -value;
}

template <class T>
struct SketchProducts {
  const T* products;
  const std::int32_t *starts, *entries;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t place) const {
    double sum = 0;
    for (std::int32_t e = starts[place]; e < starts[place + 1]; ++e)
      sum += static_cast<double>(with_sign(entries[e], products[entries[e] / 2]));
    y[place] = static_cast<T>(sum);
  }
};

/// The sketch's place of element (i, j), and the sign, in the code of hashes.
BANYAN_HOST_DEVICE inline std::int32_t sketch_code(const std::int32_t* hashes, const Sketch& sketch,
                                                   std::int64_t i, std::int64_t j) {
  const std::int32_t first = hashes[i], second = hashes[sketch.a + j];
  const auto length = static_cast<std::int32_t>(sketch.length);
  const std::int32_t place = first / 2 + second / 2;
  return 2 * (place < length ? place : place - length) + (first + second) % 2;
}

template <class T>
struct SketchProductsGradient {
  Sketch sketch;
  const std::int32_t* hashes;
  const T* dy;
  T* dproducts;
  BANYAN_HOST_DEVICE void operator()(std::int64_t at) const {
    const std::int32_t code = sketch_code(hashes, sketch, at / sketch.b, at % sketch.b);
    dproducts[at] = with_sign(code, dy[code / 2]);
  }
};

template <class T>
struct SketchPixels {
  Sketch sketch;
  std::int64_t pixels;
  const T *a, *b;
  const std::int32_t *starts, *entries;
  T* y;
  BANYAN_HOST_DEVICE void operator()(std::int64_t at) const {
    const std::int64_t pixel = at % pixels, row = at / pixels;
    const std::int64_t sample = row / sketch.length, place = row % sketch.length;
    const T *const from_a = a + sample * sketch.a * pixels + pixel, *const from_b =
                                                                        b + sample * sketch.b * pixels +
                                                                        pixel;
    double sum = 0;
    for (std::int32_t e = starts[place]; e < starts[place + 1]; ++e) {
      const std::int64_t entry = entries[e] / 2;
      const auto product = static_cast<double>(from_a[entry / sketch.b * pixels]) *
                           static_cast<double>(from_b[entry % sketch.b * pixels]);
      sum += with_sign(entries[e], product);
    }
    y[at] = static_cast<T>(sketch.scale * sum);
  }
};

template <class T>
struct SketchPixelsGradient {
  Sketch sketch;
  std::int64_t pixels;
  bool second;
  const T *dy, *other;
  const std::int32_t* hashes;
  T* dx;
  BANYAN_HOST_DEVICE void operator()(std::int64_t at) const {
    const std::int64_t length = second ? sketch.b : sketch.a, others = second ? sketch.a : sketch.b;
    const std::int64_t pixel = at % pixels, row = at / pixels, sample = row / length, mine = row % length;
    const T *const gradients = dy + sample * sketch.length * pixels + pixel, *const from =
                                                                                 other +
                                                                                 sample * others * pixels +
                                                                                 pixel;
    double sum = 0;
    for (std::int64_t k = 0; k < others; ++k) {
      const std::int32_t code = sketch_code(hashes, sketch, second ? k : mine, second ? mine : k);
      const auto product =
          static_cast<double>(from[k * pixels]) * static_cast<double>(gradients[code / 2 * pixels]);
      sum += with_sign(code, product);
    }
    dx[at] = static_cast<T>(sketch.scale * sum);
  }
};

inline void require_sketch(const char* op, const Sketch& sketch, const Tensor& hashes) {
  require_count(op, hashes, sketch.a + sketch.b);
}
inline void require_entries(const char* op, std::int64_t length, const Tensor& starts) {
  require_count(op, starts, length + 1);
}

}  // namespace detail

template <class Backend>
void outer_product_on(Context& context, const Tensor& a, const Tensor& b, const OuterShape& shape,
                      Tensor& y) {
  require_count("outer_product", a, shape.samples * shape.a);
  require_count("outer_product", b, shape.samples * shape.b);
  require_count("outer_product", y, shape.samples * shape.a * shape.b);
  dispatch_float(y.dtype(), "outer_product", [&]<class T>() {
    Backend::for_each(context, y.count(),
                      detail::OuterProduct<T>{shape, a.data<T>(), b.data<T>(), y.data<T>()});
  });
}

template <class Backend>
void outer_product_backward_on(Context& context, const Tensor& dy, const Tensor& other,
                               const OuterShape& shape, bool second, Tensor& dx) {
  const std::int64_t length = second ? shape.b : shape.a, others = second ? shape.a : shape.b;
  require_count("outer_product_backward", dx, shape.samples * length);
  require_count("outer_product_backward", other, shape.samples * others);
  require_count("outer_product_backward", dy, shape.samples * length * others);
  dispatch_float(dy.dtype(), "outer_product_backward", [&]<class T>() {
    Backend::for_each_long(
        context, dx.count(), others,
        detail::OuterProductGradient<T>{length, second ? 1 : shape.b, others, second ? shape.b : 1,
                                        dy.data<T>(), other.data<T>(), dx.data<T>()});
  });
}

template <class Backend>
void sketch_products_on(Context& context, const Tensor& products, const Tensor& starts, const Tensor& entries,
                        Tensor& y) {
  require_count("sketch_products", entries, products.count());
  detail::require_entries("sketch_products", y.count(), starts);
  dispatch_float(y.dtype(), "sketch_products", [&]<class T>() {
    Backend::for_each_long(context, y.count(), products.count() / std::max<std::int64_t>(y.count(), 1) + 1,
                           detail::SketchProducts<T>{products.data<T>(), starts.data<std::int32_t>(),
                                                     entries.data<std::int32_t>(), y.data<T>()});
  });
}

template <class Backend>
void sketch_products_backward_on(Context& context, const Tensor& dy, const Tensor& hashes,
                                 const Sketch& sketch, Tensor& dproducts) {
  detail::require_sketch("sketch_products_backward", sketch, hashes);
  require_count("sketch_products_backward", dy, sketch.length);
  require_count("sketch_products_backward", dproducts, sketch.a * sketch.b);
  dispatch_float(dy.dtype(), "sketch_products_backward", [&]<class T>() {
    Backend::for_each(context, dproducts.count(),
                      detail::SketchProductsGradient<T>{sketch, hashes.data<std::int32_t>(), dy.data<T>(),
                                                        dproducts.data<T>()});
  });
}

template <class Backend>
void sketch_pixels_on(Context& context, const Tensor& a, const Tensor& b, const Tensor& starts,
                      const Tensor& entries, const Sketch& sketch, std::int64_t pixels, Tensor& y) {
  require_count("sketch_pixels", entries, sketch.a * sketch.b);
  detail::require_entries("sketch_pixels", sketch.length, starts);
  if (y.count() == 0) return;
  const std::int64_t samples = y.count() / (sketch.length * pixels);
  require_count("sketch_pixels", a, samples * sketch.a * pixels);
  require_count("sketch_pixels", b, samples * sketch.b * pixels);
  dispatch_float(y.dtype(), "sketch_pixels", [&]<class T>() {
    Backend::for_each_long(
        context, y.count(), entries.count() / sketch.length + 1,
        detail::SketchPixels<T>{sketch, pixels, a.data<T>(), b.data<T>(), starts.data<std::int32_t>(),
                                entries.data<std::int32_t>(), y.data<T>()});
  });
}

template <class Backend>
void sketch_pixels_backward_on(Context& context, const Tensor& dy, const Tensor& other, const Tensor& hashes,
                               const Sketch& sketch, std::int64_t pixels, bool second, Tensor& dx) {
  detail::require_sketch("sketch_pixels_backward", sketch, hashes);
  if (dx.count() == 0) return;
  const std::int64_t length = second ? sketch.b : sketch.a, others = second ? sketch.a : sketch.b;
  const std::int64_t samples = dx.count() / (length * pixels);
  require_count("sketch_pixels_backward", other, samples * others * pixels);
  require_count("sketch_pixels_backward", dy, samples * sketch.length * pixels);
  dispatch_float(dy.dtype(), "sketch_pixels_backward", [&]<class T>() {
    Backend::for_each_long(
        context, dx.count(), others,
        detail::SketchPixelsGradient<T>{sketch, pixels, second, dy.data<T>(), other.data<T>(),
                                        hashes.data<std::int32_t>(), dx.data<T>()});
  });
}

template <class Backend>
struct DefineProducts {
  DefineProducts() {
    outer_product.define(Backend::kind, &outer_product_on<Backend>);
    outer_product_backward.define(Backend::kind, &outer_product_backward_on<Backend>);
    sketch_products.define(Backend::kind, &sketch_products_on<Backend>);
    sketch_products_backward.define(Backend::kind, &sketch_products_backward_on<Backend>);
    sketch_pixels.define(Backend::kind, &sketch_pixels_on<Backend>);
    sketch_pixels_backward.define(Backend::kind, &sketch_pixels_backward_on<Backend>);
  }
};

}  // namespace banyan::ops
