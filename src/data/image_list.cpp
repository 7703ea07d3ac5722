#include "banyan/data/image_list.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <map>
#include <mutex>
#include <sstream>
#include <tuple>
#include <utility>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/number.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "data/list_words.hpp"

namespace banyan::data {

namespace fs = std::filesystem;

namespace {

constexpr const char* kBlank = " \t\r";

/// A label's sign may be a plus.
template <typename Number>
std::optional<Number> label_in(std::string_view word) {
  return number_in<Number>(word.starts_with('+') ? word.substr(1) : word);
}

float number_of(const std::string& word, const std::string& list, std::uint64_t line) {
  const auto value = label_in<float>(word);
  if (!value || !std::isfinite(*value))
    bad_input(list, ":", line, ": expected a number as a label, found ", banyan::quoted(word));
  return *value;
}

/// `text` without the numbers at its end.
std::string take_labels(const std::string& list, std::uint64_t line, std::string text,
                        std::vector<float>& labels) {
  for (std::size_t i = labels.size(); i-- > 0;) {
    const std::size_t split = text.find_last_of(" \t");
    const std::size_t before = text.find_last_not_of(" \t", split);
    if (split == std::string::npos || before == std::string::npos)
      bad_input(list, ":", line, ": expected a path and ", labels.size(), " labels");
    labels[i] = number_of(text.substr(split + 1), list, line);
    text.resize(before + 1);
  }
  return text;
}

ListedImage parse_line_of_labels(const std::string& list, std::uint64_t number, const std::string& line,
                                 int labels) {
  ListedImage image;
  image.labels.resize(static_cast<std::size_t>(labels));
  image.path = take_labels(list, number, line, image.labels);
  if (image.path[0] == '"') {
    std::istringstream words(image.path);
    std::string path;
    words >> std::quoted(path) >> std::ws;
    if (words.fail() || !words.eof())
      bad_input(list, ":", number, ": expected \"path\" in quotes and ", labels, " labels, found ",
                banyan::quoted(line));
    image.path = std::move(path);
  }
  return image;
}

ListedImage parse_line(const std::string& list, std::uint64_t number, const std::string& line) {
  std::size_t split = line.find_last_of(" \t");
  std::string path;
  if (line[0] == '"') {  // a quoted path: the label is what follows it
    std::istringstream words(line);
    words >> std::quoted(path) >> std::ws;
    if (!words || words.eof())
      bad_input(list, ":", number, ": expected \"path\" in quotes and a label, found ", banyan::quoted(line));
    split = static_cast<std::size_t>(words.tellg()) - 1;
  } else if (split == std::string::npos) {
    bad_input(list, ":", number, ": expected \"path label\", found ", banyan::quoted(line));
  } else {
    path = line.substr(0, split);
  }
  const std::string label = line.substr(split + 1);
  ListedImage image;
  const auto value = label_in<decltype(image.label)>(label);
  if (!value)
    bad_input(list, ":", number, ": expected an integer label after the last space, found ",
              banyan::quoted(label));
  image.label = *value;
  image.path = std::move(path);
  return image;
}

/// Its first word, perhaps in quotes, and what follows; false if the quotes do not end.
bool split_path(const std::string& line, std::string& path, std::string& rest) {
  std::istringstream words(line);
  if (!(words >> std::quoted(path))) return false;
  rest.clear();
  std::getline(words, rest);
  return true;
}

/// Does the line name classes, and others after a `;`?
bool has_classes(const std::string& line) {
  std::string path, rest;
  return line.find(';') != std::string::npos && line[0] != '#' && split_path(line, path, rest) &&
         rest.find(';') != std::string::npos && rest.find_first_not_of("0123456789; \t") == std::string::npos;
}

ListedImage parse_classes(const std::string& list, std::uint64_t number, const std::string& line) {
  ListedImage image;
  std::string rest;
  if (!split_path(line, image.path, rest) || rest.find_first_not_of(kBlank) == std::string::npos)
    bad_input(list, ":", number, ": expected a path and the classes of the image, found ",
              banyan::quoted(line));
  const std::size_t end = std::min(rest.find(';'), rest.size());
  const auto read = [&](const std::string& text, bool known) {
    std::istringstream parts(text);
    for (std::string word; parts >> word;) {
      const auto label = number_in<int>(word);
      constexpr int kMost = (1 << 16) - 1;
      if (!label || *label < 0 || *label > kMost)
        bad_input(list, ":", number, ": expected classes from 0 to ", kMost,
                  " and perhaps unknown ones after a \";\", found ", banyan::quoted(word));
      if (!known && contains(image.classes, *label))
        bad_input(list, ":", number, ": class ", *label, " is before the \";\" and after it");
      image.classes.push_back(known ? *label : -1 - *label);
    }
  };
  read(rest.substr(0, end), true);
  if (end < rest.size()) read(rest.substr(end + 1), false);
  return image;
}

/// Without blanks at their ends; blank lines are left out.
template <class Body>
void for_each_line(const std::string& path, const Body& body) {
  std::error_code error;
  std::ifstream file(path);
  if (!file) bad_input("cannot open the image list ", banyan::quoted(path), ": ", std::strerror(errno));
  if (fs::is_directory(path, error)) bad_input("the image list ", banyan::quoted(path), " is a folder");
  std::string line;
  for (std::uint64_t number = 1; std::getline(file, line); ++number) {
    const std::size_t last = line.find_last_not_of(kBlank);
    if (last == std::string::npos) continue;
    line.resize(last + 1);
    body(number, line);
  }
}

using SharedList = std::shared_ptr<const ClassList>;

struct ListRegistry {
  std::mutex mutex;
  /// By path, numbers after each path, the folder of files of boxes, and whether there may be classes.
  std::map<std::tuple<std::string, int, std::string, bool>, std::weak_ptr<const ClassList>> open;
};

SharedList shared_list(const std::string& path, const ImageListOptions& options) {
  static ListRegistry registry;
  const std::lock_guard lock(registry.mutex);
  const bool boxes = options.box_files, classes = options.classes && !boxes && options.labels == 1;
  auto& entry = registry.open[{path, boxes ? 0 : options.labels, boxes ? options.root_folder : "", classes}];
  SharedList list = entry.lock();
  if (!list) {
    list = std::make_shared<const ClassList>(classes
                                                 ? read_class_list(path)
                                                 : ClassList{boxes ? read_box_files(path, options.root_folder)
                                                                   : read_image_list(path, options.labels)});
    entry = list;
  }
  return list;
}

std::vector<float> read_boxes(const std::string& path) {
  constexpr std::size_t kLargest = std::size_t{1} << 24;
  const std::string text = io::read_file(path, kLargest);
  ListWords words(text, path);
  std::vector<float> numbers;
  while (!words.done())
    for (const char* what : {"a box's x1", "its y1", "its x2", "its y2", "its class"})
      numbers.push_back(static_cast<float>(words.number<int>(what)));
  return numbers;
}

void read_whole_file(const std::string& path, std::vector<char>& bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) bad_input("cannot open the file: ", std::strerror(errno));
  std::error_code error;
  if (!fs::is_regular_file(path, error)) bad_input("it is not a file");
  bytes.resize(fs::file_size(path, error));
  if (!bytes.empty() && std::fread(bytes.data(), 1, bytes.size(), file.get()) != bytes.size())
    bad_input("cannot read the file");
}

class ImageListReader : public RecordReader {
 public:
  ImageListReader(std::string name, SharedList list, const ImageListOptions& options)
      : name_(std::move(name)), list_(std::move(list)), options_(options) {}

  void fetch(std::uint64_t position, Record& record) override {
    const ListedImage& listed = list_->images[position];
    read_whole_file(options_.root_folder + listed.path, record.file);
    record.stored = {record.file.data(), record.file.size()};
    record.label = listed.label;
    record.labels = listed.labels;
    if (list_->classes == 0) return;
    record.labels.assign(static_cast<std::size_t>(list_->classes), 0);
    for (const int label : listed.classes)
      record.labels[static_cast<std::size_t>(label < 0 ? -1 - label : label)] =
          label < 0 ? options_.unknown : 1;
  }
  void decode(Record& record) override {
    const bool resize = options_.short_side > 0 || options_.min_height > 0 ||
                        (options_.new_height > 0 && options_.new_width > 0);
    const LeastSize least =
        resize && options_.scaled_decoding ? LeastSize{options_.new_height, options_.new_width} : LeastSize{};
    Image& decoded = resize ? record.scratch : record.image;
    decode_image(reinterpret_cast<const std::uint8_t*>(record.stored.data()), record.stored.size(),
                 options_.color, decoded, least);
    if (resize) {
      const auto [height, width] = new_size(decoded);
      if (decoded.height == height && decoded.width == width)
        std::swap(record.scratch, record.image);
      else
        resize_bilinear(decoded, height, width, record.image);
    }
    record.show_image();
  }
  std::string describe(std::uint64_t position) override {
    return cat(name_, ", image ", position, " (counted from 0; ",
               banyan::quoted(options_.root_folder + list_->images[position].path), ")");
  }

 private:
  std::pair<int, int> new_size(const Image& image) const {
    const bool enlarge = options_.min_height > 0;
    if (!enlarge && options_.short_side == 0) return {options_.new_height, options_.new_width};
    const double factor = enlarge ? std::max({1.0, options_.min_height / double(image.height),
                                              options_.min_width / double(image.width)})
                                  : options_.short_side / double(std::min(image.height, image.width));
    const double longest = factor * std::max(image.height, image.width);
    constexpr int kMost = 1 << 15;
    if (longest > kMost && factor != 1)
      bad_input(enlarge ? cat("min_height ", options_.min_height, " and min_width ", options_.min_width)
                        : cat("short_side ", options_.short_side),
                " would make the image of ", image.height, " x ", image.width, " longer than ", kMost,
                " pixels");
    return {static_cast<int>(std::lround(factor * image.height)),
            static_cast<int>(std::lround(factor * image.width))};
  }

  std::string name_;
  SharedList list_;
  ImageListOptions options_;
};

class ImageListSource : public RecordSource {
 public:
  ImageListSource(const std::string& path, const ImageListOptions& options)
      : path_(path), list_(shared_list(path, options)), options_(options) {}
  std::uint64_t size() const override { return list_->images.size(); }
  std::string name() const override { return "image list " + banyan::quoted(path_); }
  std::unique_ptr<RecordReader> reader() const override {
    return std::make_unique<ImageListReader>(name(), list_, options_);
  }

 private:
  std::string path_;
  SharedList list_;
  ImageListOptions options_;
};

}  // namespace

std::vector<ListedImage> read_image_list(const std::string& path, int labels) {
  std::vector<ListedImage> images;
  for_each_line(path, [&](std::uint64_t number, const std::string& line) {
    images.push_back(labels > 1 ? parse_line_of_labels(path, number, line, labels)
                                : parse_line(path, number, line));
  });
  if (images.empty()) bad_input("the image list ", banyan::quoted(path), " lists no images");
  return images;
}

ClassList read_class_list(const std::string& path) {
  // Read once: it may be a pipe.
  std::vector<std::pair<std::uint64_t, std::string>> lines;
  bool classes = false;
  for_each_line(path, [&](std::uint64_t number, const std::string& line) {
    lines.emplace_back(number, line);
    classes = classes || has_classes(line);
  });
  ClassList list;
  for (auto& [number, line] : lines) {
    if (!classes) {
      list.images.push_back(parse_line(path, number, line));
    } else if (line[0] != '#') {
      list.images.push_back(parse_classes(path, number, line));
      for (const int label : list.images.back().classes)
        list.classes = std::max(list.classes, (label < 0 ? -1 - label : label) + 1);
    }
    line = {};
  }
  if (list.images.empty()) bad_input("the image list ", banyan::quoted(path), " lists no images");
  if (classes && list.classes == 0) bad_input("the image list ", banyan::quoted(path), " names no class");
  return list;
}

std::vector<ListedImage> read_box_files(const std::string& path, const std::string& root_folder) {
  const std::string text = io::read_file(path, std::size_t{1} << 30);
  std::istringstream lines(text);
  std::vector<ListedImage> images;
  std::size_t most = 5;
  std::string line;
  for (std::uint64_t number = 1; std::getline(lines, line); ++number) {
    const std::size_t last = line.find_last_not_of(kBlank);
    if (last == std::string::npos) continue;
    line.resize(last + 1);
    const std::size_t split = line.find_last_of(" \t");
    if (split == std::string::npos)
      bad_input(path, ":", number, ": expected an image and a file of boxes, found ", banyan::quoted(line));
    ListedImage& image = images.emplace_back();
    image.path = line.substr(0, split);
    image.labels = read_boxes(root_folder + line.substr(split + 1));
    most = std::max(most, image.labels.size());
  }
  if (images.empty()) bad_input("the image list ", banyan::quoted(path), " lists no images");
  for (ListedImage& image : images) image.labels.resize(most, -1);
  return images;
}

std::shared_ptr<RecordSource> open_image_list(const std::string& path, const ImageListOptions& options) {
  return std::make_shared<ImageListSource>(path, options);
}

}  // namespace banyan::data
