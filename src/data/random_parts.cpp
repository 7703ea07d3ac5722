#include "banyan/data/random_parts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <tuple>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/augmenter.hpp"
#include "data/distortion.hpp"
#include "data/image_resize.hpp"
#include "data/noise.hpp"
#include "data/resampling.hpp"

namespace banyan::data {

namespace {

/// The settings that are left for the Augmenter.
caffe::TransformationParameter without_parts(caffe::TransformationParameter settings) {
  settings.clear_multi_scale();
  settings.clear_fix_crop();
  settings.clear_more_fix_crop();
  settings.clear_scale_ratios();
  settings.clear_max_distort();
  settings.clear_original_image();
  settings.clear_original_min_scale();
  settings.clear_is_flow();
  settings.clear_distort_param();
  settings.clear_noise_param();
  settings.clear_lighting_noise();
  settings.clear_img_rand_resize_lower();
  settings.clear_img_rand_resize_upper();
  settings.clear_rand_resize_ratio_lower();
  settings.clear_rand_resize_ratio_upper();
  settings.clear_vertical_stretch_lower();
  settings.clear_vertical_stretch_upper();
  settings.clear_horizontal_stretch_lower();
  settings.clear_horizontal_stretch_upper();
  settings.clear_random_resize_param();
  settings.clear_random_aspect_ratio_param();
  settings.clear_resize_param();
  settings.clear_flow();
  settings.clear_interpolation_algo_down();
  settings.clear_interpolation_algo_up();
  settings.clear_allow_upscale();
  settings.clear_short_edge();
  settings.clear_rand_crop_test();
  settings.clear_eigs();
  settings.clear_eigs_channels();
  return settings;
}

using Transform = caffe::TransformationParameter;

/// What makes parts, for messages.
constexpr const char* kParts =
    "fix_crop, multi_scale, original_image, random_aspect_ratio_param and random sizes (random_resize_param, "
    "img_rand_resize_lower and _upper, rand_resize_ratio and stretches)";
using Interpolation = caffe::ResizeParameter::Interp_mode;

bool has_length(const Transform& settings) {
  return settings.img_rand_resize_lower() > 0 || settings.img_rand_resize_upper() > 0;
}

/// Factors of NVIDIA's, which have no effect unless both of their limits are positive.
RandomFactor factor(double lower, double upper) {
  return lower > 0 && upper > 0 ? RandomFactor{lower, upper} : RandomFactor{};
}
RandomFactor height_factor(const Transform& settings) {
  return factor(settings.vertical_stretch_lower(), settings.vertical_stretch_upper());
}
RandomFactor width_factor(const Transform& settings) {
  return factor(settings.horizontal_stretch_lower(), settings.horizontal_stretch_upper());
}
/// Without effect unless it starts from 1 and goes further.
RandomFactor aspect_factor(const Transform& settings) {
  const double lower = settings.rand_resize_ratio_lower(), upper = settings.rand_resize_ratio_upper();
  return lower >= 1 && upper > 1 ? RandomFactor{lower, upper} : RandomFactor{};
}

bool has_factor(const Transform& settings) {
  return height_factor(settings).changes() || width_factor(settings).changes() ||
         aspect_factor(settings).changes();
}

bool has_side(const Transform& settings) {
  return has_length(settings) || has_factor(settings) || settings.has_random_resize_param();
}

Interpolation interpolation(Transform::InterpolationAlgo algorithm) {
  switch (algorithm) {
    case Transform::INTER_NEAREST:
      return caffe::ResizeParameter::NEAREST;
    case Transform::INTER_CUBIC:
      return caffe::ResizeParameter::CUBIC;
    case Transform::INTER_AREA:
      return caffe::ResizeParameter::AREA;
    case Transform::INTER_LINEAR:
      break;
  }
  return caffe::ResizeParameter::LINEAR;
}

/// NVIDIA's and Intel's names of the same.
RandomSide side_of(const Transform& settings) {
  RandomSide side;
  if (settings.has_random_resize_param()) {
    const caffe::RandomResizeParameter& from = settings.random_resize_param();
    side.shortest = from.min_size();
    side.longest = from.max_size();
    if (from.resize_param().interp_mode_size() > 0)
      side.smaller = side.larger = from.resize_param().interp_mode(0);
  } else {
    side.shortest = settings.img_rand_resize_lower();
    side.longest = settings.img_rand_resize_upper();
    side.aspect = aspect_factor(settings);
    side.height = height_factor(settings);
    side.width = width_factor(settings);
    side.enlarges = settings.allow_upscale();
    if (settings.has_interpolation_algo_down())
      side.smaller = interpolation(settings.interpolation_algo_down());
    if (settings.has_interpolation_algo_up()) side.larger = interpolation(settings.interpolation_algo_up());
  }
  return side;
}

RandomAspect aspect_of(const caffe::RandomAspectRatioParameter& from) {
  RandomAspect aspect{from.min_area_ratio(), from.max_area_ratio(), from.aspect_ratio_change(),
                      from.max_attempt()};
  if (from.resize_param().interp_mode_size() > 0) aspect.how = from.resize_param().interp_mode(0);
  return aspect;
}

/// Does it say how to resize and nothing else?
bool only_interpolates(const caffe::ResizeParameter& resize) {
  caffe::ResizeParameter others = resize;
  others.clear_interp_mode();
  return others.ByteSizeLong() == 0 && resize.interp_mode_size() <= 1;
}

void check_aspect(const Transform& settings, const std::string& layer) {
  if (!settings.has_random_aspect_ratio_param()) return;
  const auto refuse = [&](const auto&... why) {
    bad_input("layer ", quoted(layer), ": transform_param.random_aspect_ratio_param", why...);
  };
  const RandomAspect aspect = aspect_of(settings.random_aspect_ratio_param());
  constexpr std::uint32_t kMost = 1000;
  if (has_side(settings) || settings.multi_scale() || settings.original_image() || settings.fix_crop())
    refuse(" cannot be combined with random sizes, multi_scale, original_image or fix_crop");
  if (!(aspect.least_area > 0 && aspect.least_area <= aspect.most_area && aspect.most_area <= 1))
    refuse(": min_area_ratio and max_area_ratio must be in (0, 1], the smaller one first, not ",
           aspect.least_area, " and ", aspect.most_area);
  if (!(aspect.least_change > 0 && aspect.least_change <= 1))
    refuse(".aspect_ratio_change must be in (0, 1], not ", aspect.least_change);
  if (aspect.attempts > kMost) refuse(".max_attempt must be at most ", kMost, ", not ", aspect.attempts);
  if (!only_interpolates(settings.random_aspect_ratio_param().resize_param()))
    refuse(".resize_param may hold one interp_mode and nothing else");
}

void check_factor(const char* name, double lower, double upper, const std::string& layer) {
  constexpr double kMost = 1000;
  if (!(lower >= 0 && lower <= kMost && upper >= 0 && upper <= kMost) || (lower > upper && upper > 0))
    bad_input("layer ", quoted(layer), ": transform_param.", name, "_lower and _upper must be from 0 to ",
              kMost, ", the smaller one first, not ", lower, " and ", upper);
}

void check_side(const Transform& settings, const std::string& layer) {
  check_factor("rand_resize_ratio", settings.rand_resize_ratio_lower(), settings.rand_resize_ratio_upper(),
               layer);
  check_factor("vertical_stretch", settings.vertical_stretch_lower(), settings.vertical_stretch_upper(),
               layer);
  check_factor("horizontal_stretch", settings.horizontal_stretch_lower(), settings.horizontal_stretch_upper(),
               layer);
  const bool intel = settings.has_random_resize_param();
  if ((settings.has_interpolation_algo_down() || settings.has_interpolation_algo_up()) &&
      (intel || !has_side(settings)))
    bad_input("layer ", quoted(layer),
              ": transform_param.interpolation_algo_down and _up say how images come to the lengths of "
              "img_rand_resize_lower and _upper, which are missing");
  if (!has_side(settings)) return;
  const auto refuse = [&](const auto&... why) {
    bad_input("layer ", quoted(layer), ": transform_param.",
              intel                  ? "random_resize_param"
              : has_length(settings) ? "img_rand_resize_lower and _upper"
                                     : "rand_resize_ratio and stretches",
              why...);
  };
  constexpr std::int64_t kMost = 1 << 15;
  const RandomSide side = side_of(settings);
  if (intel && has_length(settings)) refuse(" and img_rand_resize_lower say the same: give one of them");
  if (intel && has_factor(settings)) refuse(" cannot be combined with rand_resize_ratio and stretches");
  if (settings.multi_scale() || settings.original_image() || settings.fix_crop())
    refuse(" cannot be combined with multi_scale, original_image or fix_crop");
  if (!intel && !has_length(settings)) return;
  if (side.shortest < 1 || side.shortest > side.longest || side.longest > kMost)
    refuse(" must be lengths from 1 to ", kMost, ", the smaller one first, not ", side.shortest, " and ",
           side.longest);
  if (side.shortest < settings.crop_size())
    refuse(" make images whose shorter side is ", side.shortest, ", less than crop_size ",
           settings.crop_size());
  if (!only_interpolates(settings.random_resize_param().resize_param()))
    refuse(".resize_param may hold one interp_mode and nothing else");
}

/// Of several, each image takes one (ducha-aiki).
void check_resizes(const ResizeList& resizes, const std::string& layer) {
  double sum = 0;
  for (const caffe::ResizeParameter& resize : resizes) {
    check_resize(resize, layer);
    sum += resize.prob();
  }
  if (resizes.size() > 1 && !(std::abs(sum - 1) <= 0.01))
    bad_input("layer ", quoted(layer), ": transform_param.resize_param is given ", resizes.size(),
              " times; their prob must add up to 1, not ", sum);
}

/// yjxiong's.
void check_edges_and_eigs(const Transform& settings, const std::string& layer, bool random) {
  const auto refuse = [&](const auto&... why) {
    bad_input("layer ", quoted(layer), ": transform_param.", why...);
  };
  const bool parts = RandomParts(settings).any();
  if (parts && settings.rand_crop_test()) refuse("rand_crop_test does not go with ", kParts);
  if (settings.rand_crop_test() && crop_of(settings).height == 0) refuse("rand_crop_test needs crop_size");
  const std::int64_t channels = settings.eigs_channels(), numbers = settings.eigs_size();
  if (numbers > 0 && (channels < 1 || numbers != channels * channels))
    refuse("eigs must be a matrix of eigs_channels x eigs_channels, ", channels, " x ", channels, "; found ",
           numbers, " numbers");
  if (numbers == 0 && channels != Transform::default_instance().eigs_channels())
    refuse("eigs_channels needs eigs");
  if (numbers > 0 && settings.pad() > 0) refuse("pad cannot be combined with eigs");
  const auto& edge = settings.short_edge();
  if (edge.empty()) return;
  constexpr std::uint32_t kMost = 1 << 15;
  if (edge.size() != 2 || edge[0] < 1 || edge[0] > edge[1] || edge[1] > kMost)
    refuse("short_edge must be two lengths from 1 to ", kMost, ", the smaller one first");
  if (settings.crop_size() == 0 || rectangle_side(settings) > 0) refuse("short_edge needs crop_size");
  if (edge[0] < settings.crop_size())
    refuse("short_edge ", edge[0], " is less than crop_size ", settings.crop_size());
  if (parts || settings.resize_param_size() > 0) refuse("short_edge does not go with resize_param, ", kParts);
  // As in the branch, where nothing else makes tests draw.
  if (edge[0] != edge[1] && !random && !settings.mirror() && !settings.rand_crop_test())
    refuse("short_edge: tests draw a length from ", edge[0], " to ", edge[1],
           " only with rand_crop_test or mirror; give one length, twice");
}

}  // namespace

std::vector<std::pair<int, int>> scaled_crops(int height, int width, int crop,
                                              const std::vector<float>& ratios, int max_distort) {
  const int base = std::min(height, width), count = static_cast<int>(ratios.size());
  std::vector<int> sides;
  for (const float ratio : ratios) {
    const int side = std::max(1, static_cast<int>(static_cast<float>(base) * ratio));
    sides.push_back(std::min(std::abs(side - crop) < 3 ? crop : side, base));
  }
  std::vector<std::pair<int, int>> crops;
  for (int h = 0; h < count; ++h)
    for (int w = 0; w < count; ++w)
      if (std::abs(h - w) <= max_distort) crops.emplace_back(sides[h], sides[w]);
  return crops;
}

std::vector<std::pair<int, int>> fixed_places(int height, int width, int crop_height, int crop_width,
                                              bool more) {
  const int down = (height - crop_height) / 4, right = (width - crop_width) / 4;
  std::vector<std::pair<int, int>> places;
  // In quarters of what is left over.
  for (const auto& [y, x] : {std::pair{0, 0}, {0, 4}, {4, 0}, {4, 4}, {2, 2}})
    places.emplace_back(y * down, x * right);
  if (!more) return places;
  for (const auto& [y, x] : {std::pair{0, 2}, {4, 2}, {2, 0}, {2, 4}, {1, 1}, {1, 3}, {3, 1}, {3, 3}})
    places.emplace_back(y * down, x * right);
  return places;
}

RandomParts::RandomParts(const caffe::TransformationParameter& settings)
    : crop_(static_cast<int>(settings.crop_size())),
      max_distort_(settings.max_distort()),
      multi_scale_(settings.multi_scale()),
      fixed_(settings.fix_crop()),
      more_places_(settings.more_fix_crop()),
      whole_(settings.original_image()),
      least_area_(settings.original_min_scale()),
      ratios_(settings.scale_ratios().begin(), settings.scale_ratios().end()) {
  if (ratios_.empty()) ratios_ = {1, 0.875f, 0.75f, 0.66f};
  if (has_side(settings)) side_ = side_of(settings);
  if (settings.has_random_aspect_ratio_param()) aspect_ = aspect_of(settings.random_aspect_ratio_param());
}

PixelBox RandomParts::size_of(int height, int width, ItemDraws* draws) const {
  const auto drawn = [&](const RandomFactor& factor) {
    if (!factor.changes()) return 1.0;
    return draws != nullptr ? draws->between(factor.least, factor.most) : (factor.least + factor.most) / 2;
  };
  const int shorter = std::min(height, width);
  double rows = height, columns = width;  // of the whole image
  if (side_->longest > 0) {
    const auto lengths = static_cast<int>(side_->longest - side_->shortest + 1);
    const std::int64_t length =
        draws != nullptr ? side_->shortest + draws->below(lengths) : (side_->shortest + side_->longest) / 2;
    rows = static_cast<double>(height) * static_cast<double>(length) / shorter;
    columns = static_cast<double>(width) * static_cast<double>(length) / shorter;
  }
  if (side_->aspect.changes()) {
    const double shape = drawn(side_->aspect);
    const bool is_high = height != width ? height > width : draws != nullptr && draws->below(2) == 0;
    (is_high ? rows : columns) = (is_high ? columns : rows) * shape;
  }
  rows *= drawn(side_->height);
  columns *= drawn(side_->width);
  const auto limited = [&](double side, int own) {
    const double enough = std::max<double>(side, crop_);
    return side_->enlarges ? enough : std::min<double>(enough, own);
  };
  rows = limited(rows, height);
  columns = limited(columns, width);
  const double more =
      std::max(1.0, crop_ / std::min(rows, columns));  // where the image is smaller than the crop
  const auto part = [&](int own, double side) {
    return std::clamp(static_cast<int>(std::lround(crop_ * (own / (side * more)))), 1, own);
  };
  return {0, 0, part(height, rows), part(width, columns)};
}

PixelBox RandomParts::centre(int height, int width) const {
  PixelBox box = size_of(height, width, nullptr);
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

void RandomParts::resize(Image& part, Image& scratch) const {
  if (part.height == crop_ && part.width == crop_) return;
  if (side_)
    resize_image(part, crop_, crop_,
                 part.height >= crop_ && part.width >= crop_ ? side_->smaller : side_->larger, scratch);
  else if (aspect_)
    resize_image(part, crop_, crop_, aspect_->how, scratch);
  else
    resize_bilinear(part, crop_, crop_, scratch);
  std::swap(part, scratch);
}

PixelBox RandomParts::draw(int height, int width, ItemDraws& draws) const {
  const auto anywhere = [&](int rows, int columns) {
    const int top = draws.below(height - rows + 1), left = draws.below(width - columns + 1);
    return PixelBox{top, left, rows, columns};
  };
  const auto one_of = [&](const auto& choices) {
    return choices[static_cast<std::size_t>(draws.below(static_cast<int>(choices.size())))];
  };
  if (whole_) {
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double area = draws.between(least_area_, 1) * height * width;
      const double aspect = draws.between(0.75, 4.0 / 3);
      const int rows = static_cast<int>(std::lround(std::sqrt(area / aspect)));
      const int columns = static_cast<int>(std::lround(std::sqrt(area * aspect)));
      if (rows >= 1 && columns >= 1 && rows <= height && columns <= width) return anywhere(rows, columns);
    }
    const int side = std::max(1, std::min(height, width) * 7 / 8);
    return {(height - side) / 2, (width - side) / 2, side, side};
  }
  if (aspect_) {
    for (std::uint32_t attempt = 0; attempt < aspect_->attempts; ++attempt) {
      const double area = draws.between(aspect_->least_area, aspect_->most_area) * height * width;
      const double change = draws.between(aspect_->least_change, 1 / aspect_->least_change);
      double rows = std::floor(std::sqrt(area) * change), columns = std::floor(std::sqrt(area) / change);
      if (draws.below(2) == 0) std::swap(rows, columns);
      // Compared as they are: a small least_change makes lengths that no int holds.
      if (rows >= 1 && columns >= 1 && rows <= height && columns <= width)
        return anywhere(static_cast<int>(rows), static_cast<int>(columns));
    }
    const int shorter = std::min(height, width);
    return anywhere(shorter, shorter);
  }
  if (side_) {
    const PixelBox box = size_of(height, width, &draws);
    return anywhere(box.height, box.width);
  }
  int rows = crop_, columns = crop_;
  if (multi_scale_)
    std::tie(rows, columns) = one_of(scaled_crops(height, width, crop_, ratios_, max_distort_));
  if (!fixed_) return anywhere(rows, columns);
  const auto [top, left] = one_of(fixed_places(height, width, rows, columns, more_places_));
  return {top, left, rows, columns};
}

void check_random_parts(const caffe::TransformationParameter& settings, const std::string& layer) {
  const auto refuse = [&](const auto&... why) {
    bad_input("layer ", quoted(layer), ": transform_param.", why...);
  };
  if (settings.crop_size() == 0 && RandomParts(settings).any())
    refuse("crop_size is missing: ", kParts, " need it");
  if (rectangle_side(settings) > 0 && RandomParts(settings).any())
    refuse("crop_h and crop_w do not go with ", kParts, ", which make squares of crop_size");
  check_side(settings, layer);
  check_aspect(settings, layer);
  if (settings.original_image() && (settings.multi_scale() || settings.fix_crop()))
    refuse("original_image cannot be combined with multi_scale or fix_crop");
  if (settings.more_fix_crop() && !settings.fix_crop()) refuse("more_fix_crop needs fix_crop");
  if (settings.max_distort() < 0) refuse("max_distort must not be negative, but is ", settings.max_distort());
  for (const float ratio : settings.scale_ratios())
    if (!(ratio > 0 && ratio <= 1)) refuse("scale_ratios must be in (0, 1], not ", ratio);
  const float least = settings.original_min_scale();
  if (!(least > 0 && least <= 1)) refuse("original_min_scale must be in (0, 1], not ", least);
}

void check_part_transform(const caffe::TransformationParameter& settings, const std::string& layer,
                          bool random) {
  check_transform(without_parts(settings), layer);
  check_random_parts(settings, layer);
  check_resizes(settings.resize_param(), layer);
  check_edges_and_eigs(settings, layer, random);
  if (settings.has_distort_param()) check_distortion(settings.distort_param(), layer);
  if (settings.has_noise_param()) check_noise(settings.noise_param(), layer);
  if (!(settings.lighting_noise() >= 0 && std::isfinite(settings.lighting_noise())))
    bad_input("layer ", quoted(layer), ": transform_param.lighting_noise must not be negative, but is ",
              settings.lighting_noise());
  const bool parts = RandomParts(settings).any();
  const bool nvidia = has_side(settings) && !settings.has_random_resize_param();
  if (parts && !nvidia && settings.has_mean_file())
    bad_input(
        "layer ", quoted(layer),
        ": transform_param.mean_file does not fit the parts that fix_crop, multi_scale, original_image, "
        "random_aspect_ratio_param and random_resize_param cut; give mean_value");
  if ((parts || settings.is_flow() || settings.flow()) && settings.pad() > 0)
    bad_input("layer ", quoted(layer), ": transform_param.pad cannot be combined with is_flow, flow, ",
              kParts);
  if (settings.is_flow() && settings.flow())
    bad_input(
        "layer ", quoted(layer),
        ": transform_param sets both is_flow (every second channel is flow along x) and flow (the third "
        "one is)");
}

PartWriter::PartWriter(const caffe::TransformationParameter& settings, bool random, std::uint64_t seed,
                       std::uint32_t stream, const std::string& layer)
    : augmenter_(without_parts(settings), random || settings.rand_crop_test(), seed, stream, layer),
      parts_(settings),
      distortion_(settings.distort_param()),
      noise_(settings.noise_param()),
      noisy_(has_noise(noise_)),
      distorts_(random && settings.has_distort_param()),
      random_(random),
      flow_(settings.is_flow()),
      third_flow_(settings.flow()),
      lighting_(random ? settings.lighting_noise() : 0),
      crop_(static_cast<int>(settings.crop_size())),
      resizes_(settings.resize_param()),
      short_edge_(settings.short_edge().begin(), settings.short_edge().end()),
      scale_(settings.scale()),
      key_{settings.random_seed() >= 0 ? static_cast<std::uint64_t>(settings.random_seed()) : seed, stream,
           0},
      resize_key_{key_.seed, ops::stream_of((layer + " resize").c_str()), 0},
      noise_key_{key_.seed, ops::stream_of((layer + " noise").c_str()), 0},
      eigs_key_{key_.seed, ops::stream_of((layer + " eigs").c_str()), 0} {
  check_part_transform(settings, layer, random);
  if (random) eigs_.assign(settings.eigs().begin(), settings.eigs().end());
  if (parts_.scales()) augmenter_.cut_mean(crop_, layer);
}

std::pair<std::optional<caffe::ResizeParameter>, caffe::ResizeParameter::Interp_mode> PartWriter::resize_of(
    std::uint64_t item) const {
  ItemDraws draws(resize_key_, item);
  if (!short_edge_.empty()) {
    const auto length =
        static_cast<std::uint32_t>(short_edge_[0] + draws.below(short_edge_[1] - short_edge_[0] + 1));
    Resize to;
    to.set_resize_mode(Resize::FIT_SMALL_SIZE);
    to.set_height(length);
    to.set_width(length);
    return {to, Resize::LINEAR};
  }
  if (resizes_.empty()) return {};
  const Resize* const chosen = draw_resize(resizes_, draws);
  const bool resizes = draws.next() < chosen->prob() || resizes_.size() > 1;
  const Resize::Interp_mode how = draw_interpolation(*chosen, draws);
  return {resizes ? std::optional(*chosen) : std::nullopt, how};
}

std::vector<Shape> PartWriter::shapes(const Record& record, std::uint64_t item) const {
  const std::optional<Resize> resize = resize_of(item).first;
  if (!resize) return shapes_after(record, item);
  const Resized size = resized(*resize, record.height, record.width);
  Record result;
  result.channels = record.channels;
  result.height = size.height;
  result.width = size.width;
  result.labels = record.labels;
  return shapes_after(result, item);
}

void PartWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  const auto [resize, how] = resize_of(item);
  if (!resize && !noisy_) return write_after(record, item, place);
  if (record.bytes == nullptr)
    bad_input("the record holds float_data: only 8-bit images are ", !resize ? "changed by noise_param"
                                                                     : short_edge_.empty()
                                                                         ? "resized by resize_param"
                                                                         : "resized by short_edge");
  Record result;
  result.image = cut(record, {0, 0, record.height, record.width});
  if (resize)
    resize_and_pad(*resize, resized(*resize, record.height, record.width), how, result.image, result.scratch);
  if (noisy_) {
    ItemDraws draws(noise_key_, item);
    change_colours(draws, result.image);
    add_noise(noise_, draws, result.image);
  }
  result.show_image();
  result.label = record.label;
  result.labels = record.labels;
  write_after(result, item, place);
}

std::vector<Shape> PartWriter::shapes_after(const Record& record, std::uint64_t item) const {
  if (!cuts()) return augmenter_.shapes(record, item);
  if (!parts_.resizes() && crop_ > std::min(record.height, record.width))
    bad_input("crop_size ", crop_, " is larger than the image (", record.height, " x ", record.width, ")");
  Record part;
  part.channels = record.channels;
  part.height = part.width = crop_;
  part.labels = record.labels;
  return augmenter_.shapes(part, item);
}

void PartWriter::change_colours(ItemDraws& draws, Image& image) const {
  if (distorts_) {
    const Distortion distortion = draw_distortion(distortion_, draws);
    if (image.channels != 3 && distortion.needs_colours())
      bad_input("the image has ", image.channels,
                " channels; hue, saturation and random order of distort_param need 3 (force_color)");
    distort(distortion, image);
  }
  if (lighting_ > 0) {
    if (image.channels != 3)
      bad_input("the image has ", image.channels, " channels; lighting_noise needs 3 (force_color)");
    add_light(draw_lighting(lighting_, draws), image);
  }
}

void PartWriter::write_after(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  write_changed(record, item, place);
  if (!eigs_.empty()) add_eigs(shapes_after(record, item)[0], item, place);
}

/// Pixels are not rounded here, so this comes last.
void PartWriter::add_eigs(const Shape& image, std::uint64_t item, const ItemPlace& place) const {
  const std::int64_t channels = image[0], pixels = image.count() / std::max<std::int64_t>(channels, 1);
  if (static_cast<std::int64_t>(eigs_.size()) != channels * channels)
    bad_input("the image has ", channels, channels == 1 ? " channel" : " channels", ", but eigs ",
              eigs_.size(), " numbers");
  ItemDraws draws(eigs_key_, item);
  constexpr double kDeviation = 0.1;
  std::vector<double> numbers;
  for (std::int64_t c = 0; c < channels; ++c) numbers.push_back(draws.normal(kDeviation));
  const bool last = place.layout == Layout::channels_last;
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    T* const output = static_cast<T*>(place.outputs[0]);
    for (std::int64_t c = 0; c < channels; ++c) {
      const double light =
          std::inner_product(numbers.begin(), numbers.end(), eigs_.begin() + c * channels, 0.0);
      T* const first = output + (last ? c : c * pixels);
      for (std::int64_t i = 0; i < pixels; ++i)
        first[i * (last ? channels : 1)] += static_cast<T>(light * scale_);
    }
  });
}

void PartWriter::write_changed(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  const bool colours = (distorts_ || lighting_ > 0) && !noisy_;  // noise follows them
  if (!cuts() && !colours && !flow_ && !third_flow_) return augmenter_.write(record, item, place);
  if (record.bytes == nullptr)
    bad_input(
        "the record holds float_data: only 8-bit images are cut to random parts, change colours or are flow");
  if (third_flow_ && record.channels < 3)
    bad_input("the image has ", record.channels,
              " channels; flow changes the third one (is_flow, every second one)");
  ItemDraws draws(key_, item);
  PixelBox box{0, 0, record.height, record.width};
  if (cuts())
    box = random_ ? parts_.draw(record.height, record.width, draws)
                  : parts_.centre(record.height, record.width);
  Record part;
  part.image = cut(record, box);
  if (cuts()) parts_.resize(part.image, part.scratch);
  if (colours) change_colours(draws, part.image);
  part.channels = record.channels;
  part.height = part.image.height;
  part.width = part.image.width;
  part.bytes = part.image.pixels.data();
  part.interleaved = true;
  part.label = record.label;
  part.labels = record.labels;
  if ((flow_ || third_flow_) && augmenter_.draw(part, augmenter_.output_shape(part), item).mirror)
    for (std::size_t i = 0; i < part.image.pixels.size(); ++i)
      if (turns(i % static_cast<std::size_t>(part.channels)))
        part.image.pixels[i] = static_cast<std::uint8_t>(255 - part.image.pixels[i]);
  augmenter_.write(part, item, place);
}

}  // namespace banyan::data
