#include "ops/common/basic.hpp"  // Convert
#include "ops/cuda/transpose.cuh"
#include "ops/cuda/transpose.hpp"

namespace banyan::ops {

namespace {

template <class From, class To>
struct AddTo {
  const From* from;
  To* to;
  BANYAN_HOST_DEVICE void operator()(std::int64_t i) const { to[i] += static_cast<To>(from[i]); }
};

/// body.operator()<From, To>() for the types that convolutions move.
template <class Body>
void dispatch_pair(DType from, DType to, const char* what, const Body& body) {
  if (from == to)
    dispatch_storage(from, what, [&]<class T>() { body.template operator()<T, T>(); });
  else if (from == DType::f32 && to == DType::bf16)
    body.template operator()<float, BFloat16>();
  else if (from == DType::bf16 && to == DType::f32)
    body.template operator()<BFloat16, float>();
  else
    runtime_failure(what, " does not convert ", name_of(from), " to ", name_of(to));
}

}  // namespace

void transpose_on_cuda(Context& context, DType from_type, const void* from, DType to_type, void* to,
                       std::int64_t batch, std::int64_t rows, std::int64_t columns, bool add) {
  constexpr const char* kWhat = "transposition";
  dispatch_pair(from_type, to_type, kWhat, [&]<class From, class To>() {
    const auto* source = static_cast<const From*>(from);
    auto* target = static_cast<To*>(to);
    if (!add) return launch_transpose<From, To, false>(context, source, target, batch, rows, columns);
    if constexpr (std::is_floating_point_v<To>)
      launch_transpose<From, To, true>(context, source, target, batch, rows, columns);
    else
      runtime_failure(kWhat, " does not add to bf16 tensors");
  });
}

void move_on_cuda(Context& context, DType from_type, const void* from, DType to_type, void* to,
                  std::int64_t count, bool add) {
  if (from_type == to_type && !add) {
    context.stream().copy(to, from, static_cast<std::size_t>(count) * size_of(to_type));
    return;
  }
  constexpr const char* kWhat = "moving";
  dispatch_pair(from_type, to_type, kWhat, [&]<class From, class To>() {
    const auto* source = static_cast<const From*>(from);
    auto* target = static_cast<To*>(to);
    if (!add) return CudaBackend::for_each(context, count, Convert<From, To>{source, target});
    if constexpr (std::is_floating_point_v<To>)
      CudaBackend::for_each(context, count, AddTo<From, To>{source, target});
    else
      runtime_failure(kWhat, " does not add to bf16 tensors");
  });
}

}  // namespace banyan::ops
