#include "banyan/parallel/difference_coding.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "banyan/base/error.hpp"
#include "parallel/wire_values.hpp"

namespace banyan::parallel {
namespace {

/// Before the values; with the largest ones only, their positions (u32) come between.
struct Prefix {
  std::int64_t kept = 0;
  DType type = DType::f32;
  bool largest_only = false;
};

bool is_narrow(DType type) { return type == DType::bf16 || type == DType::f16; }

std::size_t bytes_of(std::int64_t count, DType type) {
  return is_narrow(type) ? packed_bytes(count, type) : static_cast<std::size_t>(count) * size_of(type);
}

/// Appends room for `bytes` and returns where it begins.
char* append(std::vector<char>& out, std::size_t bytes) {
  out.resize(out.size() + bytes);
  return out.data() + out.size() - bytes;
}

void write_values(const char* values, std::int64_t count, DType from, DType to, char* out) {
  if (from == to)
    std::memcpy(out, values, bytes_of(count, to));
  else
    pack(reinterpret_cast<const float*>(values), count, to, out);
}

void read_values(const char* data, std::int64_t count, DType from, DType to, char* values) {
  if (from == to)
    std::memcpy(values, data, bytes_of(count, from));
  else
    unpack(data, count, from, reinterpret_cast<float*>(values));
}

/// The positions of the `kept` values of largest magnitude, ascending; of equal ones the first. NaN counts as
/// infinite, so that it is sent and seen.
template <class T>
void find_largest(const std::vector<T>& values, std::int64_t kept, std::uint32_t* positions) {
  std::vector<T> sizes(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    sizes[i] = std::isnan(values[i]) ? std::numeric_limits<T>::infinity() : std::abs(values[i]);
  std::vector<T> order = sizes;
  std::nth_element(order.begin(), order.begin() + (kept - 1), order.end(), std::greater<T>());
  const T least = order[static_cast<std::size_t>(kept - 1)];
  std::int64_t equal = kept - std::count_if(sizes.begin(), sizes.end(), [&](T size) { return size > least; });
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > least || (sizes[i] == least && equal-- > 0)) *positions++ = static_cast<std::uint32_t>(i);
}

template <class T>
void scatter(const char* data, std::size_t bytes, const Prefix& prefix, std::int64_t count, DType type,
             char* to) {
  const auto kept = static_cast<std::size_t>(prefix.kept);
  std::vector<std::uint32_t> positions(kept);
  std::vector<T> values(kept);
  const std::size_t before = kept * sizeof(std::uint32_t);
  if (bytes != before + bytes_of(prefix.kept, prefix.type)) runtime_failure("a difference arrived damaged");
  std::memcpy(positions.data(), data, before);
  read_values(data + before, prefix.kept, prefix.type, type, reinterpret_cast<char*>(values.data()));
  T* out = reinterpret_cast<T*>(to);
  std::fill(out, out + count, T(0));
  for (std::size_t k = 0; k < kept; ++k) {
    if (positions[k] >= count) runtime_failure("a difference arrived damaged");
    out[positions[k]] = values[k];
  }
}

}  // namespace

DifferenceEncoder::DifferenceEncoder(std::int64_t count, DType type, const Compression& compression)
    : count_(count),
      kept_(std::clamp<std::int64_t>(std::llround(std::ceil(static_cast<double>(count) * compression.top)),
                                     std::min<std::int64_t>(count, 1), count)),
      type_(type),
      compression_(compression) {
  if (type != DType::f32) compression_.narrow.reset();
  // With many positions all values are shorter.
  const DType sent = compression_.narrow.value_or(type);
  if (static_cast<std::size_t>(kept_) * sizeof(std::uint32_t) + bytes_of(kept_, sent) < bytes_of(count, sent))
    left_.resize(static_cast<std::size_t>(count), 0);
  else
    kept_ = count;
  if (count > std::numeric_limits<std::uint32_t>::max()) runtime_failure("a piece of ", count, " parameters");
}

std::size_t DifferenceEncoder::most_bytes() const {
  const std::size_t positions = left_.empty() ? 0 : static_cast<std::size_t>(kept_) * sizeof(std::uint32_t);
  return sizeof(Prefix) + positions + bytes_of(kept_, compression_.narrow.value_or(type_));
}

void DifferenceEncoder::encode(const char* values, std::vector<char>& out) {
  const DType sent = compression_.narrow.value_or(type_);
  const Prefix prefix{kept_, sent, !left_.empty()};
  std::memcpy(append(out, sizeof prefix), &prefix, sizeof prefix);
  if (left_.empty())
    write_values(values, count_, type_, sent, append(out, bytes_of(count_, sent)));
  else
    dispatch_float(type_, "a difference",
                   [&]<class T>() { encode_top(reinterpret_cast<const T*>(values), out); });
}

template <class T>
void DifferenceEncoder::encode_top(const T* values, std::vector<char>& out) {
  const DType sent = compression_.narrow.value_or(type_);
  const auto kept = static_cast<std::size_t>(kept_);
  std::vector<T> all(left_.size()), largest(kept);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<T>(values[i] + left_[i]);
  std::vector<std::uint32_t> positions(kept);
  find_largest(all, kept_, positions.data());
  for (std::size_t k = 0; k < kept; ++k) largest[k] = all[positions[k]];
  std::memcpy(append(out, kept * sizeof(std::uint32_t)), positions.data(), kept * sizeof(std::uint32_t));
  char* packed = append(out, bytes_of(kept_, sent));
  write_values(reinterpret_cast<const char*>(largest.data()), kept_, type_, sent, packed);
  read_values(packed, kept_, sent, type_, reinterpret_cast<char*>(largest.data()));
  for (std::size_t i = 0; i < all.size(); ++i) left_[i] = static_cast<double>(all[i]);
  for (std::size_t k = 0; k < kept; ++k) {
    double& left = left_[positions[k]];
    left -= static_cast<double>(largest[k]);
    if (!std::isfinite(left)) left = 0;  // an infinity has been sent, and is the server's to complain about
  }
}

void decode_difference(const char* data, std::size_t bytes, std::int64_t count, DType type, char* values) {
  Prefix prefix;
  if (bytes < sizeof prefix) runtime_failure("a difference arrived damaged");
  std::memcpy(&prefix, data, sizeof prefix);
  data += sizeof prefix;
  bytes -= sizeof prefix;
  const bool fits = prefix.type == type || (type == DType::f32 && is_narrow(prefix.type));
  if (!fits || prefix.kept < 0 || prefix.kept > count) runtime_failure("a difference arrived damaged");
  if (prefix.largest_only) {
    dispatch_float(type, "a difference",
                   [&]<class T>() { scatter<T>(data, bytes, prefix, count, type, values); });
    return;
  }
  if (prefix.kept != count || bytes != bytes_of(count, prefix.type))
    runtime_failure("a difference arrived damaged");
  read_values(data, count, prefix.type, type, values);
}

}  // namespace banyan::parallel
