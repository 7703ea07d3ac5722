#include "picture_meter.hpp"

#include <algorithm>
#include <cmath>

#include "banyan/data/image_codec.hpp"
#include "banyan/tensor/bfloat16.hpp"

namespace banyan {
namespace {

/// Pixels between pictures, and the width that small ones are enlarged to.
constexpr std::int64_t kGap = 2, kLeastWidth = 24;
constexpr std::int64_t kMostTiles = 64;

/// The first samples of a tensor, which lie together in either layout.
template <class T>
std::vector<double> logical_order(const T* from, const Shape& shape, Layout layout) {
  const std::int64_t samples = shape[0], channels = shape[1], inner = shape.count(2);
  std::vector<double> values(static_cast<std::size_t>(shape.count()));
  std::size_t at = 0;
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t i = 0; i < inner; ++i) {
        const std::int64_t place = layout == Layout::channels_last ? i * channels + c : c * inner + i;
        values[at++] = static_cast<double>(from[n * channels * inner + place]);
      }
  return values;
}

}  // namespace

metrics::Pictures::Picture draw_picture(const PictureValues& picture) {
  const Shape& shape = picture.shape;
  const std::int64_t height = shape[2], width = shape[3], area = height * width;
  const std::int64_t channels = shape[1] == 3 ? 3 : 1;
  const std::int64_t tiles = std::min(kMostTiles, shape[0] * shape[1] / channels);
  const std::int64_t zoom = std::max<std::int64_t>(1, kLeastWidth / std::max<std::int64_t>(width, 1));
  // As many gray channels of a sample as it has in a row, otherwise about a square.
  const bool rows_are_samples = channels == 1 && shape[1] > 1 && shape[1] <= kMostTiles;
  const auto columns = rows_are_samples
                           ? shape[1]
                           : static_cast<std::int64_t>(
                                 std::ceil(std::sqrt(static_cast<double>(std::max<std::int64_t>(tiles, 1)))));
  const std::int64_t rows = (tiles + columns - 1) / columns;

  double least = 0, greatest = 0;
  bool any = false;
  for (std::int64_t i = 0; i < tiles * channels * area; ++i) {
    const double value = picture.values[static_cast<std::size_t>(i)];
    if (!std::isfinite(value)) continue;
    least = any ? std::min(least, value) : value;
    greatest = any ? std::max(greatest, value) : value;
    any = true;
  }
  if (picture.signed_values) {
    greatest = std::max(std::abs(least), std::abs(greatest));
    least = -greatest;
  }
  const double scale = greatest > least ? 255 / (greatest - least) : 0;

  data::Image image;
  image.channels = static_cast<int>(channels);
  image.height = static_cast<int>(rows * (height * zoom + kGap) - kGap);
  image.width = static_cast<int>(columns * (width * zoom + kGap) - kGap);
  image.pixels.assign(
      static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width * channels), 128);
  for (std::int64_t tile = 0; tile < tiles; ++tile)
    for (std::int64_t y = 0; y < height * zoom; ++y)
      for (std::int64_t x = 0; x < width * zoom; ++x)
        for (std::int64_t c = 0; c < channels; ++c) {
          const std::int64_t from = (tile * channels + c) * area + y / zoom * width + x / zoom;
          const std::int64_t row = tile / columns * (height * zoom + kGap) + y,
                             column = tile % columns * (width * zoom + kGap) + x;
          const double value = (picture.values[static_cast<std::size_t>(from)] - least) * scale;
          image.pixels[static_cast<std::size_t>((row * image.width + column) * channels + c)] =
              static_cast<std::uint8_t>(std::isfinite(value) ? std::lround(std::clamp(value, 0.0, 255.0))
                                                             : 0);
        }
  return {picture.tag, image.width, image.height, image.channels, data::encode_image(image, "png")};
}

PictureMeter::PictureMeter(Context& context, const Net& net)
    : context_(context), copies_(std::make_shared<Copies>()) {
  for (int layer = 0; layer < static_cast<int>(net.layers().size()); ++layer) {
    if (net.layers()[layer]->traits().source)
      for (const Blob* blob : net.outputs_of(layer))
        if (blob->shape.axes() == 4 && blob->shape.count(2) > 1) inputs_.push_back(blob);
    for (const int parameter : net.parameter_store().owner[layer]) {
      const LearnableParameter& found = net.parameters()[parameter];
      const Shape& shape = found.value.shape();
      if (filters_ == nullptr && !found.is_statistic && shape.axes() == 4 && shape.count(2) > 1)
        filters_ = &found;
    }
  }
  copies_->copies.resize(inputs_.size() + (filters_ != nullptr ? 1 : 0));
  copies_->copied = context.device().create_event();
}

/// The first `most` rows, without waiting for them.
void PictureMeter::copy(Copy& to, const std::string& tag, const Tensor& from, std::int64_t most,
                        bool signed_values) {
  Shape shape = from.shape();
  shape.set_dim(0, std::min(shape[0], most));
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(from.dtype());
  if (to.room < bytes) {
    to.memory = context_.device().allocate_host(bytes);
    to.room = bytes;
  }
  to.tag = tag;
  to.shape = shape;
  to.layout = from.is_contiguous() ? Layout::contiguous : from.layout();
  to.dtype = from.dtype();
  to.signed_values = signed_values;
  context_.stream().copy(to.memory.get(), from.raw(), bytes);
}

std::function<metrics::Pictures()> PictureMeter::take() {
  if (empty() || copies_->busy.load(std::memory_order_acquire)) return {};
  std::size_t number = 0;
  for (const Blob* input : inputs_)
    copy(copies_->copies[number++], "input/" + input->name, input->data, kMostSamples, false);
  if (filters_ != nullptr)
    copy(copies_->copies[number], "filters/" + filters_->layer, filters_->value, kMostFilters, true);
  context_.stream().record(*copies_->copied);
  copies_->busy.store(true, std::memory_order_relaxed);
  const std::shared_ptr<const Copies> held(copies_.get(), [copies = copies_](const Copies*) {
    copies->busy.store(false, std::memory_order_release);
  });
  return [held] { return draw_all(*held); };
}

metrics::Pictures PictureMeter::draw_all(const Copies& all) {
  all.copied->synchronize();
  metrics::Pictures pictures;
  for (const Copy& copy : all.copies) {
    if (copy.shape.count() == 0) continue;
    PictureValues values{copy.tag, copy.shape, {}, copy.signed_values};
    dispatch_storage(copy.dtype, "a picture", [&]<class T>() {
      values.values = logical_order(static_cast<const T*>(copy.memory.get()), copy.shape, copy.layout);
    });
    pictures.pictures.push_back(draw_picture(values));
  }
  return pictures;
}

}  // namespace banyan
