#include "banyan/tensor/shape.hpp"

#include <limits>
#include <optional>

#include "banyan/base/error.hpp"

namespace banyan {
namespace {

/// Bytes of the widest type are counted in 64 bits too.
constexpr std::int64_t kMostElements = std::numeric_limits<std::int64_t>::max() / 8;

/// Nothing if there are too many.
std::optional<std::int64_t> product_of(const std::vector<std::int64_t>& dims, int from, int to) {
  std::int64_t product = 1;
  for (int axis = from; axis < to; ++axis)
    if (__builtin_mul_overflow(product, dims[axis], &product) || product > kMostElements) return {};
  return product;
}

}  // namespace

std::int64_t Shape::count(int from, int to) const {
  if (from < 0 || to > axes() || from > to)
    bad_input("axes [", from, ", ", to, ") of shape ", to_string(), " do not exist: it has ", axes(),
              " axes");
  const std::optional<std::int64_t> product = product_of(dims_, from, to);
  if (!product)
    bad_input("the shape ", to_string(), " has more elements than can be counted: ", kMostElements);
  return *product;
}

int Shape::canonical_axis(int axis) const {
  if (axis < -axes() || axis >= axes())
    bad_input("axis ", axis, " is out of range for shape ", to_string(), " with ", axes(), " axes");
  return axis < 0 ? axis + axes() : axis;
}

std::string Shape::to_string() const {
  std::string text;
  for (const std::int64_t length : dims_) text += std::to_string(length) + " ";
  const std::optional<std::int64_t> product = product_of(dims_, 0, axes());
  return text + (product ? "(" + std::to_string(*product) + ")" : "(too many)");
}

}  // namespace banyan
