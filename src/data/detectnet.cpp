#include "banyan/data/detectnet.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "data/distortion.hpp"
#include "data/range_check.hpp"
#include "data/resampling.hpp"

namespace banyan::data {
namespace {

constexpr int kChannels = 3;
constexpr double kNothing = std::numeric_limits<float>::epsilon();

std::size_t plane_size(const Planes& image) {
  return static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width);
}

Planes empty_image(int height, int width) {
  Planes image{height, width, {}};
  image.values.resize(kChannels * plane_size(image));
  return image;
}

void change_colours(const ImageChange& how, Planes& image) {
  const std::size_t plane = plane_size(image);
  float* const b = image.values.data();
  float *const g = b + plane, *const r = g + plane;
  for (std::size_t i = 0; i < plane; ++i) {
    Pixel pixel{b[i], g[i], r[i]};
    if (how.hue != 0) pixel = turned(pixel, how.hue / 60);
    if (how.saturation != 1) pixel = saturated(pixel, how.saturation);
    b[i] = static_cast<float>(pixel[0]), g[i] = static_cast<float>(pixel[1]),
    r[i] = static_cast<float>(pixel[2]);
  }
}

void subtract(const std::vector<float>& mean, Planes& image) {
  const std::size_t plane = plane_size(image);
  for (std::size_t i = 0; i < image.values.size(); ++i)
    image.values[i] -= mean.size() == kChannels ? mean[i / plane] : mean[i];
}

void flip(Planes& image) {
  for (std::size_t row = 0; row < image.values.size(); row += static_cast<std::size_t>(image.width))
    std::reverse(image.values.begin() + static_cast<std::ptrdiff_t>(row),
                 image.values.begin() + static_cast<std::ptrdiff_t>(row) + image.width);
}

/// A rotation about the centre of an image of height x width.
struct Rotation {
  double cosine, sine;    ///< clockwise
  double from_x, from_y;  ///< centre
  int left, top;          ///< of the pixels that the rotated image reaches
  int new_height, new_width;

  Rotation(int height, int width, double degrees)
      : cosine(std::cos(degrees * std::numbers::pi / 180)),
        sine(std::sin(degrees * std::numbers::pi / 180)),
        from_x(width * 0.5),
        from_y(height * 0.5) {
    const double reach_x = std::abs(cosine) * from_x + std::abs(sine) * from_y,
                 reach_y = std::abs(sine) * from_x + std::abs(cosine) * from_y;
    left = static_cast<int>(std::floor(from_x - reach_x));
    top = static_cast<int>(std::floor(from_y - reach_y));
    new_width = static_cast<int>(std::ceil(from_x + reach_x)) - left + 1;
    new_height = static_cast<int>(std::ceil(from_y + reach_y)) - top + 1;
  }
  /// Where a point of the image goes.
  void turn(double& x, double& y) const {
    const double dx = x - from_x, dy = y - from_y;
    x = from_x + cosine * dx - sine * dy - left;
    y = from_y + sine * dx + cosine * dy - top;
  }
};

/// Zeros outside.
Planes rotated(const Planes& image, double degrees) {
  const Rotation rotation(image.height, image.width, degrees);
  Planes to = empty_image(rotation.new_height, rotation.new_width);
  const std::size_t from_plane = plane_size(image), to_plane = plane_size(to);
  for (int y = 0; y < to.height; ++y)
    for (int x = 0; x < to.width; ++x) {
      const double dx = x + rotation.left - rotation.from_x, dy = y + rotation.top - rotation.from_y;
      const double from_x = rotation.from_x + rotation.cosine * dx + rotation.sine * dy,
                   from_y = rotation.from_y - rotation.sine * dx + rotation.cosine * dy;
      const int left = static_cast<int>(std::floor(from_x)), top = static_cast<int>(std::floor(from_y));
      if (left < 0 || top < 0 || left + 1 >= image.width || top + 1 >= image.height) continue;
      const double right_part = from_x - left, lower_part = from_y - top;
      const float* at = image.values.data() + std::ptrdiff_t{top} * image.width + left;
      float* out = to.values.data() + std::ptrdiff_t{y} * to.width + x;
      for (int c = 0; c < kChannels; ++c, at += from_plane, out += to_plane) {
        const double upper = at[0] + right_part * (at[1] - at[0]);
        const float* below = at + image.width;
        const double lower = below[0] + right_part * (below[1] - below[0]);
        *out = static_cast<float>(upper + lower_part * (lower - upper));
      }
    }
  return to;
}

/// Zeros outside.
Planes cut_out(const Planes& image, int left, int top, int height, int width) {
  Planes to = empty_image(height, width);
  const int first = std::max(0, -left), end = std::min(width, image.width - left);
  if (end <= first) return to;
  for (int c = 0; c < kChannels; ++c)
    for (int y = std::max(0, -top); y < std::min(height, image.height - top); ++y) {
      const float* from = image.values.data() + static_cast<std::size_t>(c) * plane_size(image) +
                          std::ptrdiff_t{y + top} * image.width + left;
      std::copy(from + first, from + end,
                to.values.data() + static_cast<std::size_t>(c) * plane_size(to) + std::ptrdiff_t{y} * width +
                    first);
    }
  return to;
}

/// What of `object` is covered: about its centre, smaller than its box.
GridObject covered_part(const GridObject& object, const caffe::DetectNetGroundTruthParameter& settings) {
  const bool at_least = settings.gridbox_type() == caffe::DetectNetGroundTruthParameter::GRIDBOX_MIN;
  const auto length = [&](double of_box) {
    const double shrunk = of_box * settings.scale_cvg();
    return at_least ? std::min(of_box, std::max<double>(settings.min_cvg_len(), shrunk))
                    : std::min<double>(settings.max_cvg_len(), shrunk);
  };
  GridObject part = object;
  part.width = length(object.width);
  part.height = length(object.height);
  part.x += (object.width - part.width) / 2;
  part.y += (object.height - part.height) / 2;
  return part;
}

double common_length(double a, double a_length, double b, double b_length) {
  return std::max(0.0, std::min(a + a_length, b + b_length) - std::max(a, b));
}

/// Only what is in the image.
void cut_off(int height, int width, GridObject& object) {
  const double right = std::min<double>(object.x + object.width, width),
               bottom = std::min<double>(object.y + object.height, height);
  object.x = std::max(object.x, 0.0);
  object.y = std::max(object.y, 0.0);
  object.width = std::max(0.0, right - object.x);
  object.height = std::max(0.0, bottom - object.y);
}

}  // namespace

DetectNetChanges::DetectNetChanges(const caffe::DetectNetAugmentationParameter& settings,
                                   const caffe::DetectNetGroundTruthParameter& grid, bool training,
                                   const std::string& layer)
    : settings_(settings),
      height_(static_cast<int>(grid.image_size_y())),
      width_(static_cast<int>(grid.image_size_x())),
      training_(training) {
  const RangeCheck check{layer, "detectnet_augmentation_param"};
  check("crop_prob", settings.crop_prob(), 0, 1);
  check("scale_prob", settings.scale_prob(), 0, 1);
  check("flip_prob", settings.flip_prob(), 0, 1);
  check("rotation_prob", settings.rotation_prob(), 0, 1);
  check("hue_rotation_prob", settings.hue_rotation_prob(), 0, 1);
  check("desaturation_prob", settings.desaturation_prob(), 0, 1);
  check("desaturation_max", settings.desaturation_max(), 0, 1);
  check("scale_min", settings.scale_min(), 0.01F, 100);
  check("scale_max", settings.scale_max(), settings.scale_min(), 100);
  check("max_rotate_degree", settings.max_rotate_degree(), 0, 180);
  check("hue_rotation", settings.hue_rotation(), 0);
  check("shift_x", settings.shift_x(), 0, 65535);
  check("shift_y", settings.shift_y(), 0, 65535);
}

ImageChange DetectNetChanges::draw(int height, int width, const ops::RandomKey& key,
                                   std::uint64_t item) const {
  ImageChange how;
  if (!training_) {
    how.height = height_, how.width = width_;
    return how;
  }
  // Always the same number of draws, so that no setting changes what another one's draws are.
  ItemDraws draws(key, item);
  const double most = std::min<double>(settings_.hue_rotation(), 180);
  draws.maybe(settings_.hue_rotation_prob(), -most, most, how.hue);
  draws.maybe(settings_.desaturation_prob(), 1 - settings_.desaturation_max(), 1, how.saturation);
  how.flip = draws.next() < settings_.flip_prob();
  double scale = 1;
  draws.maybe(settings_.scale_prob(), settings_.scale_min(), settings_.scale_max(), scale);
  how.height = std::max(1, static_cast<int>(std::lround(height * scale)));
  how.width = std::max(1, static_cast<int>(std::lround(width * scale)));
  draws.maybe(settings_.rotation_prob(), -settings_.max_rotate_degree(), settings_.max_rotate_degree(),
              how.rotation);

  int inner_height = how.height, inner_width = how.width;
  if (how.rotation != 0) {
    const Rotation rotation(how.height, how.width, how.rotation);
    inner_height = rotation.new_height, inner_width = rotation.new_width;
  }
  const bool random = draws.next() < settings_.crop_prob();
  const double at_x = draws.next(), at_y = draws.next();
  const auto offset = [&](double at, int length, int wanted, std::uint32_t shift) {
    const int more = random ? static_cast<int>(shift) : 0;
    return static_cast<int>(std::lround((random ? at : 0.5) * (length - wanted + more) - more / 2));
  };
  how.left = offset(at_x, inner_width, width_, settings_.shift_x());
  how.top = offset(at_y, inner_height, height_, settings_.shift_y());
  return how;
}

Planes DetectNetChanges::change(Planes image, const std::vector<float>& mean, const ImageChange& how) const {
  if (how.hue != 0 || how.saturation != 1) change_colours(how, image);
  if (!mean.empty()) subtract(mean, image);
  if (how.flip) flip(image);
  if (how.height != image.height || how.width != image.width) image = resized(image, how.height, how.width);
  if (how.rotation != 0) image = rotated(image, how.rotation);
  if (how.left == 0 && how.top == 0 && image.height == height_ && image.width == width_) return image;
  return cut_out(image, how.left, how.top, height_, width_);
}

std::vector<GridObject> DetectNetChanges::change(std::vector<GridObject> objects, int height, int width,
                                                 const ImageChange& how) const {
  const double scale_x = static_cast<double>(how.width) / width,
               scale_y = static_cast<double>(how.height) / height;
  const Rotation rotation(how.height, how.width, how.rotation);
  for (GridObject& object : objects) {
    if (how.flip) object.x = width - object.x - object.width - 1;
    object.x *= scale_x, object.width *= scale_x;
    object.y *= scale_y, object.height *= scale_y;
    if (how.rotation != 0) {
      double x = object.x + object.width / 2, y = object.y + object.height / 2;
      rotation.turn(x, y);
      object.x = x - object.width / 2, object.y = y - object.height / 2;
    }
    object.x -= how.left;
    object.y -= how.top;
  }
  return objects;
}

CoverageGrid::CoverageGrid(const caffe::DetectNetGroundTruthParameter& settings, const std::string& layer)
    : settings_(settings) {
  constexpr double kMostPixels = 65535;
  const RangeCheck check{layer, "detectnet_groundtruth_param"};
  check("image_size_x", settings.image_size_x(), 1, kMostPixels);
  check("image_size_y", settings.image_size_y(), 1, kMostPixels);
  check("stride", settings.stride(), 1, kMostPixels);
  check("scale_cvg", settings.scale_cvg(), 0);
  for (const auto& mapping : settings.object_class()) {
    if (!mapping.has_src() || !mapping.has_dst())
      bad_input("layer ", quoted(layer), ": object_class of detectnet_groundtruth_param needs src and dst");
    check("object_class dst", mapping.dst(), 0, 65535);
    channel_of_[mapping.src()] = mapping.dst();
  }
  if (channel_of_.empty()) channel_of_[1] = 0;  // KITTI's cars
  for (const auto& [kind, channel] : channel_of_)
    classes_ = std::max(classes_, static_cast<std::int64_t>(channel) + 1);
  const auto cells = [&](std::uint32_t pixels) {
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(pixels) / settings.stride()));
  };
  rows_ = cells(settings.image_size_y());
  columns_ = cells(settings.image_size_x());
  if (rows_ == 0 || columns_ == 0)
    bad_input("layer ", quoted(layer), ": a stride of ", settings.stride(), " leaves no cell of an image of ",
              settings.image_size_x(), " x ", settings.image_size_y());
}

void CoverageGrid::write(const std::vector<GridObject>& objects, double* to) const {
  const std::int64_t cells = rows_ * columns_;
  std::fill_n(to, channels() * cells, 0.0);
  const double side = settings_.stride();
  const auto in_cells = [&](double pixel, std::int64_t count) {
    return std::clamp(pixel / side, 0.0, static_cast<double>(count));
  };
  const auto first_cell = [&](double pixel, std::int64_t count) {
    return static_cast<std::int64_t>(std::floor(in_cells(pixel, count)));
  };
  const auto end_cell = [&](double pixel, std::int64_t count) {
    return static_cast<std::int64_t>(std::ceil(in_cells(pixel, count)));
  };
  for (GridObject object : objects) {
    const auto channel = channel_of_.find(object.kind);
    if (channel == channel_of_.end()) continue;
    if (settings_.crop_bboxes())
      cut_off(static_cast<int>(settings_.image_size_y()), static_cast<int>(settings_.image_size_x()), object);
    if (!(object.width > 0 && object.height > 0 && object.width * object.height >= kNothing)) continue;
    const GridObject part = covered_part(object, settings_);
    const double norm = std::max(settings_.obj_norm() ? 0.0 : 1.0, side * side / (part.width * part.height));
    // In f32, so that all cells say the same of them.
    const double left = static_cast<float>(object.x), top = static_cast<float>(object.y),
                 right = static_cast<float>(object.x + object.width),
                 bottom = static_cast<float>(object.y + object.height);
    for (std::int64_t row = first_cell(part.y, rows_); row < end_cell(part.y + part.height, rows_); ++row)
      for (std::int64_t column = first_cell(part.x, columns_);
           column < end_cell(part.x + part.width, columns_); ++column) {
        const double x = static_cast<double>(column) * side, y = static_cast<double>(row) * side;
        const double common =
            common_length(x, side, part.x, part.width) * common_length(y, side, part.y, part.height);
        if (!(common / (side * side) > kNothing)) continue;
        double* const cell = to + row * columns_ + column;
        const double values[] = {1,          left - x,         top - y,           right - x,
                                 bottom - y, 1 / object.width, 1 / object.height, norm};
        for (std::int64_t i = 0; i < 8; ++i) cell[i * cells] = values[i];
        for (std::int64_t i = 0; i < classes_; ++i)
          cell[(8 + i) * cells] = i == static_cast<std::int64_t>(channel->second) ? 1 : 0;
      }
  }
}

Planes resized(const Planes& image, int height, int width) {
  Planes to = empty_image(height, width);
  for (int c = 0; c < kChannels; ++c)
    resize_cubic(image.values.data() + static_cast<std::size_t>(c) * plane_size(image), image.height,
                 image.width, height, width, to.values.data() + static_cast<std::size_t>(c) * plane_size(to));
  return to;
}

}  // namespace banyan::data
