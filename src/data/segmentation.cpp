#include "banyan/data/segmentation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/number.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/augmenter.hpp"
#include "banyan/data/box_geometry.hpp"
#include "banyan/data/image_codec.hpp"
#include "banyan/io/atomic_file.hpp"
#include "data/resampling.hpp"

namespace banyan::data {

namespace {

constexpr std::size_t kLargestImageFile = std::size_t{1} << 30;
constexpr int kLongestSide = 1 << 15;  // of a scaled image
constexpr std::uint32_t kMostRedraws = 10;

struct LabelledImage {
  std::string image, labels;   // paths with their folders; empty: no image of labels
  int label = 0;               // of all pixels without such an image
  PixelBox window{};           // if there are windows
  std::vector<float> classes;  // a number for each class
};

int label_of(const std::string& word, const std::string& list, std::uint64_t line) {
  const auto label = number_in<int>(word);
  if (!label || *label < 0 || *label > 255)
    bad_input(list, ":", line, ": expected a label from 0 to 255, found ", banyan::quoted(word));
  return *label;
}

/// x1, y1, x2, y2; false if the words are anything else.
bool read_window_words(std::istream& words, PixelBox& window) {
  constexpr int kFarthest = 1 << 20;
  int x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  if (!(words >> x1 >> y1 >> x2 >> y2)) return false;
  for (const int at : {x1, y1, x2, y2})
    if (at <= -kFarthest || at >= kFarthest) return false;
  window = {y1, x1, y2 - y1 + 1, x2 - x1 + 1};
  return window.height > 0 && window.width > 0 && std::max(window.height, window.width) <= kLongestSide;
}

/// The rest of a line; false if it is anything but `count` numbers.
bool read_class_numbers(std::istream& words, int count, std::vector<float>& numbers) {
  for (std::string word; words >> word;) {
    const auto number = number_in<int>(word);
    if (!number || *number < 0 || *number > 255) return false;
    numbers.push_back(static_cast<float>(*number));
  }
  return numbers.size() == static_cast<std::size_t>(count);
}

/// Puts the numbers of classes in the place of their labels.
void select_classes(const std::vector<float>& numbers, const SegmentationOptions& options, Image& labels) {
  std::array<std::uint8_t, 256> selected{};
  for (std::size_t k = 0; k < numbers.size(); ++k)
    if (const std::int64_t label = options.class_base + 1 + static_cast<std::int64_t>(k); label < 256)
      selected[static_cast<std::size_t>(label)] = static_cast<std::uint8_t>(numbers[k]);
  const auto ignored = static_cast<std::uint8_t>(options.ignore_label);
  selected[ignored] = ignored;
  for (std::uint8_t& label : labels.pixels) label = selected[label];
}

/// The pixels of a window, `outside` where it is outside of the image.
void cut_window(Image& image, const PixelBox& window, std::uint8_t outside, Image& scratch) {
  scratch = {image.channels, window.height, window.width, {}};
  scratch.pixels.assign(static_cast<std::size_t>(window.height) * static_cast<std::size_t>(window.width) *
                            static_cast<std::size_t>(image.channels),
                        outside);
  const int left = std::max(0, -window.left), right = std::min(window.width, image.width - window.left);
  for (int y = std::max(0, -window.top);
       y < std::min(window.height, image.height - window.top) && left < right; ++y) {
    const auto row = [&](const Image& in, int at_y, int at_x) {
      return (std::ptrdiff_t{at_y} * in.width + at_x) * in.channels;
    };
    std::copy_n(image.pixels.begin() + row(image, y + window.top, left + window.left),
                std::ptrdiff_t{right - left} * image.channels,
                scratch.pixels.begin() + row(scratch, y, left));
  }
  std::swap(image, scratch);
}

std::vector<LabelledImage> read_list(const std::string& path, const SegmentationOptions& options) {
  using Parameter = caffe::ImageDataParameter;
  std::istringstream lines(io::read_file(path, kLargestImageFile));
  std::vector<LabelledImage> entries;
  std::string line;
  for (std::uint64_t number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    LabelledImage entry;
    std::string second, rest;
    if (!(words >> std::quoted(entry.image))) continue;
    const bool two = options.labels != Parameter::NONE;
    if (two || !options.windows) words >> std::quoted(second);
    if (options.windows && !read_window_words(words, entry.window))
      bad_input(path, ":", number, ": expected a window, \"x1 y1 x2 y2\", ",
                options.class_numbers > 0 ? "before the numbers of classes" : "at the end of the line",
                ", found ", banyan::quoted(line));
    if (options.class_numbers > 0 && !read_class_numbers(words, options.class_numbers, entry.classes))
      bad_input(path, ":", number, ": expected ", options.class_numbers,
                " numbers from 0 to 255, one for each class, after the window, found ", banyan::quoted(line));
    words >> rest;
    if (two == second.empty() || !rest.empty())
      bad_input(path, ":", number, ": expected ",
                options.labels == Parameter::PIXEL   ? "\"image label-image\""
                : options.labels == Parameter::IMAGE ? "\"image label\""
                                                     : "the path of an image",
                ", found ", banyan::quoted(line));
    entry.label = options.ignore_label;
    entry.image = options.root_folder + entry.image;
    if (options.labels == Parameter::PIXEL) entry.labels = options.root_folder + second;
    if (options.labels == Parameter::IMAGE) entry.label = label_of(second, path, number);
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) bad_input("the list ", banyan::quoted(path), " lists no images");
  return entries;
}

/// Two lists with one path in each line.
std::vector<LabelledImage> read_two_lists(const std::string& path, const SegmentationOptions& options) {
  SegmentationOptions one = options;
  one.labels = caffe::ImageDataParameter::NONE;
  std::vector<LabelledImage> images = read_list(path, one);
  one.root_folder = options.label_folder;
  std::vector<LabelledImage> labels = read_list(options.label_list, one);
  if (images.size() != labels.size())
    bad_input("the list ", banyan::quoted(path), " has ", images.size(), " images, ",
              banyan::quoted(options.label_list), " has ", labels.size(), " images of labels");
  for (std::size_t i = 0; i < images.size(); ++i) images[i].labels = std::move(labels[i].image);
  return images;
}

void decode(const std::string& bytes, ColorMode color, Image& image) {
  decode_image(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), color, image);
}

float label_value(std::uint8_t stored, caffe::ImageDataParameter::LabelValues values) {
  using Parameter = caffe::ImageDataParameter;
  if (values == Parameter::STORED) return stored;
  if (stored >= 128) return 1;
  return values == Parameter::EDGES ? 0.0f : static_cast<float>(stored) / 255;
}

template <class T>
void write_labels(const Image& labels, bool mirror, caffe::ImageDataParameter::LabelValues values, T* to) {
  for (int y = 0; y < labels.height; ++y)
    for (int x = 0; x < labels.width; ++x) {
      const int column = mirror ? labels.width - 1 - x : x;
      to[std::ptrdiff_t{y} * labels.width + column] =
          static_cast<T>(label_value(labels.pixels.data()[std::ptrdiff_t{y} * labels.width + x], values));
    }
}

/// Has one label more than 80 % of the part's pixels?
bool one_label_rules(const Image& labels, const PixelBox& part) {
  std::array<int, 256> counts{};
  const int bottom = std::min(part.top + part.height, labels.height);
  const int right = std::min(part.left + part.width, labels.width);
  for (int y = part.top; y < bottom; ++y)
    for (int x = part.left; x < right; ++x)
      ++counts[labels.pixels[static_cast<std::size_t>(y) * static_cast<std::size_t>(labels.width) +
                             static_cast<std::size_t>(x)]];
  return *std::max_element(counts.begin(), counts.end()) > 0.8 * part.height * part.width;
}

class SegmentationReader : public RecordReader {
 public:
  SegmentationReader(std::string name, std::shared_ptr<const std::vector<LabelledImage>> entries,
                     const SegmentationOptions& options)
      : name_(std::move(name)), entries_(std::move(entries)), options_(options) {}

  void fetch(std::uint64_t position, Record& record) override {
    entry_ = &(*entries_)[position];
    image_file_ = io::read_file(entry_->image, kLargestImageFile);
    label_file_ = entry_->labels.empty() ? "" : io::read_file(entry_->labels, kLargestImageFile);
    record.stored = image_file_;
  }
  void decode(Record& record) override {
    Image& image = record.image;
    Image& labels = record.label_image;
    data::decode(image_file_, options_.color, image);
    if (entry_->labels.empty()) {
      labels = {1, image.height, image.width, {}};
      labels.pixels.assign(image.pixels.size() / static_cast<std::size_t>(image.channels),
                           static_cast<std::uint8_t>(entry_->label));
    } else {
      read_labels(image, labels);
    }
    if (options_.class_numbers > 0) {
      record.labels = entry_->classes;
      select_classes(entry_->classes, options_, labels);
    }
    if (options_.windows) {
      cut_window(image, entry_->window, 0, record.scratch);
      cut_window(labels, entry_->window, static_cast<std::uint8_t>(options_.ignore_label), record.scratch);
    }
    if (options_.new_height > 0) {
      resize_bilinear(image, options_.new_height, options_.new_width, record.scratch);
      std::swap(image, record.scratch);
      resize_nearest(labels, options_.new_height / options_.label_divisor,
                     options_.new_width / options_.label_divisor, record.scratch);
      std::swap(labels, record.scratch);
    }
    record.show_image();
  }
  std::string describe(std::uint64_t position) override {
    return cat(name_, ", image ", position, " (counted from 0; ", banyan::quoted((*entries_)[position].image),
               ")");
  }

 private:
  void read_labels(const Image& image, Image& labels) const {
    const std::string path = banyan::quoted(entry_->labels);
    try {
      data::decode(label_file_, options_.gray_labels ? ColorMode::gray : ColorMode::labels, labels);
    } catch (const Error& error) {
      throw Error(error.kind(), "label image " + path + ": " + error.message());
    }
    if (options_.label_sizes && options_.new_height > 0) return;
    const int divisor = options_.label_divisor;
    const int height = image.height / divisor, width = image.width / divisor;
    if (labels.height != height || labels.width != width)
      bad_input("label image ", path, ": expected the size of its image, ",
                divisor > 1 ? cat("divided by ", divisor, ", ") : "", height, " x ", width, ", found ",
                labels.height, " x ", labels.width);
  }

  std::string name_;
  std::shared_ptr<const std::vector<LabelledImage>> entries_;
  SegmentationOptions options_;
  const LabelledImage* entry_ = nullptr;
  std::string image_file_, label_file_;
};

class SegmentationSource : public RecordSource {
 public:
  SegmentationSource(const std::string& path, const SegmentationOptions& options)
      : path_(path),
        options_(options),
        entries_(std::make_shared<const std::vector<LabelledImage>>(
            options.label_list.empty() ? read_list(path, options) : read_two_lists(path, options))) {}
  std::uint64_t size() const override { return entries_->size(); }
  std::string name() const override { return "image list " + banyan::quoted(path_); }
  std::unique_ptr<RecordReader> reader() const override {
    return std::make_unique<SegmentationReader>(name(), entries_, options_);
  }

 private:
  std::string path_;
  SegmentationOptions options_;
  std::shared_ptr<const std::vector<LabelledImage>> entries_;
};

}  // namespace

std::shared_ptr<RecordSource> open_segmentation_list(const std::string& path,
                                                     const SegmentationOptions& options) {
  return std::make_shared<SegmentationSource>(path, options);
}

void check_segmentation_transform(const caffe::TransformationParameter& settings, int channels,
                                  const std::vector<std::string>& own, const std::string& layer) {
  std::vector<std::string> known = {"scale", "mirror", "crop_size", "mean_value", "display"};
  known.insert(known.end(), own.begin(), own.end());
  const auto refuse = [&](const auto&... parts) {
    bad_input("layer ", banyan::quoted(layer), ": transform_param.", parts...);
  };
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  caffe::TransformationParameter::GetReflection()->ListFields(settings, &fields);
  for (const auto* field : fields)
    if (!contains(known, field->name()) && !changes_nothing(settings, *field))
      refuse(field->name(), " is not supported for images with label images");
  if (settings.crop_size() > 0 && (settings.crop_height() > 0 || settings.crop_width() > 0))
    refuse("crop_size cannot be set together with crop_height and crop_width");
  if ((settings.crop_height() > 0) != (settings.crop_width() > 0))
    refuse("crop_height and crop_width must both be set, or neither");
  constexpr std::uint32_t kMost = 1 << 15;
  if (std::max({settings.crop_size(), settings.crop_height(), settings.crop_width()}) > kMost)
    refuse("crop_size, crop_height and crop_width must be at most ", kMost);
  if ((settings.has_upper_height() != settings.has_upper_width()) ||
      (settings.has_upper_size() && settings.has_upper_height()))
    refuse("upper_size, or upper_height and upper_width, may be set");
  for (const int length :
       {settings.has_stride() ? settings.stride() : 1, settings.has_upper_size() ? settings.upper_size() : 1,
        settings.has_upper_height() ? settings.upper_height() : 1,
        settings.has_upper_width() ? settings.upper_width() : 1})
    if (length < 1) refuse("stride, upper_size, upper_height and upper_width must be positive, not ", length);
  if (settings.mean_value_size() > 1 && settings.mean_value_size() != channels)
    refuse("mean_value must have one value or one per channel (", channels, "), not ",
           settings.mean_value_size());
  constexpr float kLargestFactor = 64;
  for (const float factor : settings.scale_factors())
    if (!(factor > 0 && factor <= kLargestFactor))
      refuse("scale_factors must be in (0, ", kLargestFactor, "], not ", factor);
}

SegmentationWriter::SegmentationWriter(const caffe::TransformationParameter& settings, int channels,
                                       const Options& options, const ops::RandomKey& key)
    : options_(options),
      scale_factors_(settings.scale_factors().begin(), settings.scale_factors().end()),
      means_(static_cast<std::size_t>(channels)),
      crop_height_(static_cast<int>(std::max(settings.crop_size(), settings.crop_height()))),
      crop_width_(static_cast<int>(std::max(settings.crop_size(), settings.crop_width()))),
      stride_(settings.stride()),
      upper_height_(settings.has_upper_size() ? settings.upper_size() : settings.upper_height()),
      upper_width_(settings.has_upper_size() ? settings.upper_size() : settings.upper_width()),
      mirror_(settings.mirror()),
      scale_(settings.scale()),
      key_(key) {
  for (int c = 0; c < channels && settings.mean_value_size() > 0; ++c)
    means_[static_cast<std::size_t>(c)] = settings.mean_value(settings.mean_value_size() == 1 ? 0 : c);
}

std::vector<Shape> SegmentationWriter::shapes(const Record& record, std::uint64_t) const {
  if (crop_height_ == 0 && !scale_factors_.empty())
    bad_input("scale_factors need a crop: images of a batch have one size");
  const auto length = [this](int crop, int stored, int upper) {
    if (crop > 0) return crop;
    const int whole = stored / stride_ * stride_;
    return upper > 0 ? std::min(whole, upper) : whole;
  };
  const int height = length(crop_height_, record.height, upper_height_);
  const int width = length(crop_width_, record.width, upper_width_);
  if (height < 1 || width < 1)
    bad_input("the image (", record.height, " x ", record.width, ") is smaller than stride, ", stride_);
  if (!options_.pads && (height > record.height || width > record.width))
    bad_input(height == width ? cat("crop_size ", height) : cat("the crop, ", height, " x ", width, ","),
              " is larger than the image (", record.height, " x ", record.width, ")");
  const int divisor = options_.label_divisor;
  return {Shape{record.channels, height, width}, Shape{1, height / divisor, width / divisor},
          options_.class_numbers > 0 ? Shape{options_.class_numbers, 1, 1} : Shape{1, 1, 2}};
}

void SegmentationWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  ops::Philox4 draws = ops::philox(key_.key(), item, 0);
  const float factor = scale_factors_.empty() ? 1 : scale_factors_[draws.v[3] % scale_factors_.size()];
  Image scaled, scaled_labels;
  const Image *image = &record.image, *labels = &record.label_image;
  if (factor != 1) {
    const int height = std::max(1, static_cast<int>(std::round(factor * static_cast<float>(record.height))));
    const int width = std::max(1, static_cast<int>(std::round(factor * static_cast<float>(record.width))));
    if (std::max(height, width) > kLongestSide)
      bad_input("scale_factors: ", factor, " times ", record.height, " x ", record.width, " is longer than ",
                kLongestSide, " pixels");
    resize_bilinear(record.image, height, width, scaled);
    resize_nearest(record.label_image, height, width, scaled_labels);
    image = &scaled;
    labels = &scaled_labels;
  }
  const std::vector<Shape> shape = shapes(record, item);
  const int height = static_cast<int>(shape[0][1]), width = static_cast<int>(shape[0][2]);
  // Nothing is cut from what has to be enlarged.
  const int free_rows = std::max(0, image->height - height), free_columns = std::max(0, image->width - width);
  int top = free_rows / 2, left = free_columns / 2;
  for (std::uint32_t attempt = 0; options_.random_crop; ++attempt) {
    if (attempt > 0) draws = ops::philox(key_.key(), item, attempt);
    top = static_cast<int>(draws.v[1] % static_cast<std::uint32_t>(free_rows + 1));
    left = static_cast<int>(draws.v[2] % static_cast<std::uint32_t>(free_columns + 1));
    if (!options_.balance || attempt == kMostRedraws || !one_label_rules(*labels, {top, left, height, width}))
      break;
  }
  const bool mirror = mirror_ && draws.v[0] % 2 == 1;
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    T* const pixels = static_cast<T*>(place.outputs[0]);
    T* const classes = static_cast<T*>(place.outputs[1]);
    const std::ptrdiff_t plane = std::ptrdiff_t{height} * width;
    const int channels = image->channels;
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const std::ptrdiff_t at = std::ptrdiff_t{y} * width + (mirror ? width - 1 - x : x);
        const bool inside = y + top < image->height && x + left < image->width;
        const std::ptrdiff_t from = inside ? std::ptrdiff_t{y + top} * image->width + x + left : 0;
        if (options_.label_divisor == 1)
          classes[at] =
              static_cast<T>(inside ? label_value(labels->pixels.data()[from], options_.label_values)
                                    : static_cast<float>(options_.ignore_label));
        for (int c = 0; c < channels; ++c) {
          const T mean = static_cast<T>(means_[static_cast<std::size_t>(c)]);
          // Pixels have 8 bits, also those that are added.
          const T pixel = inside ? static_cast<T>(image->pixels.data()[from * channels + c])
                                 : std::clamp(std::round(mean), T{0}, T{255});
          pixels[place.layout == Layout::channels_last ? at * channels + c : c * plane + at] =
              (pixel - mean) * static_cast<T>(scale_);
        }
      }
    if (options_.label_divisor > 1) write_labels(*labels, mirror, options_.label_values, classes);
    T* const third = static_cast<T*>(place.outputs[2]);
    if (options_.class_numbers > 0) {
      std::copy(record.labels.begin(), record.labels.end(), third);
    } else {
      third[0] = static_cast<T>(record.height);
      third[1] = static_cast<T>(record.width);
    }
  });
}

}  // namespace banyan::data
