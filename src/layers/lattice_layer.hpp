// What layers share that filter by permutohedral lattices: made on the host, applied on the device.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/lattice.hpp"
#include "banyan/tensor/values.hpp"
#include "layers/permutohedral.hpp"

namespace banyan {

/// A lattice on the layer's device, see ops/lattice.hpp.
struct LatticeTensors {
  Tensor weights, normed;  ///< of what points give, and of what they take, divided by the sum of all weights
  Tensor vertices, starts, entries;
  std::vector<Tensor> neighbours;
  std::int64_t count = 0;  ///< of vertices
};

class LatticeLayer : public Layer {
 public:
  using Layer::Layer;

  void check_results(Context&) override {
    if (!problem_.empty()) refuse(std::exchange(problem_, {}));
  }

 protected:
  /// A colour of an image as a coordinate; what cannot be one is 0, and a problem. `name`: of the deviation.
  double color_coordinate(std::int64_t image, double color, double deviation, const char* name) {
    const double scaled = color / deviation;
    if (std::abs(scaled) <= Permutohedral::kFarthest) return scaled;  // a NaN is not
    note_problem(cat("image ", image, " has a colour of ", color, "; with ", name, " ", deviation,
                     " expected at most ", Permutohedral::kFarthest * deviation));
    return 0;
  }
  /// The first one is an error at check_results().
  void note_problem(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }

  /// Waits for the device.
  void bring(Context& context, const Permutohedral& lattice, LatticeTensors& to) const {
    const auto numbers = [&](const std::vector<std::int32_t>& from, Tensor& tensor) {
      ensure(context, tensor, Shape{static_cast<std::int64_t>(from.size())}, DType::i32);
      copy_from_host(context, from.data(), tensor);
    };
    const auto weights = [&](const std::vector<double>& from, Tensor& tensor) {
      ensure(context, tensor, Shape{static_cast<std::int64_t>(from.size())}, dtype());
      set_values(context, from, tensor);
    };
    numbers(lattice.vertex_of(), to.vertices);
    numbers(lattice.starts(), to.starts);
    numbers(lattice.entries(), to.entries);
    to.neighbours.resize(static_cast<std::size_t>(lattice.corners()));
    for (int axis = 0; axis < lattice.corners(); ++axis)
      numbers(lattice.neighbours(axis), to.neighbours[static_cast<std::size_t>(axis)]);
    weights(lattice.weights(), to.weights);
    std::vector<double> normed = lattice.weights();
    const std::vector<double> sums =
        lattice.filtered(std::vector<double>(static_cast<std::size_t>(lattice.points()), 1.0));
    for (std::size_t entry = 0; entry < normed.size(); ++entry)
      normed[entry] *= lattice.scale() / sums[entry / static_cast<std::size_t>(lattice.corners())];
    weights(normed, to.normed);
    to.count = lattice.vertices();
  }

  struct Filter {
    bool transposed = false, add = false;
  };
  /// y (points, C) = x filtered, each result divided by what 1 at all points gives; by the transposed matrix
  /// of all that; added to y.
  void apply(Context& context, const LatticeTensors& lattice, const Tensor& x, const Filter& how, Tensor& y) {
    for (Tensor& values : values_) ensure(context, values, Shape{lattice.count, x.shape()[1]}, dtype());
    ops::lattice_splat(context, x, how.transposed ? lattice.normed : lattice.weights, lattice.starts,
                       lattice.entries, values_[0]);
    const std::size_t axes = lattice.neighbours.size();
    for (std::size_t step = 0; step < axes; ++step) {
      ops::lattice_blur(context, values_[0], lattice.neighbours[how.transposed ? axes - 1 - step : step],
                        values_[1]);
      std::swap(values_[0], values_[1]);
    }
    ops::lattice_slice(context, values_[0], how.transposed ? lattice.weights : lattice.normed,
                       lattice.vertices, how.add, y);
  }

 private:
  Tensor values_[2];  ///< of vertices
  std::string problem_;
};

}  // namespace banyan
