// Instruction sets: what is hidden from oneDNN is not used by our kernels either.
#include "banyan/ops/processor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "banyan/device/device.hpp"

namespace banyan::ops {
namespace {

struct Setting {
  const char* value;
  InstructionSet most;
};

TEST(Processor, KernelsKeepToTheInstructionSetsOfOneDnn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // oneDNN reads the variable once in a process
  for (const auto& [value, most] : {Setting{"SSE41", InstructionSet::baseline},
                                    {"AVX2", InstructionSet::avx2},
                                    {"AVX512_CORE", InstructionSet::avx512}}) {
    SCOPED_TRACE(value);
    const auto check = [&, value = value, most = most] {
      setenv("ONEDNN_MAX_CPU_ISA", value, 1);
      const auto device = make_cpu_device(0, {});
      std::exit(instruction_set() > most || (most < InstructionSet::avx512 && has_bf16_units()) ? 1 : 0);
    };
    EXPECT_EXIT(check(), testing::ExitedWithCode(0), "");
  }
}

TEST(Processor, L2CacheIsPlausible) {
  EXPECT_GE(l2_cache(), 256 * 1024);
  EXPECT_LE(l2_cache(), 2048 * 1024);
  EXPECT_GE(shared_cache(1), l2_cache());
  EXPECT_LE(shared_cache(1), 8 << 20);
  EXPECT_EQ(shared_cache(1000), 1000 * l2_cache());
}

#if defined(__x86_64__) && defined(__linux__) && !defined(BANYAN_ONE_SET_OF_KERNELS)
/// What /proc/cpuinfo lists of the first core.
std::set<std::string> processor_flags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

TEST(Processor, TheBestInstructionSetIsUsed) {
  if (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr) GTEST_SKIP() << "ONEDNN_MAX_CPU_ISA hides some";
  const std::set<std::string> flags = processor_flags();
  ASSERT_FALSE(flags.empty());
  const auto all = [&](std::initializer_list<const char*> names) {
    return std::all_of(names.begin(), names.end(), [&](const char* name) { return flags.count(name) > 0; });
  };
  InstructionSet best = InstructionSet::baseline;
  if (all({"avx2", "fma", "bmi1", "bmi2"})) best = InstructionSet::avx2;
  if (best == InstructionSet::avx2 && all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}))
    best = InstructionSet::avx512;
  const auto device = make_cpu_device(0, {});  // where it is chosen at run time, this chooses
  EXPECT_EQ(instruction_set(), best) << name_of(instruction_set()) << " instead of " << name_of(best);
}
#endif

}  // namespace
}  // namespace banyan::ops
