#include "layers/permutohedral.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

namespace banyan {
namespace {

constexpr std::size_t kMostCorners = Permutohedral::kMostDimensions + 1;
using VertexKey = std::array<std::int32_t, kMostCorners>;

/// Numbers of the lattice's vertices by their first coordinates (all of them add up to 0), in the order in
/// which they are met.
class VertexNumbers {
 public:
  explicit VertexNumbers(int dimensions)
      : dimensions_(static_cast<std::size_t>(dimensions)), slots_(1024, -1) {}

  std::int64_t count() const { return static_cast<std::int64_t>(keys_.size() / dimensions_); }
  const std::int32_t* key(std::int64_t number) const {
    return keys_.data() + static_cast<std::size_t>(number) * dimensions_;
  }
  /// -1: not met.
  std::int32_t find(const std::int32_t* key) const { return slots_[slot(key)]; }
  std::int32_t number(const std::int32_t* key) {
    std::int32_t& found = slots_[slot(key)];
    if (found >= 0) return found;
    const auto next = static_cast<std::int32_t>(count());
    found = next;
    keys_.insert(keys_.end(), key, key + dimensions_);
    if (2 * static_cast<std::size_t>(count()) > slots_.size()) grow();
    return next;
  }

 private:
  std::size_t slot(const std::int32_t* key) const {
    std::uint64_t mixed = 0;
    for (std::size_t i = 0; i < dimensions_; ++i) {
      mixed = (mixed ^ static_cast<std::uint32_t>(key[i])) * 0x9e3779b97f4a7c15u;
      mixed ^= mixed >> 29;
    }
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = static_cast<std::size_t>(mixed) & mask;
    while (slots_[at] >= 0 && !std::equal(key, key + dimensions_, this->key(slots_[at])))
      at = (at + 1) & mask;
    return at;
  }
  void grow() {
    slots_.assign(2 * slots_.size(), -1);
    for (std::int64_t n = 0; n < count(); ++n) slots_[slot(key(n))] = static_cast<std::int32_t>(n);
  }

  std::size_t dimensions_;
  std::vector<std::int32_t> keys_, slots_;
};

/// To a multiple of 2^-32, so that sums are exact: on a border of simplices, where the pixels of an image may
/// lie, rounding must not decide.
double in_steps(double along) { return std::ldexp(std::round(std::ldexp(along, 32)), -32); }

}  // namespace

Permutohedral::Permutohedral(const std::vector<double>& features, int dimensions, int threads)
    : dimensions_(dimensions), points_(static_cast<std::int64_t>(features.size()) / dimensions) {
  const std::int64_t entries = points_ * corners();
  weights_.resize(static_cast<std::size_t>(entries));
  vertex_of_.resize(static_cast<std::size_t>(entries));
  std::vector<std::int32_t> keys(static_cast<std::size_t>(entries * dimensions));
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (std::int64_t point = 0; point < points_; ++point)
    place(features.data() + point * dimensions_, keys.data() + point * corners() * dimensions_,
          weights_.data() + point * corners());
  number_vertices(keys, threads);
  list_entries();
}

/// The point in the lattice's coordinates, of which there is one more than dimensions and which add up to 0.
/// The lattice's points are those whose coordinates all leave the same remainder, 0 to `dimensions`, when
/// divided by their number. A simplex has one vertex of each remainder: starting at its vertex of remainder
/// 0, they are reached by raising all coordinates by 1 while the ones that the point exceeds least wrap
/// around.
void Permutohedral::place(const double* feature, std::int32_t* keys, double* weights) const {
  const int number = corners();
  std::array<double, kMostCorners> rest{};
  std::array<std::int32_t, kMostCorners> whole{};
  std::array<std::size_t, kMostCorners> order{};
  // Sharing, mixing and taking back together have a variance of 2 / 3 number^2 in each dimension.
  const double spread = number * std::sqrt(2.0 / 3.0);
  double sum = 0;
  for (int i = dimensions_; i >= 0; --i) {
    const double along = i > 0 ? in_steps(feature[i - 1] * spread / std::sqrt(i * (i + 1.0))) : 0;
    const double coordinate = sum - i * along;
    sum += along;
    const double nearest = std::round(coordinate / number);
    whole[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(nearest);
    rest[static_cast<std::size_t>(i)] = coordinate - nearest * number;
  }
  const auto first = order.begin(), last = first + number;
  std::iota(first, last, std::size_t{0});
  std::sort(first, last,
            [&](std::size_t a, std::size_t b) { return rest[a] > rest[b] || (rest[a] == rest[b] && a < b); });
  // Rounding may leave the plane: the coordinates that were moved farthest go the other way.
  const int excess = std::accumulate(whole.begin(), whole.begin() + number, 0);
  const auto shift = [&](auto from, auto to, int by) {
    for (auto at = from; at != to; ++at) {
      whole[*at] += by;
      rest[*at] -= by * number;
    }
  };
  if (excess > 0) {
    shift(last - excess, last, -1);
    std::rotate(first, last - excess, last);
  } else if (excess < 0) {
    shift(first, first - excess, 1);
    std::rotate(first, first - excess, last);
  }
  const auto exceeds = [&](int place) { return rest[order[static_cast<std::size_t>(place)]]; };
  weights[0] = 1 - (exceeds(0) - exceeds(dimensions_)) / number;
  for (int k = 1; k < number; ++k) weights[k] = (exceeds(dimensions_ - k) - exceeds(number - k)) / number;
  for (int k = 0; k < number; ++k)
    for (int place = 0; place < number; ++place) {
      const std::size_t i = order[static_cast<std::size_t>(place)];
      if (i >= static_cast<std::size_t>(dimensions_)) continue;
      keys[k * dimensions_ + static_cast<int>(i)] =
          whole[i] * number + k - (place > dimensions_ - k ? number : 0);
    }
}

void Permutohedral::number_vertices(const std::vector<std::int32_t>& keys, int threads) {
  VertexNumbers numbers(dimensions_);
  for (std::size_t entry = 0; entry < vertex_of_.size(); ++entry)
    vertex_of_[entry] = numbers.number(keys.data() + entry * static_cast<std::size_t>(dimensions_));
  starts_.assign(static_cast<std::size_t>(numbers.count()) + 1, 0);
  neighbours_.assign(static_cast<std::size_t>(corners()),
                     std::vector<std::int32_t>(2 * static_cast<std::size_t>(numbers.count())));
  const std::int64_t steps = numbers.count() * corners();
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t vertex = step / corners(), axis = step % corners();
    const std::int32_t* const key = numbers.key(vertex);
    VertexKey up{}, down{};
    for (int i = 0; i < dimensions_; ++i) {
      const std::int32_t by = i == axis ? -dimensions_ : 1;
      up[static_cast<std::size_t>(i)] = key[i] + by;
      down[static_cast<std::size_t>(i)] = key[i] - by;
    }
    std::int32_t* const found = neighbours_[static_cast<std::size_t>(axis)].data() + 2 * vertex;
    found[0] = numbers.find(up.data());
    found[1] = numbers.find(down.data());
  }
}

/// Each vertex's entries, in ascending order.
void Permutohedral::list_entries() {
  for (const std::int32_t vertex : vertex_of_) ++starts_[static_cast<std::size_t>(vertex) + 1];
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  std::vector<std::int32_t> next = starts_;
  entries_.resize(vertex_of_.size());
  for (std::size_t entry = 0; entry < vertex_of_.size(); ++entry)
    entries_[static_cast<std::size_t>(next[static_cast<std::size_t>(vertex_of_[entry])]++)] =
        static_cast<std::int32_t>(entry);
}

/// Where points lie evenly, what a vertex stands for is as large as a cell of the lattice,
/// (3/2)^(d/2) / sqrt(d + 1), and mixing doubles everything once per axis; the sums are (2 pi)^(d/2) for one
/// point per unit.
double Permutohedral::scale() const {
  return std::sqrt(dimensions_ + 1.0) * std::pow(4 * std::numbers::pi / 3, dimensions_ / 2.0) /
         std::ldexp(1, dimensions_ + 1);
}

std::vector<double> Permutohedral::filtered(const std::vector<double>& x, bool reversed) const {
  const auto at = [](std::int32_t number) { return static_cast<std::size_t>(number); };
  const auto each = static_cast<std::size_t>(corners());
  std::vector<double> values(static_cast<std::size_t>(vertices())), blurred(values.size());
  for (std::size_t entry = 0; entry < vertex_of_.size(); ++entry)
    values[at(vertex_of_[entry])] += weights_[entry] * x[entry / each];
  for (int step = 0; step < corners(); ++step) {
    const std::vector<std::int32_t>& beside = neighbours(reversed ? dimensions_ - step : step);
    for (std::size_t v = 0; v < values.size(); ++v) {
      double sum = 0;
      for (const std::int32_t other : {beside[2 * v], beside[2 * v + 1]})
        if (other >= 0) sum += values[at(other)];
      blurred[v] = values[v] + sum / 2;
    }
    values.swap(blurred);
  }
  std::vector<double> y(static_cast<std::size_t>(points_));
  for (std::size_t entry = 0; entry < vertex_of_.size(); ++entry)
    y[entry / each] += scale() * weights_[entry] * values[at(vertex_of_[entry])];
  return y;
}

}  // namespace banyan
