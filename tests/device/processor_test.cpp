// Instruction sets: what is hidden from oneDNN is not used by our kernels either.
#include "banyan/device/processor.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "banyan/device/device.hpp"

namespace banyan {
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

}  // namespace
}  // namespace banyan
