// Kernels (src/ops/cpu) are compiled into libbanyan.so for the build's own instruction set and, in builds for
// any processor, again into libbanyan_avx2.so and libbanyan_avx512.so. Loading one of these defines the
// operators again, with its kernels. The libraries call their own functions (-Bsymbolic-functions) and share
// libbanyan's data, so no function compiled for one instruction set stands in for that of another.
#include "banyan/ops/processor.hpp"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <unistd.h>

#include <algorithm>

#include "banyan/base/error.hpp"
#include "base/sibling_library.hpp"
#include "device/cpu/before_devices.hpp"

namespace banyan::ops {
namespace {

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512CD__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__)
constexpr InstructionSet kOwn = InstructionSet::avx512;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__BMI__) && defined(__BMI2__)
constexpr InstructionSet kOwn = InstructionSet::avx2;
#else
constexpr InstructionSet kOwn = InstructionSet::baseline;
#endif

/// Those in libraries of their own.
constexpr InstructionSet kLoadable[] = {
#ifdef BANYAN_KERNELS_AVX2
    InstructionSet::avx2,
#endif
#ifdef BANYAN_KERNELS_AVX512
    InstructionSet::avx512,
#endif
    InstructionSet::baseline,  // always there, in libbanyan.so
};

/// Of the processor and the operating system.
InstructionSet available() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi") ||
      !__builtin_cpu_supports("bmi2"))
    return InstructionSet::baseline;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl"))
    return InstructionSet::avx2;
  return InstructionSet::avx512;
#else
  return InstructionSet::baseline;
#endif
}

bool onednn_may_use(dnnl_cpu_isa_t isa) {
  const auto units = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & units) == units;
}

InstructionSet allowed() {
  const InstructionSet most = onednn_may_use(dnnl_cpu_isa_avx512_core) ? InstructionSet::avx512
                              : onednn_may_use(dnnl_cpu_isa_avx2)      ? InstructionSet::avx2
                                                                       : InstructionSet::baseline;
  return std::min(most, available());
}

void load_kernels(InstructionSet set) {
  const std::string name = set == InstructionSet::avx512 ? "libbanyan_avx512.so" : "libbanyan_avx2.so";
  const std::string file = sibling_library(name);
  if (file.empty()) runtime_failure(name, " is missing: it belongs into the folder of libbanyan.so");
  // Never unloaded: its operators stay defined.
  if (dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
    runtime_failure("cannot load kernels: ", dlerror());
}

InstructionSet choose() {
  const InstructionSet most = allowed();
  if (most <= kOwn) return most;  // its rules, with kernels that the compiler could make better use of
  InstructionSet best = kOwn;
  for (const InstructionSet set : kLoadable)
    if (set <= most) best = std::max(best, set);
  if (best > kOwn) load_kernels(best);
  return best;
}

const bool defined = (before_cpu_devices([] { instruction_set(); }), true);

}  // namespace

const char* name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512:
      return "AVX-512";
    case InstructionSet::avx2:
      return "AVX2";
    case InstructionSet::baseline:
      break;
  }
  return "any processor";
}

InstructionSet instruction_set() {
  static const InstructionSet chosen = choose();
  return chosen;
}

bool has_bf16_units() { return onednn_may_use(dnnl_cpu_isa_avx512_core_bf16); }
bool has_bf16_tiles() { return onednn_may_use(dnnl_cpu_isa_avx512_core_amx); }

std::int64_t l2_cache() {
  constexpr std::int64_t kKiB = 1024;
  // Asked once: cores may differ, and C libraries before glibc 2.33 ask the one that they run on.
  static const std::int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes <= 0 ? 1024 * kKiB : std::clamp(bytes, 256 * kKiB, 2048 * kKiB);
}

std::int64_t shared_cache(int threads) {
  static const std::int64_t last = std::max<std::int64_t>(0, sysconf(_SC_LEVEL3_CACHE_SIZE));
  return std::max(std::min<std::int64_t>(last / 4, std::int64_t{8} << 20), threads * l2_cache());
}

}  // namespace banyan::ops
