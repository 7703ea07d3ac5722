#include "ops/cpu/gemm_bf16.hpp"

#include "banyan/base/error.hpp"
#include "ops/cpu/dnnl_version.hpp"

namespace banyan::ops {

namespace {

using dnnl::memory;
constexpr auto kF32 = memory::data_type::f32, kBf16 = memory::data_type::bf16;
constexpr std::size_t kLine = 64, kBytes = 2;  ///< of a cache line; of a value

/// rows x columns, or its transpose, as it is in memory.
memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed, memory::data_type type) {
  return {{rows, columns}, type, transposed ? memory::dims{1, rows} : memory::dims{columns, 1}};
}

std::size_t padded_bytes(std::int64_t values) {
  return (static_cast<std::size_t>(values) * kBytes + kLine - 1) / kLine * kLine;
}

}  // namespace

std::size_t bf16_scratch(const GemmShape& shape) {
  return padded_bytes(shape.m * shape.k) + padded_bytes(shape.k * shape.n);
}

void multiply_bf16(const GemmShape& shape, const StoredIn16Bits& stored, float alpha, const void* a,
                   const void* b, float beta, void* c, void* scratch) try {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::desc c_desc = matrix(shape.m, shape.n, false, stored.c ? kBf16 : kF32);
  // The library caches primitives: creating the same one again costs a lookup.
  const auto rounded = [&](std::int64_t rows, std::int64_t columns, bool transposed, bool is_bf16,
                           const void* values, void* to) {
    memory from(matrix(rows, columns, transposed, is_bf16 ? kBf16 : kF32), engine, const_cast<void*>(values));
    if (is_bf16) return from;
    memory result(matrix(rows, columns, transposed, kBf16), engine, to);
    dnnl::reorder(from, result).execute(stream, from, result);
    return result;
  };
  const memory a_rounded = rounded(shape.m, shape.k, shape.transpose_a, stored.a, a, scratch);
  const memory b_rounded = rounded(shape.k, shape.n, shape.transpose_b, stored.b, b,
                                   static_cast<char*>(scratch) + padded_bytes(shape.m * shape.k));
  dnnl::primitive_attr attributes;
  dnnl::post_ops end;
  if (alpha != 1) scale_result(attributes, end, alpha);
  if (beta != 0) end.append_sum(beta);
  attributes.set_post_ops(end);
  const auto desc =
      describe<dnnl::matmul>(engine, attributes, a_rounded.get_desc(), b_rounded.get_desc(), c_desc);
  dnnl::matmul(desc).execute(
      stream,
      {{DNNL_ARG_SRC, a_rounded}, {DNNL_ARG_WEIGHTS, b_rounded}, {DNNL_ARG_DST, memory(c_desc, engine, c)}});
  stream.wait();
} catch (const dnnl::error& error) {
  runtime_failure("gemm in bf16: oneDNN failed for ", shape.m, " x ", shape.n, " x ", shape.k, ": ",
                  error.what());
}

}  // namespace banyan::ops
