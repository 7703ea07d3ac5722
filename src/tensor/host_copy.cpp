#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan {
namespace {

/// memory[n][i][c] = logical[n][c][i].
template <class T>
void to_channels_last(const ChannelView& view, const T* logical, T* memory) {
  const std::int64_t channels = view.channels, inner = view.inner;
  for (std::int64_t n = 0; n < view.batch; ++n, logical += channels * inner, memory += channels * inner)
    for (std::int64_t i = 0; i < inner; ++i)
      for (std::int64_t c = 0; c < channels; ++c) memory[i * channels + c] = logical[c * inner + i];
}

template <class T>
void from_channels_last(const ChannelView& view, const T* memory, T* logical) {
  const std::int64_t channels = view.channels, inner = view.inner;
  for (std::int64_t n = 0; n < view.batch; ++n, logical += channels * inner, memory += channels * inner)
    for (std::int64_t i = 0; i < inner; ++i)
      for (std::int64_t c = 0; c < channels; ++c) logical[c * inner + i] = memory[i * channels + c];
}

}  // namespace

template <class T>
void copy_from_host(Context& context, const T* from, Tensor& to) {
  T* memory = to.data<T>();
  std::vector<T> staging;
  if (!to.is_contiguous()) {
    staging.resize(to.count());
    to_channels_last(channel_view(to), from, staging.data());
    from = staging.data();
  }
  context.stream().copy(memory, from, to.bytes());
  context.synchronize();
}

template <class T>
void copy_to_host(Context& context, const Tensor& from, T* to) {
  const T* memory = from.data<T>();
  std::vector<T> staging;
  const bool direct = from.is_contiguous();
  if (!direct) staging.resize(from.count());
  context.stream().copy(direct ? to : staging.data(), memory, from.bytes());
  context.synchronize();
  if (!direct) from_channels_last(channel_view(from), staging.data(), to);
}

template void copy_from_host(Context&, const float*, Tensor&);
template void copy_from_host(Context&, const double*, Tensor&);
template void copy_from_host(Context&, const BFloat16*, Tensor&);
template void copy_from_host(Context&, const std::int32_t*, Tensor&);
template void copy_from_host(Context&, const std::uint8_t*, Tensor&);
template void copy_to_host(Context&, const Tensor&, float*);
template void copy_to_host(Context&, const Tensor&, double*);
template void copy_to_host(Context&, const Tensor&, BFloat16*);
template void copy_to_host(Context&, const Tensor&, std::int32_t*);
template void copy_to_host(Context&, const Tensor&, std::uint8_t*);

}  // namespace banyan
