#include <algorithm>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/augmenter.hpp"
#include "banyan/data/video.hpp"
#include "data/distortion.hpp"
#include "data/resampling.hpp"

namespace banyan::data {

void check_video_transform(const caffe::TransformationParameter& settings, const std::string& layer) {
  static const std::vector<std::string> known = {
      "scale",       "mirror",         "crop_size",         "mean_value",    "fix_crop",
      "multi_scale", "is_flow",        "scale_ratios",      "more_fix_crop", "max_distort",
      "random_seed", "original_image", "original_min_scale"};
  const auto refuse = [&](const auto&... why) {
    bad_input("layer ", quoted(layer), ": transform_param.", why...);
  };
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  caffe::TransformationParameter::GetReflection()->ListFields(settings, &fields);
  for (const auto* field : fields)
    if (!contains(known, field->name()) && !changes_nothing(settings, *field))
      refuse(field->name(), " is not supported in VideoData");
  constexpr std::uint32_t kMost = 1 << 15;
  if (settings.crop_size() > kMost) refuse("crop_size must be at most ", kMost);
  check_random_parts(settings, layer);
}

VideoWriter::VideoWriter(const caffe::TransformationParameter& settings, bool random,
                         const ops::RandomKey& key, int run)
    : settings_(settings), parts_(settings), random_(random), key_(key), run_(run) {
  if (settings.random_seed() >= 0) key_.seed = static_cast<std::uint64_t>(settings.random_seed());
}

std::vector<Shape> VideoWriter::shapes(const Record& record, std::uint64_t) const {
  const int crop = static_cast<int>(settings_.crop_size());
  if (crop > std::min(record.height, record.width) && !(random_ && parts_.resizes()))
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
  if (random_) return parts_.draw(record.height, record.width, draws);
  const int side = static_cast<int>(settings_.crop_size());
  return {(record.height - side) / 2, (record.width - side) / 2, side, side};
}

void VideoWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  bool mirror = false;
  const PixelBox part = crop(record, item, mirror);
  const int channels = record.channels;
  const Image whole = cut(record, part);
  Image image;
  const auto crop_size = static_cast<int>(settings_.crop_size());
  const bool resizes = crop_size > 0 && (part.height != crop_size || part.width != crop_size);
  if (resizes) resize_bilinear(whole, crop_size, crop_size, image);
  const Image& from = resizes ? image : whole;
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
          const bool turned = mirror && settings_.is_flow() && c / run_ % 2 == 0;
          const T value = static_cast<T>(turned ? 255 - *pixel : *pixel);
          output[last ? at * channels + c : c * plane + at] = (value - means[c]) * scale;
        }
      }
    *static_cast<T*>(place.outputs[1]) = static_cast<T>(record.label);
  });
}

}  // namespace banyan::data
