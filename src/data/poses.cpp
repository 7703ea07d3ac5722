#include "banyan/data/poses.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "data/distortion.hpp"
#include "data/pose_drawing.hpp"
#include "data/range_check.hpp"
#include "data/resampling.hpp"

namespace banyan::data {
namespace {

constexpr int kColours = 3;                                          // colours
constexpr int kMaskPlane = 4;                                        // of records
constexpr std::array<std::uint8_t, 4> kOutside{128, 128, 128, 255};  // B, G, R, mask

/// The three colours and, of records with one, the mask.
Image stored_pixels(const Record& record, bool gray) {
  const bool masked = record.channels > kMaskPlane;
  Image image{masked ? kColours + 1 : kColours, record.height, record.width, {}};
  const std::ptrdiff_t plane = std::ptrdiff_t{record.height} * record.width;
  image.pixels.reserve(static_cast<std::size_t>(plane * image.channels));
  for (std::ptrdiff_t at = 0; at < plane; ++at) {
    std::array<std::uint8_t, 3> colours{};
    for (std::ptrdiff_t c = 0; c < kColours; ++c)
      colours[static_cast<std::size_t>(c)] = record.bytes[c * plane + at];
    if (gray)
      colours.fill(static_cast<std::uint8_t>(
          std::lround(0.114 * colours[0] + 0.587 * colours[1] + 0.299 * colours[2])));
    image.pixels.insert(image.pixels.end(), colours.begin(), colours.end());
    if (masked) image.pixels.push_back(record.bytes[kMaskPlane * plane + at]);
  }
  return image;
}

/// Four weights of cubic interpolation (a = -0.75) at `fraction` after the second.
std::array<double, 4> cubic_weights(double fraction) {
  constexpr double kA = -0.75;
  const auto near = [](double x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const auto far = [](double x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  return {far(1 + fraction), near(fraction), near(1 - fraction), far(2 - fraction)};
}

/// The image at a point between its pixels, whose outermost ones go on for half a pixel; further out it is
/// kOutside.
void interpolate(const Image& image, const PosePoint& at, std::uint8_t* to) {
  if (!(at.x >= -0.5 && at.y >= -0.5 && at.x <= image.width - 0.5 && at.y <= image.height - 0.5)) {
    std::copy_n(kOutside.begin(), image.channels, to);
    return;
  }
  const double left = std::floor(at.x), top = std::floor(at.y);
  const std::array<double, 4> across = cubic_weights(at.x - left), down = cubic_weights(at.y - top);
  const auto channels = static_cast<std::size_t>(image.channels);
  std::array<double, 4> sums{};
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int y = std::clamp(static_cast<int>(top) - 1 + i, 0, image.height - 1);
      const int x = std::clamp(static_cast<int>(left) - 1 + j, 0, image.width - 1);
      const std::uint8_t* pixel =
          image.pixels.data() + (std::ptrdiff_t{y} * image.width + x) * image.channels;
      const double weight = down[static_cast<std::size_t>(i)] * across[static_cast<std::size_t>(j)];
      for (std::size_t c = 0; c < channels; ++c) sums[c] += weight * pixel[c];
    }
  for (std::size_t c = 0; c < channels; ++c)
    to[c] = static_cast<std::uint8_t>(std::lround(std::clamp(sums[c], 0.0, 255.0)));
}

bool is_limbed(const caffe::CPMTransformationParameter& settings) {
  const std::optional<Skeleton> skeleton = skeleton_of(settings);
  return skeleton && !skeleton->limbs.empty();
}

}  // namespace

void check_poses(const caffe::CPMTransformationParameter& settings, const std::string& layer) {
  const auto refuse = [&](const auto&... why) {
    bad_input("layer ", quoted(layer), ": cpm_transform_param.", why...);
  };
  const std::optional<Skeleton> skeleton = skeleton_of(settings);
  if (!skeleton && settings.transform_body_joint())
    refuse("num_parts must be 56 (COCO), 43 (MPI) or 14 (single persons), not ", settings.num_parts(),
           "; with transform_body_joint: false it is the number of a person's joints, as they are stored");
  if (!skeleton)
    refuse("num_parts must be from 1 to ", kMostJoints,
           ", and neither 56 nor 43, without transform_body_joint, not ", settings.num_parts());
  if (settings.do_clahe()) refuse("do_clahe is not supported: equalize the images before they are stored");
  if (settings.aug_way() != "rand") refuse("aug_way must be \"rand\", not ", quoted(settings.aug_way()));
  if (settings.scale() != 1 || settings.has_mean_file() || settings.mean_value_size() > 0)
    refuse("scale, mean_file and mean_value are not supported: pixels become (value - 128) / 256");
  if (settings.mirror()) refuse("mirror is not supported: flip_prob is the probability of a mirror image");
  if (settings.crop_size() > 0) refuse("crop_size is not supported: write crop_size_x and crop_size_y");
  constexpr double kLeast = 1e-6;
  constexpr int kLongest = 1 << 15;
  const RangeCheck check{layer, "cpm_transform_param"};
  check("stride", settings.stride(), 1, kLongest);
  check("crop_size_x", settings.crop_size_x(), settings.stride(), kLongest);
  check("crop_size_y", settings.crop_size_y(), settings.stride(), kLongest);
  check("flip_prob", settings.flip_prob(), 0, 1);
  check("scale_prob", settings.scale_prob(), 0, 1);
  check("scale_min", settings.scale_min(), kLeast);
  check("scale_max", settings.scale_max(), settings.scale_min(), 1e6);
  check("target_dist", settings.target_dist(), kLeast, 1e6);
  check("max_rotate_degree", settings.max_rotate_degree(), 0, 360);
  check("center_perterb_max", settings.center_perterb_max(), 0, kLongest);
  check("sigma", settings.sigma(), kLeast, 1e6);
  check("sigma_center", settings.sigma_center(), kLeast, 1e6);
  check("gray", settings.gray(), 0, 1);
  check("np_in_lmdb", settings.np_in_lmdb(), skeleton->least_joints, kMostJoints);
}

/// What becomes of a record; nothing in tests.
struct PoseWriter::Change {
  double factor = 1;
  PoseTurn turn;          // of the scaled image
  int left = 0, top = 0;  // of what is cut out of that
  int height = 0, width = 0;
  bool mirrored = false;

  PosePoint moved(const PosePoint& at) const {
    PosePoint to = turn.forth({at.x * factor, at.y * factor});
    to = {to.x - left, to.y - top};
    if (mirrored) to.x = width - 1 - to.x;
    return to;
  }
  /// The point of the stored image that is seen at a pixel of the result. Pixels' areas are scaled, as
  /// everywhere; points are only multiplied, as in OpenPose.
  PosePoint source(int x, int y) const {
    const PosePoint at = turn.back({double{1} * left + (mirrored ? width - 1 - x : x), double{1} * top + y});
    return {(at.x + 0.5) / factor - 0.5, (at.y + 0.5) / factor - 0.5};
  }
};

PoseWriter::PoseWriter(const caffe::CPMTransformationParameter& settings, bool training,
                       const ops::RandomKey& key)
    : settings_(settings), training_(training), key_(key) {}

PoseWriter::Change PoseWriter::draw(const PoseRecord& person, const Record& record,
                                    std::uint64_t item) const {
  Change change;
  change.height = record.height;
  change.width = record.width;
  if (!training_) return change;
  ItemDraws draws(key_, item);
  const bool scales = draws.next() < settings_.scale_prob();
  const double multiplier = draws.between(settings_.scale_min(), settings_.scale_max());
  const double degrees = draws.between(-settings_.max_rotate_degree(), settings_.max_rotate_degree());
  const auto shift = [&] {
    return static_cast<int>(draws.between(-settings_.center_perterb_max(), settings_.center_perterb_max()));
  };
  const int right = shift(), down = shift();
  change.mirrored = draws.next() < settings_.flip_prob();
  change.factor = settings_.target_dist() / person.size * (scales ? multiplier : 1);
  const double angle = degrees * std::acos(-1.0) / 180;
  change.turn = {record.width * change.factor / 2, record.height * change.factor / 2, std::cos(angle),
                 std::sin(angle)};
  change.height = static_cast<int>(settings_.crop_size_y());
  change.width = static_cast<int>(settings_.crop_size_x());
  const PosePoint middle =
      change.turn.forth({person.position.x * change.factor, person.position.y * change.factor});
  const auto begin = [](double at, int length) {
    constexpr double kFar = 1 << 28;  // far outside of the image
    return static_cast<int>(std::lrint(std::clamp(at, -kFar, kFar))) - length / 2;
  };
  change.left = begin(middle.x + right, change.width);
  change.top = begin(middle.y + down, change.height);
  return change;
}

Image PoseWriter::pixels(const Record& record, const Change& change) const {
  Image stored = stored_pixels(record, settings_.gray() == 1);
  if (!training_) return stored;
  Image part{stored.channels, change.height, change.width, {}};
  part.pixels.resize(static_cast<std::size_t>(part.channels) * static_cast<std::size_t>(part.height) *
                     static_cast<std::size_t>(part.width));
  std::uint8_t* to = part.pixels.data();
  for (int y = 0; y < part.height; ++y)
    for (int x = 0; x < part.width; ++x, to += part.channels) interpolate(stored, change.source(x, y), to);
  return part;
}

std::vector<Shape> PoseWriter::shapes(const Record& record, std::uint64_t) const {
  const bool limbed = is_limbed(settings_);
  read_pose_record(record, static_cast<int>(settings_.np_in_lmdb()));
  if (limbed ? record.channels < 5 || record.channels > 6 : record.channels != 4)
    bad_input("the record has ", record.channels, " channels; with num_parts: ", settings_.num_parts(),
              limbed ? " there are 5 or 6: three colours, numbers, and one or two masks"
                     : " there are 4: three colours, and numbers");
  Shape images{1, record.channels, record.height, record.width};
  if (training_) images = {1, record.channels, settings_.crop_size_y(), settings_.crop_size_x()};
  const Shape maps = pose_maps(settings_, images);
  if (maps.count() == 0)
    bad_input("the image (", record.height, " x ", record.width, ") is smaller than stride, ",
              settings_.stride());
  return {Shape{images[1], images[2], images[3]}, Shape{maps[1], maps[2], maps[3]}};
}

void PoseWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  const Skeleton skeleton = skeleton_of(settings_).value();
  const PoseRecord read = read_pose_record(record, static_cast<int>(settings_.np_in_lmdb()));
  const Change change = draw(read, record, item);
  const Image image = pixels(record, change);
  std::vector<Pose> people;
  for (const Pose& stored : read.people) {
    Pose pose = drawn_joints(skeleton, stored);
    for (PoseJoint& joint : pose) joint.at = change.moved(joint.at);
    if (change.mirrored) exchange_sides(skeleton, pose);
    people.push_back(std::move(pose));
  }

  const int stride = static_cast<int>(settings_.stride());
  const PoseGrid grid{image.height / stride, image.width / stride, stride};
  const std::size_t plane = static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width);
  std::vector<float> further, weights;  // after the colours; for limbs
  if (skeleton.limbs.empty()) {
    further.resize(plane);
    draw_gaussian(change.moved(read.position), {image.height, image.width, 1}, settings_.sigma_center(),
                  further.data());
  } else {
    Image mask{1, image.height, image.width, {}}, small;
    for (std::size_t at = 0; at < plane; ++at) mask.pixels.push_back(image.pixels[at * 4 + 3]);
    resize_image(mask, grid.height, grid.width, caffe::ResizeParameter::CUBIC, small);
    for (const std::uint8_t value : small.pixels) weights.push_back(static_cast<float>(value) / 255);
  }
  std::vector<float> maps(static_cast<std::size_t>(2 * (skeleton.parts() + 1) * grid.cells()));
  draw_poses(skeleton, people, grid, settings_.sigma(), weights, maps);

  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    T* const values = static_cast<T*>(place.outputs[0]);
    const auto channels = static_cast<std::size_t>(record.channels);
    for (std::size_t at = 0; at < plane; ++at)
      for (std::size_t c = 0; c < channels; ++c) {
        T value = 0;
        if (c < std::size_t{kColours})
          value = (static_cast<T>(image.pixels[at * static_cast<std::size_t>(image.channels) + c]) - T{128}) /
                  256;
        else if (!further.empty())
          value = static_cast<T>(further[at]);
        values[place.layout == Layout::channels_last ? at * channels + c : c * plane + at] = value;
      }
    std::copy(maps.begin(), maps.end(), static_cast<T*>(place.outputs[1]));
  });
}

Shape pose_images(const caffe::CPMTransformationParameter& settings, std::int64_t items) {
  return {items, is_limbed(settings) ? 6 : 4, settings.crop_size_y(), settings.crop_size_x()};
}

Shape pose_maps(const caffe::CPMTransformationParameter& settings, const Shape& images) {
  const std::int64_t stride = std::max<std::int64_t>(settings.stride(), 1);
  return {images[0], 2 * (std::int64_t{settings.num_parts()} + 1), images[2] / stride, images[3] / stride};
}

}  // namespace banyan::data
