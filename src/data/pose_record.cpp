// The plane of numbers in a record, as genLMDB.py of both projects writes it; rows have the image's width in
// bytes: 0 the data set's name; 1 the image's height and width; 2 bytes: is it for validation, the number of
// other people, the person's number; then further counters; 3 x and y of the person; 4 its size; 5 to 7 x, y
// and visibility of its joints. If there are other people: x and y of each, a row for each; a row of all
// their sizes; three rows of joints for each. Numbers are floats, coordinates begin with 1.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "banyan/base/error.hpp"
#include "banyan/data/poses.hpp"

namespace banyan::data {
namespace {

constexpr int kFirstOther = 8;  // row

class PoseRows {
 public:
  explicit PoseRows(const Record& record)
      : first_(record.bytes + 3 * std::ptrdiff_t{record.height} * record.width), width_(record.width) {}
  int byte(int row, int at) const { return first_[std::ptrdiff_t{row} * width_ + at]; }
  /// The number `at` in the row.
  float number(int row, int at) const {
    float value = 0;
    std::memcpy(&value, first_ + std::ptrdiff_t{row} * width_ + std::ptrdiff_t{at} * 4, sizeof value);
    return value;
  }

 private:
  const std::uint8_t* first_;
  int width_;
};

PosePoint pose_point(float x, float y, const char* what) {
  constexpr float kFarthestAway = 1 << 20;
  if (!(std::abs(x) <= kFarthestAway && std::abs(y) <= kFarthestAway))
    bad_input("the record's ", what, " is at (", x, ", ", y, "); expected pixels");
  return {double{x} - 1, double{y} - 1};
}

/// Of three rows.
Pose read_pose(const PoseRows& rows, int row, int joints, int height, int width) {
  Pose pose;
  for (int k = 0; k < joints; ++k) {
    constexpr float kMissing = 3;  // 0 is hidden, 1 is visible: both are drawn
    const PosePoint at = pose_point(rows.number(row, k), rows.number(row + 1, k), "joint");
    const bool inside = at.x >= 0 && at.y >= 0 && at.x < width && at.y < height;
    pose.push_back({at, inside && rows.number(row + 2, k) != kMissing});
  }
  return pose;
}

}  // namespace

PoseRecord read_pose_record(const Record& record, int joints) {
  if (record.encoded || record.bytes == nullptr || record.interleaved || record.channels < 4)
    bad_input(
        "the record is no image of people with a plane of numbers after its three colours, each in 8 bits: ",
        record.channels, record.channels == 1 ? " channel" : " channels",
        record.encoded            ? ", an image file"
        : record.bytes == nullptr ? " of float_data"
                                  : "");
  constexpr int kLeastWidth = 15;  // of the counters
  const int needed = std::max(4 * joints, kLeastWidth);
  if (record.width < needed || record.height < kFirstOther)
    bad_input("the record's image is ", record.height, " x ", record.width, ", too small for ", joints,
              " joints, which need ", kFirstOther, " rows of ", needed);
  const PoseRows rows(record);
  const float height = rows.number(1, 0), width = rows.number(1, 1);
  if (!(height >= 1 && height <= static_cast<float>(record.height) && width >= 1 &&
        width <= static_cast<float>(record.width)))
    bad_input("the record says that its image is ", height, " x ", width, ", but holds one of ",
              record.height, " x ", record.width);
  const int others = rows.byte(2, 1);
  if (others > 0 && (record.height < kFirstOther + 1 + 4 * others || record.width < 4 * others))
    bad_input("the record says that there are ", others, " other people, for whom its image, ", record.height,
              " x ", record.width, ", has no rows");
  PoseRecord read;
  read.position = pose_point(rows.number(3, 0), rows.number(3, 1), "person");
  read.size = rows.number(4, 0);
  if (!(read.size > 0 && std::isfinite(read.size)))
    bad_input("the record's person has the size ", read.size, "; expected more than 0");
  const auto pose_at = [&](int row) {
    return read_pose(rows, row, joints, static_cast<int>(height), static_cast<int>(width));
  };
  read.people.push_back(pose_at(5));
  for (int k = 0; k < others; ++k) read.people.push_back(pose_at(kFirstOther + 1 + others + 3 * k));
  return read;
}

}  // namespace banyan::data
