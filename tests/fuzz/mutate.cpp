#include "fuzz/mutate.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

namespace banyan::fuzz {
namespace {

constexpr std::size_t kLargestInput = std::size_t{1} << 20;
constexpr std::array kIntegers{
    std::uint64_t{0},          std::uint64_t{1},          std::uint64_t{0x7f},    std::uint64_t{0x80},
    std::uint64_t{0xff},       std::uint64_t{0x7fff},     std::uint64_t{0xffff},  std::uint64_t{0x7fffffff},
    std::uint64_t{0x80000000}, std::uint64_t{0xffffffff}, std::uint64_t{1} << 40, ~std::uint64_t{0} >> 1,
    ~std::uint64_t{0}};
constexpr std::array kNumbers{
    "0",    "-1",   "1",   "2147483647", "2147483648", "-2147483648", "4294967295", "18446744073709551615",
    "1e38", "1e99", "nan", "inf",        "-0.0",       "1e-46",       "0x7fffffff", "1000000"};

}  // namespace

void Mutator::change_number(std::string& bytes) {
  std::size_t begin = below(bytes.size());
  while (begin < bytes.size() && std::isdigit(static_cast<unsigned char>(bytes[begin])) == 0) ++begin;
  std::size_t end = begin;
  while (end < bytes.size() && std::isdigit(static_cast<unsigned char>(bytes[end])) != 0) ++end;
  if (begin < end) bytes.replace(begin, end - begin, kNumbers[below(kNumbers.size())]);
}

void Mutator::change(std::string& bytes, const std::vector<std::string>& others) {
  const std::size_t at = below(bytes.size());
  const std::size_t length = std::min(bytes.size() - at, 1 + below(below(4) == 0 ? bytes.size() : 8));
  switch (below(10)) {
    case 0:
      if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 1:
      if (!bytes.empty()) bytes[at] = static_cast<char>(random_());
      break;
    case 2: {  // an integer of 1, 2, 4 or 8 bytes, in either order
      const std::uint64_t value = kIntegers[below(kIntegers.size())] + below(3) - 1;
      const std::size_t size = std::size_t{1} << below(4);
      const bool big_endian = below(2) == 0;
      for (std::size_t i = 0; i < size && at + i < bytes.size(); ++i)
        bytes[at + i] = static_cast<char>(value >> (8 * (big_endian ? size - 1 - i : i)));
      break;
    }
    case 3:
    case 4:
      change_number(bytes);
      break;
    case 5:
      bytes.erase(at, length);
      break;
    case 6:
      bytes.insert(at, bytes.substr(at, length));
      break;
    case 7:
      for (std::size_t i = 1 + below(8); i > 0; --i) bytes.insert(at, 1, static_cast<char>(random_()));
      break;
    case 8:
      bytes.resize(at);
      break;
    default: {  // a piece of another input, in place of a piece of this one
      const std::string& other = others[below(others.size())];
      const std::size_t from = below(other.size());
      bytes.replace(at, length, other, from, 1 + below(below(4) == 0 ? other.size() : 32));
      break;
    }
  }
}

std::string Mutator::mutate(std::string bytes, const std::vector<std::string>& others) {
  for (std::size_t i = 1 + below(4); i > 0; --i) change(bytes, others);
  if (bytes.size() > kLargestInput) bytes.resize(kLargestInput);
  return bytes;
}

}  // namespace banyan::fuzz
