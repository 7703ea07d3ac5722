#include "layers/cell_targets.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace banyan {
namespace {

Box box_of(const CellObject& object) {
  return {object.x - object.width / 2, object.y - object.height / 2, object.x + object.width / 2,
          object.y + object.height / 2};
}

/// Of two boxes with one centre.
double overlap_of_sizes(double width, double height, const CellObject& object) {
  return overlap({0, 0, width, height}, {0, 0, object.width, object.height});
}

class CellWriter {
 public:
  CellWriter(const CellRules& rules, std::int64_t rows, std::int64_t columns, const double* predicted,
             const CellTargets& to)
      : rules_(rules), rows_(rows), columns_(columns), predicted_(predicted), to_(to) {}

  /// Objectness where no object is, and the boxes of the first passes.
  void write_background(const std::vector<CellObject>& objects) {
    std::vector<Box> boxes;
    for (const CellObject& object : objects) boxes.push_back(box_of(object));
    for (std::size_t n = 0; n < rules_.own.size(); ++n)
      for (std::int64_t cell = 0; cell < cells(); ++cell) {
        const Box box = predicted_box(n, cell);
        const bool near = std::any_of(boxes.begin(), boxes.end(), [&](const Box& object) {
          return overlap(box, object) > rules_.threshold;
        });
        write(n, cell, 4, 0, near ? 0 : rules_.no_object);
        if (rules_.own_place == 0) continue;
        for (const auto& [channel, target] : {std::pair{0, 0.5}, {1, 0.5}, {2, 0.0}, {3, 0.0}})
          write(n, cell, channel, target, rules_.own_place);
      }
  }

  void write_object(const CellObject& object) {
    const auto index = [](double place, std::int64_t count) {
      return std::clamp(static_cast<std::int64_t>(std::floor(place * static_cast<double>(count))),
                        std::int64_t{0}, count - 1);
    };
    const std::int64_t row = index(object.y, rows_), column = index(object.x, columns_);
    const std::int64_t cell = row * columns_ + column;
    const std::optional<std::size_t> found = best_box(object, cell);
    if (!found) return;
    const std::size_t n = *found;
    const std::array<double, 2>& size = rules_.sizes[rules_.own[n]];
    const double width = object.width * static_cast<double>(columns_),
                 height = object.height * static_cast<double>(rows_);
    const double weight =
        rules_.coordinates * (rules_.small_boxes_weigh_more ? 2 - object.width * object.height : 1);
    write(n, cell, 0, object.x * static_cast<double>(columns_) - static_cast<double>(column), weight);
    write(n, cell, 1, object.y * static_cast<double>(rows_) - static_cast<double>(row), weight);
    write(n, cell, 2, std::log(width / size[0]), weight);
    write(n, cell, 3, std::log(height / size[1]), weight);
    const double objectness =
        rules_.overlap_is_objectness ? overlap(predicted_box(n, cell), box_of(object)) : 1;
    write(n, cell, 4, objectness, rules_.objectness);
    write_classes(n, cell, object.label);
  }

 private:
  std::int64_t cells() const { return rows_ * columns_; }
  std::int64_t place(std::size_t n, std::int64_t cell, std::int64_t channel) const {
    return (static_cast<std::int64_t>(n) * (5 + rules_.classes) + channel) * cells() + cell;
  }
  void write(std::size_t n, std::int64_t cell, std::int64_t channel, double target, double weight) {
    to_.targets[place(n, cell, channel)] = target;
    to_.weights[place(n, cell, channel)] = weight;
  }
  Box predicted_box(std::size_t n, std::int64_t cell) const {
    return cell_box(rules_.sizes[rules_.own[n]], cell, rows_, columns_, predicted_ + place(n, cell, 0),
                    cells());
  }

  /// Which of the cell's boxes is the object's: none where another of `sizes` fits better.
  std::optional<std::size_t> best_box(const CellObject& object, std::int64_t cell) const {
    const std::size_t count = rules_.matches_predicted_sizes ? rules_.own.size() : rules_.sizes.size();
    std::optional<std::size_t> best;
    double most = 0;
    for (std::size_t k = 0; k < count; ++k) {
      double width = rules_.sizes[k][0] / static_cast<double>(columns_),
             height = rules_.sizes[k][1] / static_cast<double>(rows_);
      if (rules_.matches_predicted_sizes) {
        const Box box = predicted_box(k, cell);
        width = box.x2 - box.x1;
        height = box.y2 - box.y1;
      }
      const double shared = overlap_of_sizes(width, height, object);
      if (shared > most) most = shared, best = k;
    }
    if (!best || rules_.matches_predicted_sizes) return best;
    const auto own = std::find(rules_.own.begin(), rules_.own.end(), *best);
    if (own == rules_.own.end()) return std::nullopt;
    return static_cast<std::size_t>(own - rules_.own.begin());
  }

  /// Classes that do not exclude each other are those of all objects in one place.
  void write_classes(std::size_t n, std::int64_t cell, std::int64_t label) {
    for (std::int64_t k = 0; k < rules_.classes; ++k) {
      const double before = rules_.exclusive ? 0 : to_.targets[place(n, cell, 5 + k)];
      write(n, cell, 5 + k, k == label ? 1 : before, rules_.class_weight);
    }
  }

  const CellRules& rules_;
  std::int64_t rows_, columns_;
  const double* predicted_;
  CellTargets to_;
};

}  // namespace

void write_cell_targets(const CellRules& rules, std::int64_t rows, std::int64_t columns,
                        const double* predicted, const std::vector<CellObject>& objects,
                        const CellTargets& to) {
  CellWriter writer(rules, rows, columns, predicted, to);
  writer.write_background(objects);
  for (const CellObject& object : objects) writer.write_object(object);
}

Box cell_box(const std::array<double, 2>& size, std::int64_t cell, std::int64_t rows, std::int64_t columns,
             const double* values, std::int64_t stride) {
  const auto height = static_cast<double>(rows), width = static_cast<double>(columns);
  const double x = (static_cast<double>(cell % columns) + values[0]) / width,
               y = (static_cast<double>(cell / columns) + values[stride]) / height;
  const double half_width = std::exp(values[2 * stride]) * size[0] / width / 2,
               half_height = std::exp(values[3 * stride]) * size[1] / height / 2;
  return {x - half_width, y - half_height, x + half_width, y + half_height};
}

}  // namespace banyan
