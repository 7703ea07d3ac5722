// Which random nets a test draws.
#pragma once

#include <cstdlib>

namespace banyan {

/// The seeds a test draws its nets with: from BANYAN_RANDOM_FIRST (0) on, BANYAN_RANDOM_NETS of them or as
/// many as usual.
struct Seeds {
  unsigned first = 0, end = 0;
  unsigned count() const { return end - first; }
};
inline Seeds random_seeds(unsigned usual) {
  const auto wished = [](const char* name, unsigned otherwise) {
    const char* const text = std::getenv(name);
    return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : otherwise;
  };
  const unsigned first = wished("BANYAN_RANDOM_FIRST", 0);
  return {first, first + wished("BANYAN_RANDOM_NETS", usual)};
}

}  // namespace banyan
