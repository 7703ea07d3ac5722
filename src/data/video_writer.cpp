#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/video.hpp"
#include "data/distortion.hpp"

namespace banyan::data {

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

void check_video_transform(const caffe::TransformationParameter& settings, const std::string& layer) {
  static const std::vector<std::string> known = {"scale",         "mirror",      "crop_size",  "mean_value",
                                                 "fix_crop",      "multi_scale", "is_flow",    "scale_ratios",
                                                 "more_fix_crop", "max_distort", "random_seed"};
  const auto refuse = [&](const auto&... why) {
    bad_input("layer ", quoted(layer), ": transform_param.", why...);
  };
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  caffe::TransformationParameter::GetReflection()->ListFields(settings, &fields);
  for (const auto* field : fields)
    if (!contains(known, field->name())) refuse(field->name(), " is not supported in VideoData");
  constexpr std::uint32_t kMost = 1 << 15;
  if (settings.crop_size() > kMost) refuse("crop_size must be at most ", kMost);
  if (settings.crop_size() == 0 && (settings.fix_crop() || settings.multi_scale()))
    refuse("crop_size is missing: fix_crop and multi_scale need it");
  if (settings.more_fix_crop() && !settings.fix_crop()) refuse("more_fix_crop needs fix_crop");
  if (settings.max_distort() < 0) refuse("max_distort must not be negative, but is ", settings.max_distort());
  for (const float ratio : settings.scale_ratios())
    if (!(ratio > 0 && ratio <= 1)) refuse("scale_ratios must be in (0, 1], not ", ratio);
}

VideoWriter::VideoWriter(const caffe::TransformationParameter& settings, bool random,
                         const ops::RandomKey& key)
    : settings_(settings),
      ratios_(settings.scale_ratios().begin(), settings.scale_ratios().end()),
      random_(random),
      key_(key) {
  if (ratios_.empty()) ratios_ = {1, 0.875f, 0.75f, 0.66f};
  if (settings.random_seed() >= 0) key_.seed = static_cast<std::uint64_t>(settings.random_seed());
}

std::vector<Shape> VideoWriter::shapes(const Record& record, std::uint64_t) const {
  const int crop = static_cast<int>(settings_.crop_size());
  if (crop > std::min(record.height, record.width) && !(random_ && settings_.multi_scale()))
    bad_input("crop_size ", crop, " is larger than the frames (", record.height, " x ", record.width, ")");
  const int means = settings_.mean_value_size();
  if (means > 0 && record.channels % means != 0)
    bad_input("transform_param has ", means, " values of mean_value, which do not repeat evenly over ",
              record.channels, " channels");
  if (crop > 0) return {Shape{record.channels, crop, crop}, Shape()};
  return {Shape{record.channels, record.height, record.width}, Shape()};
}

PixelBox VideoWriter::crop(const Record& record, std::uint64_t item, bool& mirror) const {
  ItemDraws draws(key_, item);
  mirror = settings_.mirror() && draws.next() < 0.5;
  if (settings_.crop_size() == 0) return {0, 0, record.height, record.width};
  int height = static_cast<int>(settings_.crop_size()), width = height;
  if (!random_) return {(record.height - height) / 2, (record.width - width) / 2, height, width};
  const auto one_of = [&](const auto& choices) {
    return choices[static_cast<std::size_t>(draws.below(static_cast<int>(choices.size())))];
  };
  if (settings_.multi_scale())
    std::tie(height, width) =
        one_of(scaled_crops(record.height, record.width, height, ratios_, settings_.max_distort()));
  if (settings_.fix_crop()) {
    const auto [top, left] =
        one_of(fixed_places(record.height, record.width, height, width, settings_.more_fix_crop()));
    return {top, left, height, width};
  }
  const int top = draws.below(record.height - height + 1), left = draws.below(record.width - width + 1);
  return {top, left, height, width};
}

void VideoWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  bool mirror = false;
  const PixelBox part = crop(record, item, mirror);
  const int channels = record.channels;
  Image cut{channels, part.height, part.width, {}}, image;
  for (int y = part.top; y < part.top + part.height; ++y) {
    const std::uint8_t* row = record.bytes + (std::ptrdiff_t{y} * record.width + part.left) * channels;
    cut.pixels.insert(cut.pixels.end(), row, row + std::ptrdiff_t{part.width} * channels);
  }
  const auto crop_size = static_cast<int>(settings_.crop_size());
  const bool resizes = crop_size > 0 && (part.height != crop_size || part.width != crop_size);
  if (resizes) resize_bilinear(cut, crop_size, crop_size, image);
  const Image& from = resizes ? image : cut;
  const bool last = place.layout == Layout::channels_last;
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    T* const output = static_cast<T*>(place.outputs[0]);
    const std::ptrdiff_t plane = std::ptrdiff_t{from.height} * from.width;
    std::vector<T> means(static_cast<std::size_t>(channels), T{0});
    for (int c = 0; c < channels && settings_.mean_value_size() > 0; ++c)
      means[c] = static_cast<T>(settings_.mean_value(c % settings_.mean_value_size()));
    const T scale = static_cast<T>(settings_.scale());
    const std::uint8_t* pixel = from.pixels.data();
    for (int y = 0; y < from.height; ++y)
      for (int x = 0; x < from.width; ++x) {
        const std::ptrdiff_t at = std::ptrdiff_t{y} * from.width + (mirror ? from.width - 1 - x : x);
        for (int c = 0; c < channels; ++c, ++pixel) {
          const bool turned = mirror && settings_.is_flow() && c % 2 == 0;
          const T value = static_cast<T>(turned ? 255 - *pixel : *pixel);
          output[last ? at * channels + c : c * plane + at] = (value - means[c]) * scale;
        }
      }
    *static_cast<T*>(place.outputs[1]) = static_cast<T>(record.label);
  });
}

}  // namespace banyan::data
