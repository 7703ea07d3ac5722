#include "banyan/data/box_geometry.hpp"

#include <algorithm>
#include <cmath>

namespace banyan::data {

Box seen_through(const Box& view, const Box& box) {
  const double width = view.x2 - view.x1, height = view.y2 - view.y1;
  return {(box.x1 - view.x1) / width, (box.y1 - view.y1) / height, (box.x2 - view.x1) / width,
          (box.y2 - view.y1) / height};
}

Box mirrored(const Box& box) { return {1 - box.x2, box.y1, 1 - box.x1, box.y2}; }

double coverage(const Box& box, const Box& other) {
  const Box both{std::max(box.x1, other.x1), std::max(box.y1, other.y1), std::min(box.x2, other.x2),
                 std::min(box.y2, other.y2)};
  const double all = area(box);
  return all > 0 ? area(both) / all : 0;
}

bool is_emitted(const caffe::EmitConstraint& constraint, const Box& view, const Box& object) {
  if (constraint.emit_type() == caffe::EmitConstraint::MIN_OVERLAP)
    return coverage(object, view) > constraint.emit_overlap();
  const double x = (object.x1 + object.x2) / 2, y = (object.y1 + object.y2) / 2;
  return x >= view.x1 && x <= view.x2 && y >= view.y1 && y <= view.y2;
}

void look_through(const Box& view, const caffe::EmitConstraint* constraint, std::vector<ObjectBox>& objects) {
  std::vector<ObjectBox> seen;
  for (ObjectBox object : objects) {
    if (constraint != nullptr && !is_emitted(*constraint, view, object.box)) continue;
    object.box = clipped(seen_through(view, object.box));
    if (area(object.box) > 0) seen.push_back(object);
  }
  objects = std::move(seen);
}

Box sample_box(const caffe::Sampler& sampler, const std::array<double, 4>& numbers) {
  const auto between = [](double low, double high, double at) { return low + (high - low) * at; };
  const double scale = between(sampler.min_scale(), sampler.max_scale(), numbers[0]);
  // No side is longer than the image's.
  const double ratio = std::clamp(between(sampler.min_aspect_ratio(), sampler.max_aspect_ratio(), numbers[1]),
                                  scale * scale, 1 / (scale * scale));
  const double width = std::min(1.0, scale * std::sqrt(ratio)),
               height = std::min(1.0, scale / std::sqrt(ratio));
  const double left = numbers[2] * (1 - width), top = numbers[3] * (1 - height);
  return {left, top, left + width, top + height};
}

bool is_accepted(const caffe::SampleConstraint& c, const Box& sample, const std::vector<ObjectBox>& objects) {
  const auto within = [](bool has_least, double least, bool has_most, double most, const auto& value) {
    if (!has_least && !has_most) return true;
    const double found = value();
    return !(has_least && found < least) && !(has_most && found > most);
  };
  if (!c.has_min_jaccard_overlap() && !c.has_max_jaccard_overlap() && !c.has_min_sample_coverage() &&
      !c.has_max_sample_coverage() && !c.has_min_object_coverage() && !c.has_max_object_coverage())
    return true;
  return std::any_of(objects.begin(), objects.end(), [&](const ObjectBox& object) {
    const Box& box = object.box;
    return within(c.has_min_jaccard_overlap(), c.min_jaccard_overlap(), c.has_max_jaccard_overlap(),
                  c.max_jaccard_overlap(), [&] { return overlap(sample, box); }) &&
           within(c.has_min_sample_coverage(), c.min_sample_coverage(), c.has_max_sample_coverage(),
                  c.max_sample_coverage(), [&] { return coverage(sample, box); }) &&
           within(c.has_min_object_coverage(), c.min_object_coverage(), c.has_max_object_coverage(),
                  c.max_object_coverage(), [&] { return coverage(box, sample); });
  });
}

PixelBox pixels_of(const Box& part, int height, int width) {
  const auto extent = [](double from, double to, int length) {
    const int first = std::clamp(static_cast<int>(from * length), 0, length - 1);
    return std::pair{first, std::clamp(static_cast<int>((to - from) * length), 1, length - first)};
  };
  const auto [top, rows] = extent(part.y1, part.y2, height);
  const auto [left, columns] = extent(part.x1, part.x2, width);
  return {top, left, rows, columns};
}

Box fractions_of(const PixelBox& part, int height, int width) {
  const double h = height, w = width;
  return {part.left / w, part.top / h, (part.left + part.width) / w, (part.top + part.height) / h};
}

Resized resized(const caffe::ResizeParameter& settings, int height, int width) {
  const auto new_height = static_cast<int>(settings.height()), new_width = static_cast<int>(settings.width());
  if (settings.resize_mode() == caffe::ResizeParameter::WARP)
    return {new_height, new_width, {0, 0, new_height, new_width}};
  // As high as is asked for, or as wide; in whole pixels, rounded down.
  const bool small = settings.resize_mode() == caffe::ResizeParameter::FIT_SMALL_SIZE;
  const std::int64_t by_height = std::int64_t{new_height} * width,
                     by_width = std::int64_t{new_width} * height;
  const bool fits_height = small == (by_height >= by_width);
  const int inner_height = fits_height ? new_height : std::max(1, static_cast<int>(by_width / width));
  const int inner_width = fits_height ? std::max(1, static_cast<int>(by_height / height)) : new_width;
  if (small) return {inner_height, inner_width, {0, 0, inner_height, inner_width}};
  return {new_height,
          new_width,
          {(new_height - inner_height) / 2, (new_width - inner_width) / 2, inner_height, inner_width}};
}

}  // namespace banyan::data
