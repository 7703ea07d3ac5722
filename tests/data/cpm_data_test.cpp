// CPMData (OpenPose, convolutional pose machines): images of people and maps of their joints.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "banyan/data/poses.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;

struct DrawnJoint {
  float x = -1, y = -1, visible = 1;  // from 0; outside: unknown
};
using DrawnPose = std::vector<DrawnJoint>;

/// A record as genLMDB.py writes it.
struct PosedImage {
  int channels = 6, height = 40, width = 72;
  float x = 36, y = 20, size = 1;  // of the person, from 0
  std::vector<DrawnPose> people{DrawnPose(17)};
  std::vector<std::uint8_t> pixels;  // of the colours and the masks, at their places

  explicit PosedImage(int planes = 6, int joints = 17, int rows = 40)
      : channels(planes),
        height(rows),
        people{DrawnPose(static_cast<std::size_t>(joints))},
        pixels(static_cast<std::size_t>(planes * rows * 72), 128) {
    for (int c = 0; c < 3; ++c)
      for (int row = 0; row < height; ++row)
        for (int column = 0; column < width; ++column)
          pixel(c, row, column) = static_cast<std::uint8_t>(50 * c + row + column);
    for (int c = 4; c < channels; ++c)
      for (int row = 0; row < height; ++row)
        for (int column = 0; column < width; ++column) pixel(c, row, column) = 255;
  }
  std::uint8_t& pixel(int c, int row, int column) {
    return pixels[static_cast<std::size_t>((c * height + row) * width + column)];
  }
  void number(int row, int at, float value) { std::memcpy(&pixel(3, row, 4 * at), &value, 4); }

  std::string bytes() {
    for (int row = 0; row < height; ++row)
      for (int column = 0; column < width; ++column) pixel(3, row, column) = 0;
    std::memcpy(&pixel(3, 0, 0), "COCO", 4);
    number(1, 0, static_cast<float>(height));
    number(1, 1, static_cast<float>(width));
    const int others = static_cast<int>(people.size()) - 1;
    pixel(3, 2, 1) = static_cast<std::uint8_t>(others);
    number(3, 0, x + 1);
    number(3, 1, y + 1);
    number(4, 0, size);
    for (int k = 0; k <= others; ++k)
      for (int joint = 0; joint < static_cast<int>(people[0].size()); ++joint) {
        const DrawnJoint& at = people[static_cast<std::size_t>(k)][static_cast<std::size_t>(joint)];
        const int row = k == 0 ? 5 : 9 + others + 3 * (k - 1);
        number(row, joint, at.x + 1);
        number(row + 1, joint, at.y + 1);
        number(row + 2, joint, at.visible);
      }
    return raw_datum(channels, height, width, pixels.data(), 0);
  }
  /// Left and right exchanged, in the picture and in the names of joints.
  PosedImage mirrored() const {
    PosedImage other = *this;
    for (int c = 0; c < channels; ++c)
      for (int row = 0; row < height; ++row) {
        const auto begin = other.pixels.begin() + std::ptrdiff_t{c * height + row} * width;
        std::reverse(begin, begin + width);
      }
    const auto reflect = [&](float at) { return static_cast<float>(width) - 1 - at; };
    other.x = reflect(x);
    for (DrawnPose& pose : other.people) {
      for (DrawnJoint& joint : pose)
        if (joint.x >= 0) joint.x = reflect(joint.x);
      for (std::size_t left = 1; left < 17; left += 2) std::swap(pose[left], pose[left + 1]);
    }
    return other;
  }
};

/// All of COCO's joints at whole pixels of the image.
DrawnPose spread_pose(int first) {
  DrawnPose pose;
  for (int k = 0; k < 17; ++k)
    pose.push_back(
        {static_cast<float>(20 + (first + 7 * k) % 31), static_cast<float>(5 + (first + 5 * k) % 29)});
  return pose;
}

const char* const kStill =
    "scale_prob: 0 max_rotate_degree: 0 center_perterb_max: 0 flip_prob: 0 num_parts: 56 np_in_lmdb: 17 ";

class CpmData : public FolderTest {
 protected:
  void put(const std::vector<std::string>& records) {
    db_ = path("db" + std::to_string(++count_));  // the one before may be open
    LmdbWriter writer(db_);
    for (std::size_t i = 0; i < records.size(); ++i) writer.put(key_of(i), records[i]);
    writer.close();
  }
  std::string text(const std::string& settings, int batch = 1, const std::string& more = "") {
    return "name: 'p' type: 'CPMData' top: 'data' top: 'label' data_param { source: '" + db_ +
           "' batch_size: " + std::to_string(batch) + " } cpm_transform_param { " + settings + " } " + more;
  }
  std::string refusal(const std::string& settings, const std::string& more = "") {
    return bad_input_of([&] { Replica(text(settings, 1, more)).step(); });
  }
  std::string refusal_of(const std::string& record, const std::string& settings) {
    put({record});
    return refusal(settings);
  }
  std::string refusal_of(const std::string& record) { return refusal_of(record, kStill); }

 private:
  std::string db_;
  int count_ = 0;
};

/// Value `map`, `row`, `column` of the second output's only item.
struct Maps {
  std::vector<double> values;
  std::size_t height, width;
  explicit Maps(Replica& replica)
      : values(replica.values(1)),
        height(static_cast<std::size_t>(replica.outputs[1]->shape[2])),
        width(static_cast<std::size_t>(replica.outputs[1]->shape[3])) {}
  double at(std::size_t map, std::size_t row, std::size_t column) const {
    return values.at((map * height + row) * width + column);
  }
};

double bell(double x, double y, double sigma) { return std::exp(-(x * x + y * y) / (2 * sigma * sigma)); }

/// Joints in the order of the net's maps: 1 neck, 2 right shoulder, 5 left shoulder, 3 right elbow.
TEST_F(CpmData, DrawsJointsLimbsAndWeights) {
  PosedImage image;
  DrawnPose& person = image.people[0];
  person[5] = {48, 12};     // left shoulder
  person[6] = {16, 12, 0};  // right shoulder, hidden
  person[8] = {16, 36};     // right elbow
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 72; ++column) image.pixel(4, row, column) = 0;
  put({image.bytes()});
  Replica replica(text("num_parts: 56 np_in_lmdb: 17 stride: 8 sigma: 7"), 0, 1, Phase::test);
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 6, 40, 72}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 114, 5, 9}));
  const std::vector<double> pixels = replica.values(0);
  EXPECT_EQ(pixels[2 * 2880 + 3 * 72 + 5], (108 - 128) / 256.0);
  for (std::size_t at = 3 * 2880; at < pixels.size(); ++at) ASSERT_EQ(pixels[at], 0);

  const Maps maps(replica);
  for (std::size_t map = 0; map < 57; ++map) {  // cubic interpolation does not reach beyond two pixels
    EXPECT_EQ(maps.at(map, 0, 3), 0);
    EXPECT_EQ(maps.at(map, 4, 3), 1);
  }
  // Cells' middles are at 3.5 + 8 k.
  constexpr std::size_t kJoints = 57 + 38, kBackground = 113;
  EXPECT_NEAR(maps.at(kJoints + 2, 1, 2), bell(3.5, -0.5, 7), 1e-6);
  EXPECT_NEAR(maps.at(kJoints + 5, 1, 5), bell(-4.5, -0.5, 7), 1e-6);
  EXPECT_NEAR(maps.at(kJoints + 1, 1, 3), bell(-4.5, -0.5, 7), 1e-6);  // at (32, 12)
  EXPECT_NEAR(maps.at(kJoints + 3, 4, 2), bell(3.5, -0.5, 7), 1e-6);
  EXPECT_EQ(maps.at(kJoints + 2, 1, 6), 0);  // less than 0.01
  for (const std::size_t unknown : {0, 4, 6, 8, 13, 14, 17})
    for (std::size_t row = 0; row < 5; ++row)
      for (std::size_t column = 0; column < 9; ++column)
        ASSERT_EQ(maps.at(kJoints + unknown, row, column), 0);
  EXPECT_NEAR(maps.at(kBackground, 1, 2), 1 - bell(3.5, -0.5, 7), 1e-6);
  EXPECT_EQ(maps.at(kBackground, 0, 8), 1);

  // From the neck, (4, 1.5) in cells, to the shoulders: limbs 6 and 10; from the shoulder down: limb 7.
  const auto limb = [&](std::size_t k, std::size_t row, std::size_t column) {
    return std::pair{maps.at(57 + 2 * k, row, column), maps.at(58 + 2 * k, row, column)};
  };
  const std::pair none{0.0, 0.0};
  EXPECT_EQ(limb(6, 1, 2), (std::pair{-1.0, 0.0}));
  EXPECT_EQ(limb(6, 2, 3), (std::pair{-1.0, 0.0}));
  EXPECT_EQ(limb(6, 0, 3), none);  // a cell and a half away
  EXPECT_EQ(limb(6, 1, 5), none);
  EXPECT_EQ(limb(10, 1, 5), (std::pair{1.0, 0.0}));
  EXPECT_EQ(limb(7, 3, 1), (std::pair{0.0, 1.0}));
  EXPECT_EQ(limb(7, 3, 4), none);
  EXPECT_EQ(limb(11, 3, 5), none);  // the left elbow is unknown
}

TEST_F(CpmData, SeveralPeopleShareTheMaps) {
  PosedImage image;
  image.people.assign(3, DrawnPose(17));
  image.people[0][0] = {16, 16};
  image.people[1][0] = {20, 16};
  image.people[2][0] = {60, 30, 0};
  image.people[1][2] = {20, 32};  // the right eye, part 14
  put({image.bytes()});
  Replica replica(text("num_parts: 56 np_in_lmdb: 17 stride: 4 sigma: 6"), 0, 1, Phase::test);
  replica.step();
  const Maps maps(replica);
  // Sums end at 1.
  EXPECT_EQ(maps.at(95, 4, 4), std::min(1.0, bell(1.5, 1.5, 6) + bell(-2.5, 1.5, 6)));
  EXPECT_NEAR(maps.at(95, 2, 2), bell(-6.5, -6.5, 6) + bell(-10.5, -6.5, 6), 1e-6);
  EXPECT_NEAR(maps.at(95, 7, 14), bell(-2.5, -0.5, 6), 1e-6);
  EXPECT_NEAR(maps.at(113, 7, 14), 1 - bell(-2.5, -0.5, 6), 1e-6);
  EXPECT_EQ(maps.at(57 + 2 * 15 + 1, 6, 5), 1);  // from nose to eye
  EXPECT_EQ(maps.at(57 + 2 * 15 + 1, 6, 15), 0);
}

TEST_F(CpmData, CutsAroundThePersonAndBeyondTheImage) {
  PosedImage image;
  image.x = 8, image.y = 30;
  image.people[0][0] = {10, 33};
  for (int row = 0; row < 40; ++row)
    for (int column = 0; column < 72; ++column) image.pixel(4, row, column) = 0;
  put({image.bytes()});
  for (const bool channels_last : {false, true}) {
    Replica replica(text(std::string(kStill) + "stride: 8 crop_size_x: 32 crop_size_y: 24 sigma: 5"), 0, 1,
                    Phase::train, channels_last, DType::f64);
    replica.step();
    EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 6, 24, 32}));
    EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 114, 3, 4}));
    const std::vector<double> values = replica.values(0);
    // The first pixel is (-8, 18).
    const auto value = [&](std::size_t c, std::size_t row, std::size_t column) {
      return values[(c * 24 + row) * 32 + column];
    };
    EXPECT_EQ(value(1, 5, 7), 0);
    EXPECT_EQ(value(1, 5, 8), (50 + 23 - 128) / 256.0);
    EXPECT_EQ(value(1, 21, 31), (50 + 39 + 23 - 128) / 256.0);
    EXPECT_EQ(value(1, 22, 31), 0);
    const Maps maps(replica);
    EXPECT_EQ(maps.at(0, 0, 0), 1);  // outside
    EXPECT_EQ(maps.at(56, 0, 3), 0);
    EXPECT_NEAR(maps.at(95, 1, 2), bell(19.5 - 18, 11.5 - 15, 5), 1e-6);
  }
}

/// An image twice as large: where the person's size is half of target_dist.
TEST_F(CpmData, ScalesThePersonToTheSizeThatIsWanted) {
  PosedImage image;
  image.size = 0.5;
  image.people[0][0] = {30, 22};
  put({image.bytes()});
  Replica replica(text(std::string(kStill) + "stride: 1 crop_size_x: 31 crop_size_y: 31 sigma: 3"));
  replica.step();
  const std::vector<double> values = replica.values(0);
  // The first pixel is (57, 25) of the larger image, where each step is half a value.
  for (std::size_t row = 0; row < 31; ++row)
    for (std::size_t column = 0; column < 31; ++column) {
      const double stored =
          (25.5 + static_cast<double>(row)) / 2 + (57.5 + static_cast<double>(column)) / 2 - 1;
      ASSERT_NEAR(values[row * 31 + column] * 256 + 128, stored, 0.6) << row << " " << column;
    }
  EXPECT_NEAR(Maps(replica).at(95, 19, 3), 1, 1e-6);  // (60, 44)
}

TEST_F(CpmData, AMirrorImageIsThatOfTheMirroredPerson) {
  PosedImage image;
  image.people = {spread_pose(0), spread_pose(13)};
  image.people[0][9].x = -1;
  image.x = 30;
  for (int row = 0; row < 40; ++row)
    for (int column = 0; column < 40; ++column)
      image.pixel(4, row, column) = static_cast<std::uint8_t>(6 * column);
  put({image.bytes()});
  const std::string size = " stride: 3 crop_size_x: 33 crop_size_y: 33 ";
  std::string flipped = kStill;
  flipped.replace(flipped.find("flip_prob: 0"), 12, "flip_prob: 1");
  Replica mirrored(text(flipped + size));
  mirrored.step();
  put({image.mirrored().bytes()});
  Replica other(text(kStill + size)), changed(text(flipped + size));
  for (Replica* replica : {&other, &changed}) replica->step();
  EXPECT_EQ(mirrored.values(0), other.values(0));
  EXPECT_EQ(mirrored.values(1), other.values(1));
  EXPECT_NE(mirrored.values(1), changed.values(1));
}

/// A bright spot stays under its joint.
TEST_F(CpmData, TurnsImagesAndJointsTogether) {
  PosedImage image(6, 17, 72);
  image.x = image.y = 36;
  image.people[0][0] = {50, 40};
  for (int row = 0; row < 72; ++row)
    for (int column = 0; column < 72; ++column)
      image.pixel(0, row, column) =
          static_cast<std::uint8_t>(128 + std::lround(120 * bell(column - 50, row - 40, 3)));
  put({image.bytes()});
  std::string settings = kStill;
  settings.replace(settings.find("max_rotate_degree: 0"), 20, "max_rotate_degree: 180");
  Replica replica(text(settings + "stride: 1 crop_size_x: 64 crop_size_y: 64 sigma: 3", 20));
  replica.step();
  const std::vector<double> values = replica.values(0), maps = replica.values(1);
  std::set<long> places;
  for (std::size_t item = 0; item < 20; ++item) {
    const auto middle = [&](const std::vector<double>& from, std::size_t begin) {
      double sum = 0, x = 0, y = 0;
      for (std::size_t at = 0; at < 64 * 64; ++at) {
        const double value = from[begin + at];
        sum += value, x += value * static_cast<double>(at % 64), y += value * static_cast<double>(at / 64);
      }
      return std::pair{x / sum, y / sum};
    };
    const auto [x, y] = middle(values, item * 6 * 4096);
    const auto [joint_x, joint_y] = middle(maps, (item * 114 + 95) * 4096);
    EXPECT_NEAR(x, joint_x, 0.1);
    EXPECT_NEAR(y, joint_y, 0.1);
    EXPECT_NEAR(std::hypot(x - 32, y - 32), std::hypot(14, 4), 1);
    places.insert(std::lround(x));
  }
  EXPECT_GE(places.size(), 8u);
}

TEST_F(CpmData, DrawsSizesPlacesAndMirrorImages) {
  PosedImage image;
  image.people[0][0] = {36, 20};
  put({image.bytes()});
  Replica replica(
      text("max_rotate_degree: 0 center_perterb_max: 10 num_parts: 56 np_in_lmdb: 17 stride: 1 "
           "crop_size_x: 33 crop_size_y: 33 sigma: 2 scale_prob: 1 scale_min: 0.5 scale_max: 2",
           60));
  replica.step();
  const std::vector<double> values = replica.values(0), maps = replica.values(1);
  std::set<std::ptrdiff_t> places;
  std::set<bool> rises;
  for (std::size_t item = 0; item < 60; ++item) {
    const auto begin = maps.begin() + static_cast<std::ptrdiff_t>((item * 114 + 95) * 33 * 33);
    const std::ptrdiff_t place = std::max_element(begin, begin + std::ptrdiff_t{33 * 33}) - begin;
    EXPECT_LE(std::abs(place % 33 - 16), 11);
    EXPECT_LE(std::abs(place / 33 - 16), 11);
    places.insert(place);
    const double* row = values.data() + item * 6 * 33 * 33 + 16 * 33;
    rises.insert(row[20] > row[12]);
  }
  EXPECT_GE(places.size(), 40u);
  EXPECT_EQ(rises.size(), 2u);
}

/// Convolutional pose machines: the person's joints, then everyone's, and where the person is.
TEST_F(CpmData, DrawsSinglePersons) {
  PosedImage image(4, 16);
  image.x = 30, image.y = 25;
  image.people.assign(2, DrawnPose(16));
  image.people[0][9] = {30, 10};  // the head's top, part 0
  image.people[1][9] = {60, 10};
  image.people[1][5] = {60, 38};  // the left ankle, part 13
  put({image.bytes()});
  Replica replica(text("num_parts: 14 stride: 4 sigma: 4 sigma_center: 5"), 0, 1, Phase::test);
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 4, 40, 72}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 30, 10, 18}));
  const std::vector<double> values = replica.values(0);
  EXPECT_EQ(values[3 * 2880 + 25 * 72 + 30], 1);
  EXPECT_NEAR(values[3 * 2880 + 22 * 72 + 34], bell(4, 3, 5), 1e-6);
  const Maps maps(replica);
  EXPECT_NEAR(maps.at(0, 2, 7), bell(-0.5, -0.5, 4), 1e-6);
  EXPECT_EQ(maps.at(0, 2, 15), 0);
  EXPECT_NEAR(maps.at(14, 2, 7), 1 - bell(-0.5, -0.5, 4), 1e-6);
  EXPECT_EQ(maps.at(14, 2, 15), 1);
  EXPECT_NEAR(maps.at(15, 2, 7), bell(-0.5, -0.5, 4), 1e-6);
  EXPECT_NEAR(maps.at(15, 2, 15), bell(1.5, -0.5, 4), 1e-6);
  EXPECT_NEAR(maps.at(15 + 13, 9, 15), bell(1.5, -0.5, 4), 1e-6);
  EXPECT_NEAR(maps.at(29, 9, 15), 1 - bell(1.5, -0.5, 4), 1e-6);
}

/// So many joints as there are, and none of them on the other side in a mirror image.
TEST_F(CpmData, DrawsJointsAsTheyAreStored) {
  PosedImage image(4, 17);
  image.x = 30, image.y = 25;
  image.people[0][2] = {30, 10};
  image.people[0][16] = {60, 38};
  put({image.bytes()});
  const std::string joints = "transform_body_joint: false num_parts: 17 np_in_lmdb: 17 stride: 4 sigma: 4 ";
  Replica replica(text(joints), 0, 1, Phase::test);
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 4, 40, 72}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 36, 10, 18}));
  const Maps maps(replica);
  for (const int first : {0, 18}) {
    EXPECT_NEAR(maps.at(first + 2, 2, 7), bell(-0.5, -0.5, 4), 1e-6);
    EXPECT_NEAR(maps.at(first + 16, 9, 15), bell(1.5, -0.5, 4), 1e-6);
    EXPECT_EQ(maps.at(first + 3, 2, 7), 0);
    EXPECT_NEAR(maps.at(first + 17, 2, 7), 1 - bell(-0.5, -0.5, 4), 1e-6);
  }
  Replica mirrored(text(joints + "flip_prob: 1 scale_prob: 0 max_rotate_degree: 0 center_perterb_max: 0 "
                                 "crop_size_x: 40 crop_size_y: 40"));
  mirrored.step();
  const std::vector<double> values = mirrored.values(1);
  for (int joint = 0; joint < 17; ++joint)
    EXPECT_EQ(*std::max_element(values.begin() + std::ptrdiff_t{joint * 100},
                                values.begin() + std::ptrdiff_t{(joint + 1) * 100}) > 0.5,
              joint == 2)
        << joint;
}

/// MPI: the middle of the body is between pelvis (6) and thorax (7).
TEST_F(CpmData, DrawsTheBodiesOfMpi) {
  PosedImage image(5, 16);
  image.people[0][6] = {20, 30};
  image.people[0][7] = {28, 26};
  image.people[0][8] = {24, 4};  // the neck, part 1
  put({image.bytes()});
  Replica replica(text("num_parts: 43 stride: 8 sigma: 7"), 0, 1, Phase::test);
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 5, 40, 72}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 88, 5, 9}));
  const Maps maps(replica);
  EXPECT_NEAR(maps.at(44 + 28 + 14, 3, 3), bell(27.5 - 24, 27.5 - 28, 7), 1e-6);
  EXPECT_EQ(maps.at(44 + 2 * 7 + 1, 2, 3), 1);
  EXPECT_EQ(maps.at(44 + 2 * 7, 2, 3), 0);
  EXPECT_NEAR(maps.at(87, 3, 3), 1 - bell(3.5, -0.5, 7), 1e-6);
}

TEST_F(CpmData, GrayImagesHaveTheirLuminance) {
  put({PosedImage().bytes()});
  Replica replica(text("num_parts: 56 np_in_lmdb: 17 stride: 8 gray: 1"), 0, 1, Phase::test);
  replica.step();
  const std::vector<double> values = replica.values(0);
  for (std::size_t c = 0; c < 3; ++c)  // of 3, 53, 103
    EXPECT_EQ(values[c * 2880 + 3], (std::round(0.114 * 3 + 0.587 * 53 + 0.299 * 103) - 128) / 256);
}

TEST_F(CpmData, TwoDevicesShareTheBatch) {
  std::vector<std::string> records;
  for (int i = 0; i < 5; ++i) {
    PosedImage image;
    image.people = {spread_pose(i), spread_pose(3 * i)};
    records.push_back(image.bytes());
  }
  put(records);
  const std::string settings = "num_parts: 56 np_in_lmdb: 17 stride: 8 crop_size_x: 32 crop_size_y: 40";
  Replica whole(text(settings, 4));
  Replica first(text(settings, 2), 0, 2), second(text(settings, 2), 1, 2);
  for (int step = 0; step < 4; ++step) {
    for (Replica* replica : {&whole, &first, &second}) replica->step();
    for (const std::size_t output : {0, 1}) {
      const std::vector<double> all = whole.values(output);
      const std::vector<double> parts[] = {first.values(output), second.values(output)};
      ASSERT_EQ(parts[0].size() + parts[1].size(), all.size());
      // One item after the other goes to the one or the other.
      const std::size_t item = all.size() / 4;
      for (std::size_t at = 0; at < all.size(); ++at)
        ASSERT_EQ(parts[at / item % 2][at / item / 2 * item + at % item], all[at]) << step;
    }
  }
}

TEST_F(CpmData, RefusesRecordsThatAreBroken) {
  const auto changed = [](const auto& change) {
    PosedImage image;
    image.people.assign(2, DrawnPose(17));
    image.bytes();  // writes the numbers
    change(image);
    return raw_datum(image.channels, image.height, image.width, image.pixels.data(), 0);
  };
  const std::uint8_t none[3] = {};
  EXPECT_THAT(
      refusal_of(raw_datum(3, 1, 1, none, 0)),
      HasSubstr("record 0 (counted from 0; key \"00000000\"): the record is no image of people with a "
                "plane of numbers after its three colours, each in 8 bits: 3 channels"));
  const std::vector<std::uint8_t> png = encode_image(Image{1, 1, 1, {7}}, "png");
  EXPECT_THAT(refusal_of(encoded_datum({reinterpret_cast<const char*>(png.data()), png.size()}, 0)),
              HasSubstr("1 channel, an image file"));
  EXPECT_THAT(refusal_of(PosedImage(4).bytes()),
              HasSubstr("has 4 channels; with num_parts: 56 there are 5 or 6"));
  EXPECT_THAT(refusal_of(PosedImage(5).bytes(), "num_parts: 14"),
              HasSubstr("has 5 channels; with num_parts: 14 there are 4"));
  EXPECT_THAT(refusal_of(PosedImage().bytes(), "num_parts: 56 np_in_lmdb: 19"),
              HasSubstr("40 x 72, too small for 19 joints, which need 8 rows of 76"));
  EXPECT_THAT(refusal_of(changed([](PosedImage& image) { image.number(1, 0, 41); })),
              HasSubstr("says that its image is 41 x 72, but holds one of 40 x 72"));
  EXPECT_THAT(refusal_of(changed([](PosedImage& image) { image.number(1, 1, std::nanf("")); })),
              HasSubstr("says that its image is 40 x nan"));
  EXPECT_THAT(refusal_of(changed([](PosedImage& image) { image.pixel(3, 2, 1) = 200; })),
              HasSubstr("there are 200 other people, for whom its image, 40 x 72, has no rows"));
  EXPECT_THAT(refusal_of(changed([](PosedImage& image) { image.number(3, 1, INFINITY); })),
              HasSubstr("the record's person is at (37, inf); expected pixels"));
  EXPECT_THAT(refusal_of(changed([](PosedImage& image) { image.number(10, 4, -3e6F); })),
              HasSubstr("the record's joint is at (-3e+06, 0); expected pixels"));
  for (const float size : {0.0F, -1.0F, std::nanf(""), INFINITY})
    EXPECT_THAT(refusal_of(changed([&](PosedImage& image) { image.number(4, 0, size); })),
                HasSubstr("; expected more than 0"));
  caffe::Datum floats;
  floats.set_channels(5), floats.set_height(1), floats.set_width(1);
  for (int k = 0; k < 5; ++k) floats.add_float_data(1);
  EXPECT_THAT(refusal_of(floats.SerializeAsString()), HasSubstr("5 channels of float_data"));
  // Enormous, but only what is cut out is computed.
  put({changed([](PosedImage& image) { image.number(4, 0, 1e-38F); })});
  Replica replica(text(std::string(kStill) + "crop_size_x: 8 crop_size_y: 8"));
  replica.step();
  put({PosedImage().bytes()});
  EXPECT_THAT(
      bad_input_of([&] { Replica(text("num_parts: 56 np_in_lmdb: 17 stride: 41"), 0, 1, Phase::test); }),
      HasSubstr("the image (40 x 72) is smaller than stride, 41"));
}

TEST_F(CpmData, RefusesSettingsThatItCannotFollow) {
  put({PosedImage().bytes()});
  for (const auto& [settings, why] : std::initializer_list<std::pair<const char*, const char*>>{
           {"num_parts: 15", "num_parts must be 56 (COCO), 43 (MPI) or 14 (single persons), not 15"},
           {"transform_body_joint: false num_parts: 43", "neither 56 nor 43, without transform_body_joint"},
           {"transform_body_joint: false num_parts: 0", "num_parts must be from 1 to 1024"},
           {"transform_body_joint: false num_parts: 4294967295", "num_parts must be from 1 to 1024"},
           {"transform_body_joint: false num_parts: 17", "np_in_lmdb must be in [17, 1024], not 16"},
           {"do_clahe: true", "do_clahe is not supported: equalize the images before they are stored"},
           {"aug_way: 'table'", "aug_way must be \"rand\", not \"table\""},
           {"scale: 2", "scale, mean_file and mean_value are not supported"},
           {"mean_value: 2", "scale, mean_file and mean_value are not supported"},
           {"mirror: true", "mirror is not supported: flip_prob"},
           {"crop_size: 8", "crop_size is not supported: write crop_size_x and crop_size_y"},
           {"stride: 0", "cpm_transform_param.stride must be in [1, 32768], not 0"},
           {"stride: 8 crop_size_y: 7", "crop_size_y must be in [8, 32768], not 7"},
           {"flip_prob: 1.5", "flip_prob must be in [0, 1], not 1.5"},
           {"scale_min: 2 scale_max: 1", "scale_max must be in [2, 1e+06], not 1"},
           {"sigma: 0", "sigma must be in [1e-06, 1e+06], not 0"},
           {"gray: 2", "gray must be in [0, 1], not 2"},
           {"num_parts: 56 np_in_lmdb: 16", "np_in_lmdb must be in [17, 1024], not 16"}})
    EXPECT_THAT(refusal(settings), HasSubstr(why)) << settings;
  EXPECT_THAT(refusal(kStill, "transform_param { scale: 2 }"),
              HasSubstr("transform_param has no effect in CPMData"));
  EXPECT_THAT(bad_input_of([&] { Replica("name: 'p' type: 'CPMData' top: 'a'"); }),
              HasSubstr("data_param.source is missing"));
  testing::internal::CaptureStderr();
  Replica replica(text(std::string(kStill) + "visualize: true"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("visualize has no effect: no images are written"));
}

/// Convolutional pose machines write the settings elsewhere.
TEST(CpmDataText, OtherNamesOfMessagesAreRead) {
  const std::string name = "layer { name: 'p' type: 'CPMData' top: 'data' top: 'label' ";
  const auto ours = io::parse_net_text(name +
                                           "data_param { source: 'a' batch_size: 2 backend: LMDB } "
                                           "cpm_transform_param { stride: 8 crop_size_x: 16 } }",
                                       "ours");
  for (const char* order : {"cpmdata_param { source: 'a' batch_size: 2 backend: LMDB } transform_param { "
                            "stride: 8 crop_size_x: 16 } }",
                            "transform_param: { stride: 8 crop_size_x: 16 } cpmdata_param { source: 'a' "
                            "batch_size: 2 backend: LMDB } }"})
    EXPECT_EQ(io::parse_net_text(name + order, "theirs").SerializeAsString(), ours.SerializeAsString());
  // Those of other layers stay.
  const auto both =
      io::parse_net_text(name + "} layer { type: 'Data' transform_param { crop_size: 3 } }", "both");
  EXPECT_EQ(both.layer(1).transform_param().crop_size(), 3u);
  EXPECT_THAT(
      bad_input_of([&] {
        io::parse_net_text("layer { type: 'CPMData' transform_param { crop_size_x: 3 strid: 8 } }", "n");
      }),
      HasSubstr("n:1:58: layer (CPMData): unknown field \"strid\" in CPMTransformationParameter (did you "
                "mean \"stride\"?)"));
}

}  // namespace
}  // namespace banyan::data
