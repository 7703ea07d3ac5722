#include "banyan/data/heatmaps.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <map>
#include <numbers>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/number.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/image_codec.hpp"
#include "banyan/io/atomic_file.hpp"
#include "data/distortion.hpp"
#include "data/open_once.hpp"
#include "data/pose_drawing.hpp"
#include "data/range_check.hpp"

namespace banyan::data {
namespace {

using HeatmapSettings = caffe::HeatmapDataParameter;

constexpr std::size_t kLargestPoseFile = std::size_t{1} << 30;
constexpr int kRgb = 3;
constexpr std::uint8_t kMasked = 40;  // pixels of a mask above this are
constexpr double kMapSigma = 1.5;     // of the maps

struct ListedPose {
  std::string image, mask;  // paths; empty: no mask
  std::vector<float> coordinates;
};
struct PoseList {
  std::vector<ListedPose> entries;
  std::vector<std::vector<std::size_t>> clusters;  // of entries; none: all follow each other
  std::size_t largest = 0;                         // cluster
};

/// What is between the commas, without an empty part after the last one.
std::vector<std::string_view> comma_parts(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    parts.push_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

/// Nothing: it is no list of places.
std::optional<std::set<std::size_t>> places_in(const std::string& labelinds) {
  std::set<std::size_t> places;
  for (std::string_view part : comma_parts(labelinds)) {
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    part = part.substr(0, part.find_last_not_of(' ') + 1);
    const auto place = number_in<std::uint32_t>(part);
    if (!place || *place == 0) return std::nullopt;
    places.insert(*place);
  }
  return places;
}

bool exchanges_sides(const HeatmapSettings& settings) {
  return settings.random_crop() && settings.flip_joint_labels();
}
std::size_t first_exchanged(const HeatmapSettings& settings) { return settings.dont_flip_first() ? 1 : 0; }

/// Reads the lines of a list.
class PoseListReader {
 public:
  explicit PoseListReader(const HeatmapSettings& settings)
      : settings_(settings), places_(places_in(settings.labelinds()).value()) {}

  PoseList read() {
    std::istringstream lines(io::read_file(settings_.source(), kLargestPoseFile));
    std::string line;
    for (number_ = 1; std::getline(lines, line); ++number_) read_line(line);
    if (read_ == 0) bad_input("the list ", banyan::quoted(settings_.source()), " lists no images");
    if (list_.entries.empty())
      bad_input("none of the ", read_, " images of the list ", banyan::quoted(settings_.source()),
                " has a mask in ", banyan::quoted(settings_.root_img_dir() + "segs"),
                "; without segmentation: true none is needed");
    for (auto& [cluster, entries] : clusters_) {
      list_.largest = std::max(list_.largest, entries.size());
      list_.clusters.push_back(std::move(entries));
    }
    return std::move(list_);
  }

 private:
  template <class... Why>
  [[noreturn]] void fail(const Why&... why) const {
    bad_input(settings_.source(), ":", number_, ": ", why...);
  }

  void read_line(const std::string& line) {
    std::istringstream words(line);
    std::string image, coordinates, crop, cluster, rest;
    if (!(words >> std::quoted(image))) return;
    if (!(words >> coordinates >> crop >> cluster) || words >> rest)
      fail("expected \"image x,y,x,y,... crop cluster\", found ", banyan::quoted(line));
    ListedPose entry;
    entry.image = settings_.root_img_dir() + image;
    entry.coordinates = chosen(coordinates);
    const auto number = number_in<std::uint32_t>(cluster);
    if (!number && settings_.sample_per_cluster())
      fail("expected the number of a cluster at the end of the line, found ", banyan::quoted(cluster));
    ++read_;
    if (settings_.segmentation()) {
      entry.mask = settings_.root_img_dir() + "segs/" + image;
      std::error_code ignored;
      if (!std::filesystem::exists(entry.mask, ignored)) return;
    }
    if (settings_.sample_per_cluster()) clusters_[*number].push_back(list_.entries.size());
    list_.entries.push_back(std::move(entry));
  }

  std::vector<float> chosen(const std::string& coordinates) {
    std::vector<float> found;
    const std::vector<std::string_view> parts = comma_parts(coordinates);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const auto number = number_in<float>(parts[k]);
      if (!number || !std::isfinite(*number))
        fail("expected numbers with commas between them, x,y,x,y,..., found ", banyan::quoted(parts[k]),
             " in ", banyan::quoted(coordinates));
      if (places_.empty() || places_.count(k + 1) > 0) found.push_back(*number);
    }
    if (!places_.empty() && *places_.rbegin() > parts.size())
      fail("labelinds names number ", *places_.rbegin(), ", but the line has ", parts.size());
    if (count_ == 0) check_count(found.size());
    if (found.size() != count_)
      fail("expected ", count_, " numbers for joints, as the first line has them, found ", found.size());
    return found;
  }

  void check_count(std::size_t count) {
    const char* const chosen = places_.empty() ? "" : " (labelinds)";
    if (count == 0 || count % 2 != 0) fail("expected two numbers for each joint", chosen, ", found ", count);
    const std::size_t first = first_exchanged(settings_), joints = count / 2;
    if (exchanges_sides(settings_) && (joints - first) % 2 != 0)
      fail("mirroring exchanges joints in pairs", first == 1 ? " after the first one" : "",
           ", but their number here", chosen, " is ", joints, ": dont_flip_first: ",
           first == 1 ? "false lets the first pair begin with the first joint"
                      : "true leaves the first joint out",
           ", flip_joint_labels: false exchanges none");
    count_ = count;
  }

  const HeatmapSettings& settings_;
  std::set<std::size_t> places_;
  PoseList list_;
  std::map<std::uint32_t, std::vector<std::size_t>> clusters_;
  std::uint64_t number_ = 0, read_ = 0;
  std::size_t count_ = 0;  // of coordinates
};

/// Which entry record `position` is, where clusters take turns.
class ClusterTurns {
 public:
  ClusterTurns(const PoseList& list, const ops::RandomKey& starts) : list_(list) {
    for (std::size_t k = 0; k < list.clusters.size(); ++k)
      starts_.push_back(ops::philox(starts.key(), k, 0).v[0] % list.clusters[k].size());
  }
  std::uint64_t size() const {
    return starts_.empty() ? list_.entries.size() : std::uint64_t{list_.largest} * starts_.size();
  }
  std::size_t entry(std::uint64_t position, std::uint64_t epoch) const {
    if (starts_.empty()) return position;
    const std::size_t k = position % starts_.size();
    const std::vector<std::size_t>& cluster = list_.clusters[k];
    return cluster[(starts_[k] + position / starts_.size() + epoch * list_.largest) % cluster.size()];
  }

 private:
  const PoseList& list_;
  std::vector<std::size_t> starts_;
};

class HeatmapReader : public RecordReader {
 public:
  HeatmapReader(std::string name, std::shared_ptr<const PoseList> list, const ops::RandomKey& starts)
      : name_(std::move(name)), list_(std::move(list)), turns_(*list_, starts) {}

  void fetch(std::uint64_t position, Record& record) override {
    epoch_ = record.item / turns_.size();
    const ListedPose& entry = entry_at(position);
    image_file_ = io::read_file(entry.image, kLargestPoseFile);
    mask_ = entry.mask;
    mask_file_ = mask_.empty() ? "" : io::read_file(mask_, kLargestPoseFile);
    record.stored = image_file_;
    record.labels = entry.coordinates;
  }
  void decode(Record& record) override {
    decode_as(image_file_, ColorMode::bgr, record.image);
    record.label_image = {};
    if (!mask_.empty()) read_mask(record.image, record.label_image);
    record.show_image();
  }
  std::string describe(std::uint64_t position) override {
    return cat(name_, ", image ", position, " (counted from 0; ", banyan::quoted(entry_at(position).image),
               ")");
  }

 private:
  const ListedPose& entry_at(std::uint64_t position) const {
    return list_->entries[turns_.entry(position, epoch_)];
  }
  static void decode_as(const std::string& bytes, ColorMode color, Image& image) {
    decode_image(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), color, image);
  }
  void read_mask(const Image& image, Image& mask) const {
    try {
      decode_as(mask_file_, ColorMode::gray, mask);
    } catch (const Error& error) {
      throw Error(error.kind(), "mask " + banyan::quoted(mask_) + ": " + error.message());
    }
    if (mask.height != image.height || mask.width != image.width)
      bad_input("mask ", banyan::quoted(mask_), ": expected the size of its image, ", image.height, " x ",
                image.width, ", found ", mask.height, " x ", mask.width);
  }

  std::string name_;
  std::shared_ptr<const PoseList> list_;
  ClusterTurns turns_;
  std::uint64_t epoch_ = 0;  // of the record fetched last
  std::string image_file_, mask_, mask_file_;
};

class HeatmapSource : public RecordSource {
 public:
  HeatmapSource(const HeatmapSettings& settings, const ops::RandomKey& starts)
      : path_(settings.source()),
        starts_(starts),
        list_(open_once<const PoseList>(settings.SerializeAsString(), [&] {
          return std::make_shared<const PoseList>(PoseListReader(settings).read());
        })) {}
  std::uint64_t size() const override { return ClusterTurns(*list_, starts_).size(); }
  std::string name() const override { return "image list " + banyan::quoted(path_); }
  std::unique_ptr<RecordReader> reader() const override {
    return std::make_unique<HeatmapReader>(name(), list_, starts_);
  }

 private:
  std::string path_;
  ops::RandomKey starts_;
  std::shared_ptr<const PoseList> list_;
};

/// R, G, B of a square image, one pixel after the other.
struct Square {
  explicit Square(int its_side)
      : side(its_side), values(static_cast<std::size_t>(side) * static_cast<std::size_t>(side) * kRgb) {}
  float* at(int y, int x) { return values.data() + (std::ptrdiff_t{y} * side + x) * kRgb; }
  const float* at(int y, int x) const { return values.data() + (std::ptrdiff_t{y} * side + x) * kRgb; }

  int side;
  std::vector<float> values;
};

/// Two neighbours of a point on an axis.
struct Neighbours {
  int first, second;
  float weight;  // of the second
};

/// Values between the pixels; outside of the image they are 0.
Square turned_square(const Square& image, const PoseTurn& turn) {
  Square result(image.side);
  const auto inside = [&](int at) { return at >= 0 && at < image.side; };
  for (int y = 0; y < image.side; ++y)
    for (int x = 0; x < image.side; ++x) {
      const PosePoint at = turn.back({double{1} * x, double{1} * y});
      const int left = static_cast<int>(std::floor(at.x)), top = static_cast<int>(std::floor(at.y));
      const double right_part = at.x - left, lower_part = at.y - top;
      float* const to = result.at(y, x);
      for (const int dy : {0, 1})
        for (const int dx : {0, 1}) {
          if (!inside(top + dy) || !inside(left + dx)) continue;
          const auto weight = static_cast<float>((dy == 0 ? 1 - lower_part : lower_part) *
                                                 (dx == 0 ? 1 - right_part : right_part));
          const float* const from = image.at(top + dy, left + dx);
          for (int c = 0; c < kRgb; ++c) to[c] += weight * from[c];
        }
    }
  return result;
}

/// As resize_bilinear does it, without rounding.
Square resized_square(const Square& image, int side) {
  std::vector<Neighbours> neighbours;
  for (int at = 0; at < side; ++at) {
    const double place =
        std::clamp((at + 0.5) * image.side / side - 0.5, 0.0, static_cast<double>(image.side - 1));
    const int first = static_cast<int>(place);
    neighbours.push_back({first, std::min(first + 1, image.side - 1), static_cast<float>(place - first)});
  }
  Square result(side);
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) {
      const Neighbours &down = neighbours[static_cast<std::size_t>(y)],
                       &across = neighbours[static_cast<std::size_t>(x)];
      for (int c = 0; c < kRgb; ++c) {
        const auto between = [&](int row) {
          const float left = image.at(row, across.first)[c], right = image.at(row, across.second)[c];
          return left + across.weight * (right - left);
        };
        const float upper = between(down.first);
        result.at(y, x)[c] = upper + down.weight * (between(down.second) - upper);
      }
    }
  return result;
}

}  // namespace

void check_heatmaps(const HeatmapSettings& settings, const std::string& layer) {
  const auto refuse = [&](const auto&... why) {
    bad_input("layer ", quoted(layer), ": heatmap_data_param.", why...);
  };
  constexpr int kLongest = 1 << 15;
  if (settings.batchsize() == 0) refuse("batchsize must be positive");
  const RangeCheck check{layer, "heatmap_data_param"};
  check("cropsize", settings.cropsize(), 1, kLongest);
  check("outsize", settings.outsize(), 1, kLongest);
  check("label_width", settings.label_width(), 1, kLongest);
  check("label_height", settings.label_height(), 1, kLongest);
  check("multfact", settings.multfact(), 1e-6, 1e6);
  check("angle_max", settings.angle_max(), 0, 360);
  if (!std::isfinite(settings.scale())) refuse("scale must be a number, not ", settings.scale());
  const auto places = places_in(settings.labelinds());
  if (!places)
    refuse("labelinds must hold places of a line's numbers from 1 on, such as \"1,2,5,6\", not ",
           quoted(settings.labelinds()));
  if (places->size() % 2 != 0)
    refuse("labelinds chooses ", places->size(), " numbers; a joint has two, x and y");
  for (auto x = places->begin(); x != places->end(); std::advance(x, 2))
    if (*x % 2 == 0 || *std::next(x) != *x + 1)
      refuse("labelinds chooses number ", *x, " of a line without the other one of its joint");
  if (settings.has_meanfile())
    refuse(
        "meanfile is not supported: it holds a mean image for each video; a Bias layer can subtract one mean "
        "of each channel");
}

/// What becomes of a record.
struct HeatmapWriter::Change {
  int width = 0;          // of the image, with what is added to a narrow one
  int left = 0, top = 0;  // of what is cut out of that, mirrored or not
  bool mirrored = false;
  bool turns = false;
  PoseTurn turn;  // of what is cut out
};

HeatmapWriter::HeatmapWriter(const HeatmapSettings& settings, const ops::RandomKey& key)
    : settings_(settings), key_(key) {}

HeatmapWriter::Change HeatmapWriter::draw(const Record& record, std::uint64_t item) const {
  const int side = static_cast<int>(settings_.cropsize());
  Change change;
  change.width = std::max(record.width, side);
  const int columns = change.width - side, rows = std::max(record.height, side) - side;
  if (!settings_.random_crop()) {
    change.left = columns / 2;
    change.top = rows / 2;
    return change;
  }
  ItemDraws draws(key_, item);
  change.mirrored = draws.next() < 0.5;
  change.left = draws.below(columns + 1);
  change.top = draws.below(rows + 1);
  const double degrees = draws.between(-settings_.angle_max(), settings_.angle_max());
  const double angle = degrees * std::numbers::pi / 180;
  change.turns = degrees != 0;
  change.turn = {double{1} * (side / 2), double{1} * (side / 2), std::cos(angle), std::sin(angle)};
  return change;
}

std::vector<float> HeatmapWriter::pixels(const Record& record, const Change& change) const {
  const bool masked = !record.label_image.pixels.empty();
  Square part(static_cast<int>(settings_.cropsize()));
  for (int y = 0; y < part.side && change.top + y < record.height; ++y)
    for (int x = 0; x < part.side; ++x) {
      const int column = change.mirrored ? change.width - 1 - change.left - x : change.left + x;
      const std::ptrdiff_t from = std::ptrdiff_t{change.top + y} * record.width + column;
      if (column >= record.width || (masked && record.label_image.pixels.data()[from] > kMasked)) continue;
      float* const to = part.at(y, x);
      for (int c = 0; c < kRgb; ++c) to[c] = record.bytes[from * kRgb + kRgb - 1 - c];
    }
  if (change.turns) part = turned_square(part, change.turn);
  const int side = static_cast<int>(settings_.outsize());
  if (side != part.side) part = resized_square(part, side);
  return std::move(part.values);
}

std::vector<double> HeatmapWriter::maps(const Record& record, const Change& change) const {
  std::vector<PosePoint> joints;
  for (std::size_t k = 0; k + 1 < record.labels.size(); k += 2) {
    const double factor = settings_.multfact();
    PosePoint at{record.labels[k] * factor, record.labels[k + 1] * factor};
    if (change.mirrored) at.x = change.width - at.x;
    at = {at.x - change.left, at.y - change.top};
    joints.push_back(change.turns ? change.turn.forth(at) : at);
  }
  if (change.mirrored && settings_.flip_joint_labels())
    for (std::size_t k = first_exchanged(settings_); k + 1 < joints.size(); k += 2)
      std::swap(joints[k], joints[k + 1]);

  const auto bells = [](double centre, std::uint32_t length) {
    std::vector<double> values;
    for (std::uint32_t at = 0; at < length; ++at)
      values.push_back(std::exp(-(at - centre) * (at - centre) / (2 * kMapSigma * kMapSigma)));
    return values;
  };
  const double height = 4 / (kMapSigma * std::sqrt(2 * std::numbers::pi));
  std::vector<double> values;
  for (const PosePoint& joint : joints) {
    const std::vector<double> across =
        bells(joint.x * settings_.label_width() / settings_.cropsize(), settings_.label_width());
    for (const double down :
         bells(joint.y * settings_.label_height() / settings_.cropsize(), settings_.label_height()))
      for (const double value : across) values.push_back(1 + height * down * value);
  }
  return values;
}

std::vector<Shape> HeatmapWriter::shapes(const Record& record, std::uint64_t) const {
  const Shape maps = heatmap_maps(settings_, 1, static_cast<std::int64_t>(record.labels.size() / 2));
  return {Shape{kRgb, settings_.outsize(), settings_.outsize()}, Shape{maps[1], maps[2], maps[3]}};
}

void HeatmapWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  const Change change = draw(record, item);
  const std::vector<float> image = pixels(record, change);
  const std::vector<double> drawn = maps(record, change);
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    T* const values = static_cast<T*>(place.outputs[0]);
    const T scale = static_cast<T>(settings_.scale());
    const std::size_t plane = image.size() / kRgb;
    for (std::size_t at = 0; at < plane; ++at)
      for (std::size_t c = 0; c < kRgb; ++c)
        values[place.layout == Layout::channels_last ? at * kRgb + c : c * plane + at] =
            static_cast<T>(image[at * kRgb + c]) * scale;
    std::transform(drawn.begin(), drawn.end(), static_cast<T*>(place.outputs[1]),
                   [](double value) { return static_cast<T>(value); });
  });
}

std::shared_ptr<RecordSource> open_heatmap_list(const HeatmapSettings& settings,
                                                const ops::RandomKey& starts) {
  return std::make_shared<HeatmapSource>(settings, starts);
}

Shape heatmap_images(const HeatmapSettings& settings) {
  if (settings.batchsize() == 0 || settings.outsize() == 0) return {};
  return {settings.batchsize(), kRgb, settings.outsize(), settings.outsize()};
}

Shape heatmap_maps(const HeatmapSettings& settings, std::int64_t items, std::int64_t joints) {
  return {items, joints, settings.label_height(), settings.label_width()};
}

std::int64_t chosen_joints(const HeatmapSettings& settings) {
  const auto places = places_in(settings.labelinds());
  return places ? static_cast<std::int64_t>(places->size() / 2) : 0;
}

}  // namespace banyan::data
