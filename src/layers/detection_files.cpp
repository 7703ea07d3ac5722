#include "layers/detection_files.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/prototxt.hpp"

namespace banyan {
namespace {

constexpr std::size_t kMostLabelMap = 16 << 20;  // bytes

/// JSON: a number if the text is one, as the ids of COCO are.
std::string json_id(const std::string& text) {
  const std::size_t first = text.rfind('-', 0) == 0 ? 1 : 0;
  const bool number = text.size() > first && text.size() < 19 &&
                      (text[first] != '0' || text.size() == first + 1) &&
                      std::all_of(text.begin() + static_cast<std::ptrdiff_t>(first), text.end(),
                                  [](unsigned char c) { return std::isdigit(c) != 0; });
  return number ? text : json_string(text);
}

void append_corners(std::ostringstream& to, const Box& box) {
  const double x = std::trunc(box.x1), y = std::trunc(box.y1);
  to << ' ' << x << ' ' << y << ' ' << x + std::trunc(box.x2 - box.x1) << ' '
     << y + std::trunc(box.y2 - box.y1) << '\n';
}

}  // namespace

DetectionFiles::DetectionFiles(const caffe::SaveOutputParameter& settings, int classes, int background,
                               const std::string& where)
    : settings_(settings) {
  const std::string& format = settings.output_format();
  if (format != "VOC" && format != "COCO" && format != "ILSVRC")
    bad_input(where, "output_format must be \"VOC\", \"COCO\" or \"ILSVRC\"; found ", quoted(format));
  if (settings.has_resize_param()) check_resize(settings.resize_param(), where);
  if (!std::filesystem::is_regular_file(settings.label_map_file()))
    bad_input(where, "cannot open label_map_file ", quoted(settings.label_map_file()));
  caffe::LabelMap map;
  io::parse_text(io::read_file(settings.label_map_file(), kMostLabelMap), settings.label_map_file(), map);
  for (const caffe::LabelMapItem& item : map.item()) names_[item.label()] = item.name();
  for (int label = 0; label < classes; ++label)
    if (label != background && names_.count(label) == 0)
      bad_input(where, settings.label_map_file(), " has no name for class ", label);
  names_.erase(background);
  images_ = read_name_sizes(settings.name_size_file(), where);
  each_ =
      settings.has_num_test_image() ? settings.num_test_image() : static_cast<std::int64_t>(images_.size());
  if (each_ < 1 || each_ > static_cast<std::int64_t>(images_.size()))
    bad_input(where, "num_test_image must be from 1 to ", images_.size(), ", the images in ",
              quoted(settings.name_size_file()), "; found ", each_);
  std::error_code error;
  std::filesystem::create_directories(settings.output_directory(), error);
  if (error)
    bad_input(where, "cannot make output_directory ", quoted(settings.output_directory()), ": ",
              error.message());
}

void DetectionFiles::add(std::int64_t number, const std::vector<Detection>& detections) {
  const std::int64_t place = number % each_;
  if (place == 0) saved_.clear();  // an earlier pass may have ended in between
  const NamedSize& image = images_[place];
  for (const Detection& found : detections)
    saved_.push_back(
        {&image, {found.label, found.score, on_image(found.box, image, settings_.resize_param())}});
  if (place + 1 == each_) write();
}

void DetectionFiles::write() const {
  if (settings_.output_format() == "COCO") return write_file(".json", of_coco());
  const bool voc = settings_.output_format() == "VOC";
  std::map<int, std::ostringstream> texts;  // VOC: by class
  if (voc)
    for (const auto& [label, name] : names_) texts[label];
  for (const auto& [image, found] : saved_) {
    std::ostringstream& to = texts[voc ? found.label : 0];
    to << image->name << ' ';
    if (!voc) to << found.label << ' ';
    to << found.score;
    append_corners(to, found.box);
  }
  if (!voc) return write_file(".txt", texts[0].str());
  for (const auto& [label, text] : texts) write_file(names_.at(label) + ".txt", text.str());
}

std::string DetectionFiles::of_coco() const {
  std::vector<std::string> entries;
  for (const auto& [image, found] : saved_) {
    std::ostringstream to;
    to.precision(9);
    const Box& box = found.box;
    to << "{\"image_id\": " << json_id(image->name)
       << ", \"category_id\": " << json_id(names_.at(found.label)) << ", \"bbox\": [" << box.x1 << ", "
       << box.y1 << ", " << box.x2 - box.x1 << ", " << box.y2 - box.y1 << "], \"score\": " << found.score
       << "}";
    entries.push_back(to.str());
  }
  return json_array(entries) + "\n";
}

void DetectionFiles::write_file(const std::string& name, const std::string& text) const {
  const std::filesystem::path folder = settings_.output_directory();
  io::write_file((folder / (settings_.output_name_prefix() + name)).string(), text);
}

void keep_best(std::vector<Detection>& found, std::int64_t most) {
  if (most <= 0 || std::ssize(found) <= most) return;
  std::stable_sort(found.begin(), found.end(),
                   [](const Detection& a, const Detection& b) { return a.score > b.score; });
  found.resize(static_cast<std::size_t>(most));
  std::stable_sort(found.begin(), found.end(),
                   [](const Detection& a, const Detection& b) { return a.label < b.label; });
}

std::optional<DetectionFiles> open_detection_files(const Layer& layer,
                                                   const caffe::SaveOutputParameter& settings, int classes,
                                                   int background, int rank, int devices) {
  if (settings.output_directory().empty()) return std::nullopt;
  const std::string where = start_of_messages(layer);
  if (settings.label_map_file().empty() || settings.name_size_file().empty()) {
    if (rank == 0)
      log_warning(cat(where, "save_output_param has no ",
                      settings.label_map_file().empty() ? "label_map_file" : "name_size_file",
                      ": no files are written"));
    return std::nullopt;
  }
  if (devices > 1)
    bad_input(where, "save_output_param needs the images in order and so one device; there are ", devices);
  return DetectionFiles(settings, classes, background, where);
}

}  // namespace banyan
