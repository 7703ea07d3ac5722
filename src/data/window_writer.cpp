// As in Fast/R-CNN's data layer of Caffe: which pixels a window is made of.
#include <algorithm>
#include <cmath>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/image_codec.hpp"
#include "banyan/data/window_list.hpp"

namespace banyan::data {

namespace {

/// One axis of a window: the pixels to take, and where they go in the crop.
struct Extent {
  int first = 0, last = 0;    // in the image
  int before = 0, after = 0;  // entries of the crop that lie outside of the image
  int size = 0;               // entries of the crop that the pixels are resized to
};

int rounded(double value) { return static_cast<int>(std::round(value)); }

/// `half`: half of the window's length, before it is enlarged by `scale`.
Extent enlarge(int first, int last, double half, double scale, int length, int crop) {
  const double centre = first + (last - first + 1) / 2.0;
  const int from = rounded(centre - half * scale), to = rounded(centre + half * scale);
  Extent extent;
  const int outside_before = std::max(0, -from), outside_after = std::max(0, to - length + 1);
  extent.first = from + outside_before;
  extent.last = to - outside_after;
  const double warp = static_cast<double>(crop) / (to - from + 1);
  extent.before = std::min(rounded(outside_before * warp), crop - 1);
  extent.after = std::min(rounded(outside_after * warp), crop - 1);
  extent.size = rounded((extent.last - extent.first + 1) * warp);
  return extent;
}

}  // namespace

WindowWriter::WindowWriter(const caffe::TransformationParameter& settings, int context_pad, bool square,
                           const ops::RandomKey& key, const std::string& layer)
    : crop_(static_cast<int>(settings.crop_size())),
      context_pad_(context_pad),
      square_(square),
      mirror_(settings.mirror()),
      scale_(settings.scale()),
      mean_values_(settings.mean_value().begin(), settings.mean_value().end()),
      key_(key) {
  if (!settings.mean_file().empty()) {
    mean_ = read_mean_image(settings.mean_file(), layer);
    if (mean_.shape.channels != 3 || mean_.shape.height < crop_ || mean_.shape.width < crop_)
      bad_input("layer ", banyan::quoted(layer), ": mean_file ", banyan::quoted(settings.mean_file()), " is ",
                mean_.shape.to_string(), "; expected 3 channels and at least crop_size (", crop_,
                ") rows and columns");
  }
}

std::vector<Shape> WindowWriter::shapes(const Record&, std::uint64_t) const {
  return {Shape{3, crop_, crop_}, Shape()};
}

template <class T>
void WindowWriter::write_pixels(const Record& record, bool mirror, Layout layout, T* output) const {
  const auto [x1, y1, x2, y2] = record.window;
  Extent across{x1, x2, 0, 0, crop_}, down{y1, y2, 0, 0, crop_};
  if (context_pad_ > 0 || square_) {
    const double scale = static_cast<double>(crop_) / (crop_ - 2 * context_pad_);
    double half_width = (x2 - x1 + 1) / 2.0, half_height = (y2 - y1 + 1) / 2.0;
    if (square_) half_width = half_height = std::max(half_width, half_height);
    across = enlarge(x1, x2, half_width, scale, record.width, crop_);
    down = enlarge(y1, y2, half_height, scale, record.height, crop_);
  }
  const int left = mirror ? across.after : across.before, top = down.before;
  // Roundings may add up to more than there is room for.
  const int width = std::clamp(across.size, 1, crop_ - left), height = std::clamp(down.size, 1, crop_ - top);

  Image window{3, down.last - down.first + 1, across.last - across.first + 1, {}}, warped;
  for (int y = down.first; y <= down.last; ++y) {
    const std::uint8_t* row = record.bytes + (std::ptrdiff_t{y} * record.width + across.first) * 3;
    window.pixels.insert(window.pixels.end(), row, row + std::ptrdiff_t{3} * window.width);
  }
  resize_bilinear(window, height, width, warped);

  const std::ptrdiff_t plane = std::ptrdiff_t{crop_} * crop_;
  std::fill(output, output + 3 * plane, T{0});
  const int mean_top = (mean_.shape.height - crop_) / 2 + top,
            mean_left = (mean_.shape.width - crop_) / 2 + left;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c) {
        const int from = mirror ? width - 1 - x : x;
        const T pixel = warped.pixels[static_cast<std::size_t>((y * width + from) * 3 + c)];
        T mean{0};
        if (!mean_.values.empty())
          mean = static_cast<T>(mean_.values[static_cast<std::size_t>(
              (c * mean_.shape.height + y + mean_top) * mean_.shape.width + x + mean_left)]);
        else if (!mean_values_.empty())
          mean = static_cast<T>(mean_values_[mean_values_.size() == 1 ? 0 : static_cast<std::size_t>(c)]);
        const std::ptrdiff_t at = std::ptrdiff_t{y + top} * crop_ + x + left;
        output[layout == Layout::channels_last ? at * 3 + c : c * plane + at] =
            (pixel - mean) * static_cast<T>(scale_);
      }
}

void WindowWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  const bool mirror = mirror_ && ops::philox(key_.key(), item, 1).v[0] % 2 == 1;
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    write_pixels(record, mirror, place.layout, static_cast<T*>(place.outputs[0]));
    *static_cast<T*>(place.outputs[1]) = static_cast<T>(record.label);
  });
}

}  // namespace banyan::data
