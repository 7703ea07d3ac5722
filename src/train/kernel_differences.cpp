#include "banyan/train/kernel_differences.hpp"

#include "banyan/base/error.hpp"

namespace banyan {

std::optional<std::string> kernel_difference(const std::string& first, const KernelChoices& of_first,
                                             const std::string& second, const KernelChoices& of_second) {
  int count = 0;
  std::string example;
  for (const auto& [work, kernel] : of_first) {
    const auto other = of_second.find(work);
    if (other == of_second.end() || other->second == kernel || count++ > 0) continue;
    example = cat(work, " by ", kernel, ", ", second, " by ", other->second);
  }
  if (count == 0) return std::nullopt;
  return cat(first, " computes ", example, count > 1 ? cat(" (and ", count - 1, " more)") : std::string(),
             ": the two agree but for rounding, not bit for bit");
}

void save_kernels(const KernelChoices& choices, caffe::BanyanState& state) {
  for (const auto& [work, name] : choices) {
    auto& kernel = *state.add_kernel();
    kernel.set_work(work);
    kernel.set_name(name);
  }
}

KernelChoices saved_kernels(const caffe::BanyanState& state) {
  KernelChoices choices;
  for (const auto& kernel : state.kernel()) choices[kernel.work()] = kernel.name();
  return choices;
}

}  // namespace banyan
