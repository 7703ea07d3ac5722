#include "hardest_positions.hpp"

#include <algorithm>
#include <bit>

namespace banyan {
namespace {

constexpr int kDigit = 16;  // bits of a number that one meeting settles

/// As an integer of the same order.
std::uint64_t key_of(double loss) { return std::bit_cast<std::uint64_t>(loss + 0.0); }  // not -0

/// How many of the keys that begin as `prefix` go on with each digit, on all devices.
std::vector<double> count_digits(Pass& pass, const std::vector<double>& losses, std::uint64_t prefix,
                                 int shift, Tensor& counts, const char* layer) {
  std::vector<double> found(std::size_t{1} << kDigit, 0);
  for (const double loss : losses) {
    const std::uint64_t key = key_of(loss) >> shift;
    if (key >> kDigit == prefix) ++found[key & (found.size() - 1)];
  }
  if (pass.exchange == nullptr || pass.exchange->devices() == 1) return found;
  if (!counts.defined())
    counts = Tensor(pass.context->device(), Shape{static_cast<std::int64_t>(found.size())}, DType::f64);
  copy_from_host(*pass.context, found.data(), counts);
  sum_over_devices(pass, counts, {layer, "thresh_ratio"});
  copy_to_host(*pass.context, counts, found.data());
  return found;
}

}  // namespace

HardestPositions find_hardest(Pass& pass, const std::vector<double>& losses, float ratio, Tensor& counts,
                              const char* layer) {
  HardestPositions hardest;
  std::uint64_t prefix = 0;
  std::int64_t ahead = 0;  // of the one that is looked for, among those with this prefix
  for (int shift = 64 - kDigit; shift >= 0; shift -= kDigit) {
    const std::vector<double> found = count_digits(pass, losses, prefix, shift, counts, layer);
    if (shift == 64 - kDigit) {
      double all = 0;
      for (const double count : found) all += count;
      // The branch multiplies in single precision.
      const auto place = static_cast<std::int64_t>(static_cast<float>(all) * ratio);
      ahead = std::min(place, static_cast<std::int64_t>(all) - 1);
    }
    std::size_t digit = found.size() - 1;
    for (; digit > 0 && static_cast<double>(ahead) >= found[digit]; --digit) {
      ahead -= static_cast<std::int64_t>(found[digit]);
      hardest.kept += static_cast<std::int64_t>(found[digit]);
    }
    prefix = prefix << kDigit | digit;
    if (shift == 0) hardest.kept += static_cast<std::int64_t>(found[digit]);
  }
  hardest.least = std::bit_cast<double>(prefix);
  return hardest;
}

}  // namespace banyan
