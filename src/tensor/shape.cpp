#include "banyan/tensor/shape.hpp"

#include "banyan/base/error.hpp"

namespace banyan {

std::int64_t Shape::count(int from, int to) const {
  if (from < 0 || to > axes() || from > to)
    bad_input("axes [", from, ", ", to, ") of shape ", to_string(), " do not exist: it has ", axes(),
              " axes");
  std::int64_t product = 1;
  for (int axis = from; axis < to; ++axis) product *= dims_[axis];
  return product;
}

int Shape::canonical_axis(int axis) const {
  if (axis < -axes() || axis >= axes())
    bad_input("axis ", axis, " is out of range for shape ", to_string(), " with ", axes(), " axes");
  return axis < 0 ? axis + axes() : axis;
}

std::string Shape::to_string() const {
  std::string text;
  for (const std::int64_t length : dims_) text += std::to_string(length) + " ";
  return text + "(" + std::to_string(count()) + ")";
}

}  // namespace banyan
