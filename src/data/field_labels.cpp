#include "banyan/data/field_labels.hpp"

#include <algorithm>
#include <cmath>

namespace banyan::data {
namespace {

/// How much of `field` lies in `other`.
float share_within(const Box& field, const Box& other, Corners corners) {
  const Box common{std::max(field.x1, other.x1), std::max(field.y1, other.y1), std::min(field.x2, other.x2),
                   std::min(field.y2, other.y2)};
  return static_cast<float>(area(common, corners) / area(field, corners));
}

class FieldLabelling {
 public:
  FieldLabelling(const FieldRules& rules, const FieldFrame& frame, const std::vector<ListedBox>& boxes,
                 const std::vector<Box>& regions)
      : rules_(rules), frame_(frame), boxes_(boxes), regions_(regions), own_(boxes.size()) {}

  std::vector<std::vector<double>> run() {
    for (std::size_t m = 0; m < rules_.maps.size(); ++m) label_map(m);
    if (!rules_.maps.empty())
      for (std::size_t b = 0; b < boxes_.size(); ++b) give_own(b);
    return std::move(labels_);
  }

 private:
  struct Own {
    bool found = false;  ///< by any field
    float overlap = 0;   ///< of the field that overlaps the box most
    std::size_t map = 0;
  };

  void label_map(std::size_t m) {
    const FieldMap& map = rules_.maps[m];
    const FieldGrid grid = grid_of(map, frame_.height, frame_.width);
    const auto steps = [&](int pixels) { return std::lround(pixels / map.stride); };
    const std::int64_t left = steps(frame_.left), right = left + steps(frame_.columns),
                       top = steps(frame_.top), bottom = top + steps(frame_.rows);
    labels_.emplace_back(static_cast<std::size_t>(6 * grid.rows * grid.columns), 0.0);
    for (std::int64_t row = 0; row < grid.rows; ++row)
      for (std::int64_t column = 0; column < grid.columns; ++column) {
        const double x = (static_cast<double>(column) + 0.5) * map.stride,
                     y = (static_cast<double>(row) + 0.5) * map.stride;
        const Box field{x - map.width / 2, y - map.height / 2, x + map.width / 2, y + map.height / 2};
        const bool inside = column >= left && column < right && row >= top && row < bottom;
        const std::int64_t at = row * grid.columns + column;
        if (inside && !reaches_out(field, map))
          label_field(m, at, field);
        else
          number(m, 5, at) = 1;
      }
  }

  bool reaches_out(const Box& field, const FieldMap& map) const {
    const double right = frame_.left + frame_.columns, bottom = frame_.top + frame_.rows;
    if (rules_.margin) {
      const double across = *rules_.margin * map.width / 2, down = *rules_.margin * map.height / 2;
      return field.x1 < frame_.left - across || field.x2 >= right + across || field.y1 < frame_.top - down ||
             field.y2 >= bottom + down;
    }
    const Box image{static_cast<double>(frame_.left), static_cast<double>(frame_.top), right, bottom};
    return rules_.margin_overlap && share_within(field, image, rules_.corners) < *rules_.margin_overlap;
  }

  void label_field(std::size_t m, std::int64_t at, const Box& field) {
    float in_regions = 0;
    for (const Box& region : regions_) in_regions += share_within(field, region, rules_.corners);
    const bool neither = in_regions >= rules_.ignore_threshold;
    if (neither && rules_.corners == Corners::points) {
      number(m, 5, at) = 1;
      return;
    }
    std::size_t best = 0;
    float most = 0;
    for (std::size_t b = 0; b < boxes_.size(); ++b) {
      const auto shared = static_cast<float>(overlap(boxes_[b].box, field, rules_.corners));
      if (shared > most) most = shared, best = b;
      if (shared > own_[b].overlap) own_[b].overlap = shared, own_[b].map = m;
    }
    const bool finds = most > rules_.fg_threshold;
    number(m, 5, at) = neither && !finds ? 1 : most;
    if (!finds) return;
    own_[best].found = true;
    write_box(m, at, boxes_[best]);
  }

  /// In the field around its centre.
  void give_own(std::size_t b) {
    const ListedBox& listed = boxes_[b];
    const Own& own = own_[b];
    if (listed.ignored || own.found || own.overlap < rules_.own_threshold) return;
    const FieldMap& map = rules_.maps[own.map];
    const FieldGrid grid = grid_of(map, frame_.height, frame_.width);
    const auto place = [&](double from, double to, std::int64_t length) {
      return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor((from + to) / 2 / map.stride)), 0,
                                      length - 1);
    };
    if (grid.rows == 0 || grid.columns == 0) return;
    const std::int64_t at = place(listed.box.y1, listed.box.y2, grid.rows) * grid.columns +
                            place(listed.box.x1, listed.box.x2, grid.columns);
    if (number(own.map, 0, at) > 0) return;
    write_box(own.map, at, listed);
    if (rules_.corners == Corners::pixels) number(own.map, 5, at) = own.overlap;
  }

  void write_box(std::size_t m, std::int64_t at, const ListedBox& listed) {
    const double last = rules_.corners == Corners::pixels ? 1 : 0;
    const Box& box = listed.box;
    const double numbers[] = {listed.ignored ? 0.0 : listed.label, (box.x1 + box.x2) / 2,
                              (box.y1 + box.y2) / 2, box.x2 - box.x1 + last, box.y2 - box.y1 + last};
    for (std::size_t k = 0; k < 5; ++k) number(m, k, at) = numbers[k];
  }

  double& number(std::size_t m, std::size_t which, std::int64_t at) {
    return labels_[m][which * (labels_[m].size() / 6) + static_cast<std::size_t>(at)];
  }

  const FieldRules& rules_;
  const FieldFrame& frame_;
  const std::vector<ListedBox>& boxes_;
  const std::vector<Box>& regions_;
  std::vector<Own> own_;  ///< of each box
  std::vector<std::vector<double>> labels_;
};

}  // namespace

FieldGrid grid_of(const FieldMap& map, int height, int width) {
  return {std::lround(height / map.stride), std::lround(width / map.stride)};
}

std::vector<std::vector<double>> field_labels(const FieldRules& rules, const FieldFrame& frame,
                                              const std::vector<ListedBox>& boxes,
                                              const std::vector<Box>& regions) {
  return FieldLabelling(rules, frame, boxes, regions).run();
}

}  // namespace banyan::data
