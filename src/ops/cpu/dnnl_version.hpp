// What is written one way for oneDNN 2 and another way for oneDNN 3. Of Banyan it includes nothing:
// tests/bench/onednn_problems.cpp is compiled with this header alone.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace banyan::ops {

/// A primitive's descriptor. `arguments`: those of version 2's operation descriptor, which version 3 takes
/// itself; it has no operation descriptors.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const dnnl::engine& engine,
                                            const dnnl::primitive_attr& attributes,
                                            const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR < 3
  return {{arguments...}, attributes, engine};
#else
  return {engine, arguments..., attributes};
#endif
}

/// The same of a gradient; `forward` is the hint that both versions want.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc describe_gradient(const dnnl::engine& engine,
                                                     const dnnl::primitive_attr& attributes,
                                                     const Forward& forward, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR < 3
  return {{arguments...}, attributes, engine, forward};
#else
  return {engine, arguments..., forward, attributes};
#endif
}

inline dnnl::memory::dims dims_of(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR < 3
  return desc.dims();
#else
  return desc.get_dims();
#endif
}

inline dnnl::memory::data_type data_type_of(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR < 3
  return desc.data_type();
#else
  return desc.get_data_type();
#endif
}

/// Values of another type in the same order, which must be a plain one: no blocks.
inline dnnl::memory::desc with_type(dnnl::memory::desc desc, dnnl::memory::data_type type) {
#if DNNL_VERSION_MAJOR < 3
  desc.data.data_type = dnnl::memory::convert_to_c(type);
  return desc;
#else
  return {desc.get_dims(), type, desc.get_strides()};
#endif
}

inline void append_activation(dnnl::post_ops& end, dnnl::algorithm kind, float alpha, float beta) {
#if DNNL_VERSION_MAJOR < 3
  end.append_eltwise(1.0f, kind, alpha, beta);
#else
  end.append_eltwise(kind, alpha, beta);
#endif
}

/// Multiplies a primitive's result by `factor`, before what is appended to `end` later. Version 3 has scales
/// for each argument instead of the result, read from memory in every run.
inline void scale_result([[maybe_unused]] dnnl::primitive_attr& attributes,
                         [[maybe_unused]] dnnl::post_ops& end, float factor) {
#if DNNL_VERSION_MAJOR < 3
  attributes.set_output_scales(0, {factor});
#else
  end.append_eltwise(dnnl::algorithm::eltwise_linear, factor, 0.0f);
#endif
}

}  // namespace banyan::ops
