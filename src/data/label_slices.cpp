#include "banyan/data/label_slices.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "data/resampling.hpp"

namespace banyan::data {

namespace {

constexpr int kLongestScaledSide = 1 << 15;
constexpr std::uint8_t kNoLabel = 255;

/// The record's pixels, row by row.
void interleave(Record& record) {
  if (record.bytes == nullptr) bad_input("expected 8-bit pixels, found floats");
  if (record.bytes == record.image.pixels.data() && record.interleaved) return;
  Image image{record.channels, record.height, record.width, {}};
  const auto pixels = static_cast<std::size_t>(record.height) * static_cast<std::size_t>(record.width);
  const auto channels = static_cast<std::size_t>(record.channels);
  image.pixels.resize(pixels * channels);
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t i = 0; i < pixels; ++i)
      image.pixels[i * channels + c] = record.bytes[record.interleaved ? i * channels + c : c * pixels + i];
  record.image = std::move(image);
  record.show_image();
}

class PairReader : public RecordReader {
 public:
  PairReader(std::unique_ptr<RecordReader> images, std::unique_ptr<RecordReader> labels)
      : images_(std::move(images)), labels_(std::move(labels)) {}

  void fetch(std::uint64_t position, Record& record) override {
    position_ = position;
    images_->fetch(position, record);
    labels_->fetch(position, label_record_);
  }
  void decode(Record& record) override {
    images_->decode(record);
    interleave(record);
    try {
      labels_->decode(label_record_);
      interleave(label_record_);
    } catch (const Error& error) {
      throw Error(error.kind(), "labels (" + labels_->describe(position_) + "): " + error.message());
    }
    const Image& labels = label_record_.image;
    if (labels.channels != 1 || labels.height != record.height || labels.width != record.width)
      bad_input("labels (", labels_->describe(position_), "): expected 1 x ", record.height, " x ",
                record.width, ", as the image, found ", labels.channels, " x ", labels.height, " x ",
                labels.width);
    std::swap(record.label_image, label_record_.image);
  }
  std::string_view key() const override { return images_->key(); }
  std::string describe(std::uint64_t position) override { return images_->describe(position); }

 private:
  std::unique_ptr<RecordReader> images_, labels_;
  Record label_record_;
  std::uint64_t position_ = 0;
};

class PairSource : public RecordSource {
 public:
  PairSource(std::shared_ptr<RecordSource> images, std::shared_ptr<RecordSource> labels)
      : images_(std::move(images)), labels_(std::move(labels)) {
    if (images_->size() != labels_->size())
      bad_input(images_->name(), " has ", images_->size(), " images, ", labels_->name(), " has ",
                labels_->size(), " images of labels");
  }
  std::uint64_t size() const override { return images_->size(); }
  std::string name() const override { return images_->name(); }
  std::unique_ptr<RecordReader> reader() const override {
    return std::make_unique<PairReader>(images_->reader(), labels_->reader());
  }

 private:
  std::shared_ptr<RecordSource> images_, labels_;
};

/// Which of `length` pixels is seen at `at`, mirrored at the first and the last one.
int reflected(int at, int length) {
  if (length == 1) return 0;
  const int period = 2 * (length - 1), within = ((at % period) + period) % period;
  return std::min(within, period - within);
}

/// Which pixels of an axis are seen at `first` and after it, -1: none. An image with margins is mirrored as
/// the image is.
std::vector<int> seen_from(int first, std::size_t count, int length, int margin, bool reflects) {
  std::vector<int> seen(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int at = first + static_cast<int>(i);
    const bool inside = at >= 0 && at < length;
    seen[i] = inside     ? at
              : reflects ? reflected(reflected(at + margin, length + 2 * margin) - margin, length)
                         : -1;
  }
  return seen;
}

}  // namespace

std::shared_ptr<RecordSource> pair_sources(std::shared_ptr<RecordSource> images,
                                           std::shared_ptr<RecordSource> labels) {
  return std::make_shared<PairSource>(std::move(images), std::move(labels));
}

LabelSliceWriter::LabelSliceWriter(const caffe::ImageLabelDataParameter& settings,
                                   const caffe::TransformationParameter& transform, bool random_crop,
                                   const ops::RandomKey& key, const std::string& layer)
    : means_(transform.mean_value().begin(), transform.mean_value().end()),
      crop_(static_cast<int>(transform.crop_size())),
      mirror_(transform.mirror()),
      reflects_(settings.padding() == caffe::ImageLabelDataParameter::REFLECT),
      random_crop_(random_crop),
      scale_(transform.scale()),
      key_(key) {
  const auto refuse = [&](const auto&... why) {
    bad_input("layer ", banyan::quoted(layer), ": image_label_data_param: ", why...);
  };
  if (settings.rand_scale()) {
    scale_probability_ = 1;
    least_scale_ = settings.min_scale();
    largest_scale_ = settings.max_scale();
  } else if (settings.scale_prob() != 0) {
    scale_probability_ = settings.scale_prob();
    least_scale_ = settings.scale_min();
    largest_scale_ = settings.scale_max();
  }
  constexpr float kLargest = 64;
  if (!(scale_probability_ >= 0 && scale_probability_ <= 1)) refuse("scale_prob must be from 0 to 1");
  if (!(least_scale_ > 0 && least_scale_ <= largest_scale_ && largest_scale_ <= kLargest))
    refuse("the scales must be in (0, ", kLargest, "], the smallest first; found ", least_scale_, " and ",
           largest_scale_);
  if (scale_probability_ > 0 && crop_ == 0)
    refuse("scales need a crop_size (transform_param): images of a batch have one size");
  if (!settings.has_label_slice()) return;
  const caffe::Slice& slice = settings.label_slice();
  if (std::max({slice.dim_size(), slice.stride_size(), slice.offset_size()}) > 2)
    refuse("label_slice has numbers for rows and for columns, not for more axes");
  const auto of_axis = [&](const auto& numbers, int axis, std::uint32_t otherwise) {
    const std::uint32_t number =
        numbers.empty() ? otherwise : numbers.Get(std::min(axis, numbers.size() - 1));
    if (number > kLongestScaledSide) refuse("label_slice has ", number, ", more than ", kLongestScaledSide);
    return static_cast<int>(number);
  };
  Labels* const both[] = {&rows_, &columns_};
  for (int axis = 0; axis < 2; ++axis) {
    Labels& labels = *both[axis];
    labels = {of_axis(slice.dim(), axis, 0), of_axis(slice.stride(), axis, 1),
              of_axis(slice.offset(), axis, 0)};
    if (labels.dim < 1 || labels.stride < 1)
      refuse("label_slice needs a positive dim and stride of rows and columns");
    if (crop_ > 0 && labels.offset + std::int64_t{labels.dim - 1} * labels.stride >= crop_)
      refuse("label_slice goes to pixel ", labels.offset + std::int64_t{labels.dim - 1} * labels.stride,
             " of a crop of ", crop_);
  }
}

std::vector<Shape> LabelSliceWriter::shapes(const Record& record, std::uint64_t) const {
  if (means_.size() > 1 && means_.size() != static_cast<std::size_t>(record.channels))
    bad_input("transform_param.mean_value has ", means_.size(), " values, the image ", record.channels,
              " channels");
  const int height = cut_length(record.height, rows_), width = cut_length(record.width, columns_);
  const auto labels = [](const Labels& of, int length) { return of.dim > 0 ? of.dim : length; };
  for (const auto& [of, length] : {std::pair{rows_, height}, std::pair{columns_, width}})
    if (of.dim > 0 && of.offset + std::int64_t{of.dim - 1} * of.stride >= length)
      bad_input("label_slice goes beyond the image (", record.height, " x ", record.width, ")");
  return {Shape{record.channels, height, width}, Shape{1, labels(rows_, height), labels(columns_, width)}};
}

void LabelSliceWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  const ops::Philox4 draws = ops::philox(key_.key(), item, 0), scales = ops::philox(key_.key(), item, 1);
  Image scaled, scaled_labels;
  const Image *image = &record.image, *labels = &record.label_image;
  const auto part = [](std::uint32_t drawn) { return static_cast<float>(drawn) / 4294967296.0f; };
  if (scale_probability_ == 1 || part(scales.v[1]) < scale_probability_) {
    const float factor = least_scale_ + (largest_scale_ - least_scale_) * part(scales.v[0]);
    const auto length = [&](int side) {
      return std::max(1, static_cast<int>(std::round(factor * static_cast<float>(side))));
    };
    const int height = length(record.height), width = length(record.width);
    if (std::max(height, width) > kLongestScaledSide)
      bad_input("scaled by ", factor, ", the image (", record.height, " x ", record.width,
                ") is longer than ", kLongestScaledSide, " pixels");
    resize_image(record.image, height, width,
                 factor > 1 ? caffe::ResizeParameter::CUBIC : caffe::ResizeParameter::AREA, scaled);
    resize_nearest(record.label_image, height, width, scaled_labels);
    image = &scaled;
    labels = &scaled_labels;
  }
  const std::vector<Shape> shape = shapes(record, item);
  const int height = static_cast<int>(shape[0][1]), width = static_cast<int>(shape[0][2]);
  // Of the cut, in pixels of the image.
  const auto first = [&](int stored, const Labels& of, int cut, std::uint32_t drawn) {
    const int padded = stored + 2 * of.offset, missing = std::max(0, cut - padded);
    const int free = std::max(0, padded - cut);
    const int at = random_crop_ ? static_cast<int>(drawn % static_cast<std::uint32_t>(free + 1)) : free / 2;
    return at - of.offset - missing / 2;
  };
  const int top = first(image->height, rows_, height, draws.v[1]);
  const int left = first(image->width, columns_, width, draws.v[2]);
  const bool mirror = mirror_ && draws.v[0] % 2 == 1;
  const std::vector<int> rows =
      seen_from(top, static_cast<std::size_t>(height), image->height, rows_.offset, reflects_);
  const std::vector<int> columns =
      seen_from(left, static_cast<std::size_t>(width), image->width, columns_.offset, reflects_);
  const int channels = image->channels;
  const auto mean = [this](int c) {
    return means_.empty() ? 0 : means_[means_.size() == 1 ? 0 : static_cast<std::size_t>(c)];
  };
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    T* const pixels = static_cast<T*>(place.outputs[0]);
    const std::ptrdiff_t plane = std::ptrdiff_t{height} * width;
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const std::ptrdiff_t at = std::ptrdiff_t{y} * width + (mirror ? width - 1 - x : x);
        const int row = rows[static_cast<std::size_t>(y)], column = columns[static_cast<std::size_t>(x)];
        const std::ptrdiff_t from = std::ptrdiff_t{row} * image->width + column;
        for (int c = 0; c < channels; ++c) {
          const T pixel =
              row >= 0 && column >= 0 ? static_cast<T>(image->pixels.data()[from * channels + c]) : T{0};
          pixels[place.layout == Layout::channels_last ? at * channels + c : c * plane + at] =
              (pixel - static_cast<T>(mean(c))) * static_cast<T>(scale_);
        }
      }
    T* to = static_cast<T*>(place.outputs[1]);
    const int label_rows = static_cast<int>(shape[1][1]), label_columns = static_cast<int>(shape[1][2]);
    for (int i = 0; i < label_rows; ++i)
      for (int j = 0; j < label_columns; ++j) {
        const int x = columns_.offset + j * columns_.stride;
        const int row = rows_.offset + i * rows_.stride + top, column = (mirror ? width - 1 - x : x) + left;
        const bool inside = row >= 0 && row < labels->height && column >= 0 && column < labels->width;
        *to++ = static_cast<T>(inside ? labels->pixels.data()[std::ptrdiff_t{row} * labels->width + column]
                                      : kNoLabel);
      }
  });
}

}  // namespace banyan::data
