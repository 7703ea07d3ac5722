// A permutohedral lattice around given points (Adams, Baek, Davis 2010), made on the host: which vertices
// each point shares its value with, and which vertices are neighbours. Filtering by it takes time
// proportional to the points, and comes near sums of all values weighted by exp(-distance^2 / 2).
#pragma once

#include <cstdint>
#include <vector>

namespace banyan {

class Permutohedral {
 public:
  static constexpr int kMostDimensions = 5;
  static constexpr double kFarthest = 1e8;  ///< largest magnitude of a coordinate

  /// `features`: `dimensions` coordinates of each point, all finite and within kFarthest. As many threads as
  /// may be used.
  Permutohedral(const std::vector<double>& features, int dimensions, int threads);

  std::int64_t points() const { return points_; }
  int corners() const { return dimensions_ + 1; }  ///< of a simplex; also the number of axes
  std::int64_t vertices() const { return static_cast<std::int64_t>(starts_.size()) - 1; }

  // In the form of ops/lattice.hpp.

  /// The vertex of each corner of each point.
  const std::vector<std::int32_t>& vertex_of() const { return vertex_of_; }
  const std::vector<double>& weights() const { return weights_; }
  const std::vector<std::int32_t>& starts() const { return starts_; }
  const std::vector<std::int32_t>& entries() const { return entries_; }
  /// Along one axis.
  const std::vector<std::int32_t>& neighbours(int axis) const {
    return neighbours_[static_cast<std::size_t>(axis)];
  }
  /// What results are multiplied by to be the sums where points lie evenly.
  double scale() const;

  /// The filter with one number per point: the axes from first to last, or, if `reversed`, from last to
  /// first, which is the transposed matrix.
  std::vector<double> filtered(const std::vector<double>& x, bool reversed = false) const;

 private:
  void place(const double* feature, std::int32_t* keys, double* weights) const;
  void number_vertices(const std::vector<std::int32_t>& keys, int threads);
  void list_entries();

  int dimensions_;
  std::int64_t points_;
  std::vector<std::int32_t> vertex_of_, starts_, entries_;
  std::vector<double> weights_;
  std::vector<std::vector<std::int32_t>> neighbours_;
};

}  // namespace banyan
