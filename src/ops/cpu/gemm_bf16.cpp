#include "ops/cpu/gemm_bf16.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include "banyan/base/error.hpp"

namespace banyan::ops {

namespace {

using dnnl::memory;

/// rows x columns, or their transpose as it lies in memory.
memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed) {
  return {
      {rows, columns}, memory::data_type::f32, transposed ? memory::dims{1, rows} : memory::dims{columns, 1}};
}

}  // namespace

void multiply_bf16(const GemmShape& shape, float alpha, const float* a, const float* b, float beta,
                   float* c) try {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::desc a_desc = matrix(shape.m, shape.k, shape.transpose_a);
  const memory::desc b_desc = matrix(shape.k, shape.n, shape.transpose_b);
  const memory::desc c_desc = matrix(shape.m, shape.n, false);
  dnnl::primitive_attr attributes;
  attributes.set_fpmath_mode(dnnl::fpmath_mode::bf16);
  if (alpha != 1) attributes.set_output_scales(0, {alpha});
  if (beta != 0) {
    dnnl::post_ops add;
    add.append_sum(beta);
    attributes.set_post_ops(add);
  }
  // The library keeps primitives: making the same one again costs a look-up.
  const dnnl::matmul product({dnnl::matmul::desc(a_desc, b_desc, c_desc), attributes, engine});
  const auto at = [&](const memory::desc& desc, const float* data) {
    return memory(desc, engine, const_cast<float*>(data));
  };
  product.execute(
      stream,
      {{DNNL_ARG_SRC, at(a_desc, a)}, {DNNL_ARG_WEIGHTS, at(b_desc, b)}, {DNNL_ARG_DST, at(c_desc, c)}});
  stream.wait();
} catch (const dnnl::error& error) {
  runtime_failure("gemm in bf16: oneDNN failed for ", shape.m, " x ", shape.n, " x ", shape.k, ": ",
                  error.what());
}

}  // namespace banyan::ops
