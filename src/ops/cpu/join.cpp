#include "ops/common/join.hpp"

#include <algorithm>
#include <cstring>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "ops/cpu/cpu_backend.hpp"

namespace banyan::ops {
namespace {

constexpr std::int64_t kCacheLine = 64;  ///< bytes of a cache line
/// Bytes written, and as many read: of so much little is still in the caches when it is needed.
constexpr std::int64_t kLong = std::int64_t{16} << 20;

/// One cache line, to memory directly: storing to a cache would read it from there first.
void write_line(const char* from, char* to) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#elif defined(__AVX__)
  for (int half = 0; half < 2; ++half)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to) + half,
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + half));
#else
  std::memcpy(to, from, kCacheLine);
#endif
}

/// From then on other threads see what write_line has written.
void end_lines() {
#if defined(__AVX__)
  _mm_sfence();
#endif
}

/// Are all places that the stream writes whole cache lines?
template <class Element>
bool is_in_lines(const BlockStream<Element>& stream) {
  constexpr std::int64_t kElements = kCacheLine / sizeof(Element);
  return reinterpret_cast<std::uintptr_t>(stream.to) % kCacheLine == 0 && stream.length % kElements == 0 &&
         stream.to_stride % kElements == 0;
}

struct JoinBackend : CpuBackend {
  template <class Element>
  static void copy_streams(Context& context, std::int64_t blocks,
                           const std::vector<BlockStream<Element>>& streams) {
    std::int64_t bytes = 0;
    for (const BlockStream<Element>& s : streams) bytes += blocks * s.length * std::int64_t{sizeof(Element)};
    const int threads = context.device().threads();
    const bool shared = blocks % threads == 0 || blocks >= 4 * threads;  // out evenly
    if (bytes < kLong || !shared || !std::ranges::all_of(streams, is_in_lines<Element>))
      return CpuBackend::copy_streams(context, blocks, streams);
    context.run([=] {
#pragma omp parallel num_threads(threads)
      {
#pragma omp for schedule(static) nowait
        for (std::int64_t block = 0; block < blocks; ++block)
          for (const BlockStream<Element>& s : streams) {
            const char* const from = reinterpret_cast<const char*>(s.from + block * s.from_stride);
            char* const to = reinterpret_cast<char*>(s.to + block * s.to_stride);
            const std::int64_t length = s.length * std::int64_t{sizeof(Element)};
            for (std::int64_t at = 0; at < length; at += kCacheLine) write_line(from + at, to + at);
          }
        end_lines();
      }
    });
  }
};

const DefineJoin<JoinBackend> define_join;

}  // namespace
}  // namespace banyan::ops
