#include "banyan/train/kernel_differences.hpp"

#include <algorithm>
#include <sstream>

#include "banyan/base/error.hpp"

namespace banyan {
namespace {

/// Texts of any characters: layers have the names that users give them.
void put(std::ostream& out, const std::string& text) { out << text.size() << ":" << text; }

std::size_t take_number(std::istream& in, std::size_t most) {
  std::size_t number = 0;
  if (!(in >> number) || in.get() != ':' || number > most)
    runtime_failure("the kernels of another process arrived damaged");
  return number;
}

std::string take(std::istream& in, std::size_t most) {
  std::string text(take_number(in, most), 0);
  if (!in.read(text.data(), static_cast<std::streamsize>(text.size())))
    runtime_failure("the kernels of another process arrived damaged");
  return text;
}

/// Does one do all work that the other does?
bool covers(const KernelChoices& one, const KernelChoices& other) {
  return std::all_of(other.begin(), other.end(),
                     [&](const auto& choice) { return one.contains(choice.first); });
}

}  // namespace

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

std::optional<std::string> KernelComparison::add(const DeviceKernels& device) {
  std::optional<std::string> from_first;
  bool known = false;
  for (const DeviceKernels& earlier : kept_) {
    const bool alike = earlier.model == device.model;
    known = known || (alike && covers(earlier.kernels, device.kernels));
    if (!alike && &earlier != &kept_.front()) continue;
    const auto difference = kernel_difference(earlier.device, earlier.kernels, device.device, device.kernels);
    if (difference && alike) runtime_failure(*difference, "; devices of one model must compute alike");
    if (difference) from_first = difference;
  }
  if (!known) kept_.push_back(device);
  return from_first;
}

std::string pack_kernels(const std::vector<DeviceKernels>& devices) {
  std::ostringstream out;
  for (const DeviceKernels& device : devices) {
    put(out, device.device);
    put(out, device.model);
    out << device.kernels.size() << ":";
    for (const auto& [work, kernel] : device.kernels) {
      put(out, work);
      put(out, kernel);
    }
  }
  return out.str();
}

std::vector<DeviceKernels> unpack_kernels(const std::string& packed) {
  std::vector<DeviceKernels> devices;
  std::istringstream in(packed);
  while (in.peek() != std::istringstream::traits_type::eof()) {
    DeviceKernels& device = devices.emplace_back();
    device.device = take(in, packed.size());
    device.model = take(in, packed.size());
    for (std::size_t left = take_number(in, packed.size()); left > 0; --left) {
      const std::string work = take(in, packed.size());
      device.kernels[work] = take(in, packed.size());
    }
  }
  return devices;
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
