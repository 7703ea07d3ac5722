#include "banyan/data/roi_list.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/image_codec.hpp"
#include "banyan/io/atomic_file.hpp"
#include "data/list_words.hpp"
#include "data/resampling.hpp"

namespace banyan::data {

namespace {

constexpr std::size_t kLargestRoiFile = std::size_t{1} << 30;
constexpr std::uint32_t kMostBoxes = 1 << 20;
constexpr std::int64_t kNumbers = 5;  // of a box

struct ImageWithBoxes {
  std::string path;
  std::vector<float> boxes;  // class, x1, y1, x2, y2 of each
};

void read_roi(ListWords& words, std::vector<float>& boxes) {
  const int label = words.number<int>("the box's class");
  if (label < 1) words.fail("a positive class of a box", cat(label));
  const Box box = read_listed_box(words);
  words.number<int>("whether the box is difficult");
  for (const double number : {static_cast<double>(label), box.x1, box.y1, box.x2, box.y2})
    boxes.push_back(static_cast<float>(number));
}

std::vector<ImageWithBoxes> read_roi_list(const std::string& path) {
  const std::string text = io::read_file(path, kLargestRoiFile);
  ListWords words(text, path);
  std::vector<ImageWithBoxes> images;
  while (!words.done()) {
    ImageWithBoxes& image = images.emplace_back();
    image.path = read_listed_path(words);
    const auto boxes = words.number<std::uint32_t>("the number of boxes");
    if (boxes > kMostBoxes) words.fail(cat("at most ", kMostBoxes, " boxes"), cat(boxes));
    for (std::uint32_t i = 0; i < boxes; ++i) read_roi(words, image.boxes);
  }
  if (images.empty()) bad_input(banyan::quoted(path), " lists no images");
  return images;
}

using ImagesWithBoxes = std::shared_ptr<const std::vector<ImageWithBoxes>>;

class RoiReader : public RecordReader {
 public:
  RoiReader(std::string name, std::string root, ImagesWithBoxes images)
      : name_(std::move(name)), root_(std::move(root)), images_(std::move(images)) {}

  void fetch(std::uint64_t position, Record& record) override {
    image_ = &(*images_)[position];
    file_ = io::read_file(root_ + image_->path, kLargestRoiFile);
    record.stored = file_;
  }
  void decode(Record& record) override {
    decode_image(reinterpret_cast<const std::uint8_t*>(file_.data()), file_.size(), ColorMode::bgr,
                 record.image);
    record.labels = image_->boxes;
    record.show_image();
  }
  std::string describe(std::uint64_t position) override {
    return cat(name_, ", image ", banyan::quoted(root_ + (*images_)[position].path));
  }

 private:
  std::string name_, root_;
  ImagesWithBoxes images_;
  const ImageWithBoxes* image_ = nullptr;
  std::string file_;
};

class RoiListSource : public RoiSource {
 public:
  RoiListSource(std::string path, std::string root)
      : path_(std::move(path)),
        root_(std::move(root)),
        images_(std::make_shared<const std::vector<ImageWithBoxes>>(read_roi_list(path_))) {}
  std::uint64_t size() const override { return images_->size(); }
  std::string name() const override { return "list of boxes " + banyan::quoted(path_); }
  std::unique_ptr<RecordReader> reader() const override {
    return std::make_unique<RoiReader>(name(), root_, images_);
  }
  std::int64_t most_boxes() const override {
    std::size_t most = 0;
    for (const ImageWithBoxes& image : *images_) most = std::max(most, image.boxes.size());
    return static_cast<std::int64_t>(most) / kNumbers;
  }

 private:
  std::string path_, root_;
  ImagesWithBoxes images_;
};

std::int64_t aligned(std::int64_t length, std::int64_t align) { return (length + align - 1) / align * align; }

std::int64_t scaled_length(int length, double factor) {
  return std::max<std::int64_t>(1, std::llround(length * factor));
}

}  // namespace

std::shared_ptr<RoiSource> open_roi_list(const std::string& path, const std::string& root_folder) {
  return std::make_shared<RoiListSource>(path, root_folder);
}

RoiWriter::RoiWriter(const caffe::RoiDataParameter& settings, const caffe::TransformationParameter& transform,
                     bool mirror, std::int64_t rows, const ops::RandomKey& key)
    : scales_(settings.scale().begin(), settings.scale().end()),
      means_(3),
      max_size_(settings.max_size()),
      pixel_scale_(transform.scale()),
      align_(settings.align()),
      rows_(std::max<std::int64_t>(rows, 1)),
      mirror_(mirror),
      key_(key) {
  if (scales_.empty()) scales_ = {600};
  for (int c = 0; c < 3 && transform.mean_value_size() > 0; ++c)
    means_[static_cast<std::size_t>(c)] = transform.mean_value(transform.mean_value_size() == 1 ? 0 : c);
}

double RoiWriter::factor(const Record& record, std::uint64_t item) const {
  const double side = scales_[ops::philox(key_.key(), item, 0).v[1] % scales_.size()];
  return std::min(side / std::min(record.height, record.width),
                  max_size_ / std::max(record.height, record.width));
}

std::vector<Shape> RoiWriter::shapes(const Record& record, std::uint64_t item) const {
  const double scale = factor(record, item);
  return {Shape{3, aligned(scaled_length(record.height, scale), align_),
                aligned(scaled_length(record.width, scale), align_)},
          Shape{3}, Shape{rows_, kNumbers}};
}

void RoiWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  const double scale = factor(record, item);
  const bool mirror = mirror_ && ops::philox(key_.key(), item, 0).v[0] % 2 == 1;
  const auto image_height = static_cast<int>(scaled_length(record.height, scale));
  const auto image_width = static_cast<int>(scaled_length(record.width, scale));
  Image image;
  resize_image(record.image, image_height, image_width,
               scale < 1 ? caffe::ResizeParameter::AREA : caffe::ResizeParameter::LINEAR, image);
  const std::int64_t height = aligned(image_height, align_), width = aligned(image_width, align_);
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    T* const pixels = static_cast<T*>(place.outputs[0]);
    std::fill_n(pixels, 3 * height * width, T{0});
    for (int y = 0; y < image_height; ++y)
      for (int x = 0; x < image_width; ++x) {
        const std::int64_t at = y * width + (mirror ? image_width - 1 - x : x);
        const std::uint8_t* const from = image.pixels.data() + (std::int64_t{y} * image_width + x) * 3;
        for (int c = 0; c < 3; ++c)
          pixels[place.layout == Layout::channels_last ? at * 3 + c : c * height * width + at] =
              (static_cast<T>(from[c]) - static_cast<T>(means_[static_cast<std::size_t>(c)])) *
              static_cast<T>(pixel_scale_);
      }
    T* const info = static_cast<T*>(place.outputs[1]);
    info[0] = static_cast<T>(height);
    info[1] = static_cast<T>(width);
    info[2] = static_cast<T>(scale);
    T* const rows = static_cast<T*>(place.outputs[2]);
    std::fill_n(rows, rows_ * kNumbers, T{0});
    for (std::size_t i = 0; i < record.labels.size() / kNumbers; ++i) {
      const float* const box = record.labels.data() + i * kNumbers;
      const double last_x = record.width - 1, last_y = record.height - 1;
      double x1 = std::clamp<double>(box[1], 0, last_x), x2 = std::clamp<double>(box[3], 0, last_x);
      if (mirror) x1 = last_x - std::exchange(x2, last_x - x1);
      T* const row = rows + static_cast<std::int64_t>(i) * kNumbers;
      const auto put = [&](int k, double at, std::int64_t length) {
        row[k] = static_cast<T>(std::min(at * scale, static_cast<double>(length - 1)));
      };
      put(0, x1, width);
      put(1, std::clamp<double>(box[2], 0, last_y), height);
      put(2, x2, width);
      put(3, std::clamp<double>(box[4], 0, last_y), height);
      row[4] = static_cast<T>(box[0]);
    }
  });
}

}  // namespace banyan::data
