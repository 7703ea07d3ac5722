// Random damage to a file's bytes.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace banyan::fuzz {

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  /// One to four changes: bits, bytes, integers at their limits, numbers in text, pieces removed, repeated,
  /// inserted, cut off, or taken from another input.
  std::string mutate(std::string bytes, const std::vector<std::string>& others);
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

 private:
  void change(std::string& bytes, const std::vector<std::string>& others);
  void change_number(std::string& bytes);

  std::mt19937 random_;
};

}  // namespace banyan::fuzz
