// Logical shape of a tensor: the lengths of its axes, outermost first, as in Caffe (N, C, H, W for images).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace banyan {

class Shape {
 public:
  Shape() = default;  ///< no axes: a scalar, count 1
  Shape(std::initializer_list<std::int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {}

  int axes() const { return static_cast<int>(dims_.size()); }
  /// Length of an axis; a negative axis counts from the end. Throws bad_input when out of range.
  std::int64_t dim(int axis) const { return dims_[canonical_axis(axis)]; }
  std::int64_t operator[](int axis) const { return dim(axis); }
  void set_dim(int axis, std::int64_t length) { dims_[canonical_axis(axis)] = length; }
  /// Number of elements.
  std::int64_t count() const { return count(0, axes()); }
  /// Product of the lengths of the axes [from, to); both must lie in [0, axes()].
  std::int64_t count(int from, int to) const;
  std::int64_t count(int from) const { return count(from, axes()); }
  /// Maps [-axes, axes) to [0, axes). Throws bad_input otherwise.
  int canonical_axis(int axis) const;
  const std::vector<std::int64_t>& dims() const { return dims_; }
  bool operator==(const Shape&) const = default;
  /// Caffe's form: "64 1 28 28 (50176)".
  std::string to_string() const;

 private:
  std::vector<std::int64_t> dims_;
};

}  // namespace banyan
