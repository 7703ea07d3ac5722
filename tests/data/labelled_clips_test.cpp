// VideoSegmentationData and VideoWithVoxelTruthData (C3D): clips with numbers for each pixel of each frame.
#include <array>
#include <cstring>
#include <set>

#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr int kFrames = 2, kHeight = 4, kWidth = 5;

/// Channel c of clip n: 100 n + 20 c + 10 frame + row + column. Labels: 40 frame + 6 row + column.
std::uint8_t pixel(int n, int c, int frame, int y, int x) {
  return static_cast<std::uint8_t>(100 * n + 20 * c + 10 * frame + y + x);
}
std::uint8_t label(int frame, int y, int x) { return static_cast<std::uint8_t>(40 * frame + 6 * y + x); }

class LabelledClips : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    for (int n = 0; n < 2; ++n) write_file(path(n == 0 ? "a" : "b c"), clip(n));
    write_file(path("list"), std::string("a\n\n\"b c\"\r\n"));
  }
  static std::string clip(int n, std::array<std::int32_t, 5> sizes = {1, 4, kFrames, kHeight, kWidth}) {
    std::string bytes(sizeof sizes, 0);
    std::memcpy(bytes.data(), sizes.data(), sizeof sizes);
    for (int c = 0; c < 4; ++c)
      for (int frame = 0; frame < kFrames; ++frame)
        for (int y = 0; y < kHeight; ++y)
          for (int x = 0; x < kWidth; ++x)
            bytes.push_back(static_cast<char>(c < 3 ? pixel(n, c, frame, y, x) : label(frame, y, x)));
    return bytes;
  }
  std::string text(const std::string& settings = "batch_size: 2", const std::string& transform = "") const {
    return "name: 'd' type: 'VideoSegmentationData' top: 'data' top: 'truth' image_data_param { source: '" +
           path("list") + "' root_folder: '" + folder_ + "/' " + settings + " } transform_param { " +
           transform + " }";
  }
  std::string refusal(const std::string& settings, const std::string& transform = "") const {
    return bad_input_of([&] { Replica(text(settings, transform)).step(); });
  }
  /// Value of item n, channel c, at a place of the output, which is `width` wide.
  static double at(const std::vector<double>& values, int channels, int height, int width, int n, int c,
                   int frame, int y, int x) {
    return values[static_cast<std::size_t>((((n * channels + c) * kFrames + frame) * height + y) * width +
                                           x)];
  }
};

TEST_F(LabelledClips, AreReadWhole) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Replica replica(text("batch_size: 2 show_data: 1", "scale: 0.5 mean_value: 4"), 0, 1, Phase::test, false,
                    dtype);
    replica.step();
    EXPECT_EQ(replica.outputs[0]->shape, (Shape{2, 3, kFrames, kHeight, kWidth}));
    EXPECT_EQ(replica.outputs[1]->shape, (Shape{2, 1, kFrames, kHeight, kWidth}));
    const std::vector<double> data = replica.values(0), truth = replica.values(1);
    for (int n = 0; n < 2; ++n)
      for (int frame = 0; frame < kFrames; ++frame)
        for (int y = 0; y < kHeight; ++y)
          for (int x = 0; x < kWidth; ++x) {
            for (int c = 0; c < 3; ++c)
              EXPECT_EQ(at(data, 3, kHeight, kWidth, n, c, frame, y, x),
                        (pixel(n, c, frame, y, x) - 4) * 0.5);
            EXPECT_EQ(at(truth, 1, kHeight, kWidth, n, 0, frame, y, x), label(frame, y, x));
          }
  }
}

/// Every place and both directions come up, and pixels and labels stay together.
TEST_F(LabelledClips, AreCutAndMirroredWithTheirLabels) {
  Replica replica(text("batch_size: 2", "crop_size: 3 mirror: true"));
  std::set<std::array<int, 3>> windows;
  for (int step = 0; step < 100; ++step) {
    replica.step();
    EXPECT_EQ(replica.outputs[0]->shape, (Shape{2, 3, kFrames, 3, 3}));
    const std::vector<double> data = replica.values(0), truth = replica.values(1);
    for (int n = 0; n < 2; ++n) {
      const int first = static_cast<int>(at(truth, 1, 3, 3, n, 0, 0, 0, 0));
      const bool mirrored = at(truth, 1, 3, 3, n, 0, 0, 0, 1) < first;
      const int top = first / 6, left = first % 6 - (mirrored ? 2 : 0);
      windows.insert({top, left, mirrored});
      for (int frame = 0; frame < kFrames; ++frame)
        for (int y = 0; y < 3; ++y)
          for (int x = 0; x < 3; ++x) {
            const int from = left + (mirrored ? 2 - x : x);
            EXPECT_EQ(at(truth, 1, 3, 3, n, 0, frame, y, x), label(frame, top + y, from));
            for (int c = 0; c < 3; ++c)
              EXPECT_EQ(at(data, 3, 3, 3, n, c, frame, y, x), pixel(n, c, frame, top + y, from));
          }
    }
  }
  EXPECT_EQ(windows.size(), 2u * 3 * 2);
}

TEST_F(LabelledClips, TestsSeeTheMiddle) {
  Replica replica(text("batch_size: 1", "crop_size: 2"), 0, 1, Phase::test);
  replica.step();
  EXPECT_EQ(replica.values(1)[0], label(0, 1, 1));
}

TEST_F(LabelledClips, DevicesShareTheBatch) {
  const std::string transform = "crop_size: 2 mirror: true";
  Replica alone(text("batch_size: 4 shuffle: true", transform));
  Replica first(text("batch_size: 2 shuffle: true", transform), 0, 2),
      second(text("batch_size: 2 shuffle: true", transform), 1, 2);
  for (int step = 0; step < 3; ++step) {
    alone.step();
    first.step();
    second.step();
    for (std::size_t output = 0; output < 2; ++output) expect_dealt(alone, {&first, &second}, output);
  }
}

TEST_F(LabelledClips, WhatIsWrong) {
  EXPECT_THAT(refusal("new_height: 3 new_width: 3"), HasSubstr("do not go with such clips"));
  EXPECT_THAT(refusal("crop_size: 3"), HasSubstr("belongs into transform_param"));
  EXPECT_THAT(refusal("", "pad: 1"), HasSubstr("transform_param.pad"));
  EXPECT_THAT(refusal("", "crop_size: 5"), HasSubstr("crop_size 5 is larger than the image (4 x 5)"));
  const auto with = [&](const std::string& bytes) {
    write_file(path("a"), bytes);
    return refusal("");
  };
  for (const std::array<std::int32_t, 5>& sizes :
       {std::array<std::int32_t, 5>{2, 2, kFrames, kHeight, kWidth},
        {1, 1, 8, kHeight, kWidth},
        {1, 4, kFrames, kHeight, 4},
        {1, 4, -2, -kHeight, kWidth},
        {1, 1 << 30, 1 << 30, 1 << 30, 4}})
    EXPECT_THAT(with(clip(0, sizes)), HasSubstr("expected the sizes 1 x channels x frames x height x width"));
  EXPECT_THAT(with(clip(0).substr(0, 19)), HasSubstr("found 19 bytes"));
  EXPECT_THAT(with(clip(0) + "x"), HasSubstr("and 161 bytes"));
  std::filesystem::remove(path("a"));
  EXPECT_THAT(refusal(""), HasSubstr("clip 0"));
  write_file(path("list"), std::string("\"b c\"\n\"a\nb\n"));
  EXPECT_THAT(refusal(""), HasSubstr("list:2: expected the path of a clip"));
  write_file(path("list"), std::string("a 3\n"));
  EXPECT_THAT(refusal(""), HasSubstr("list:1: expected the path of a clip"));
  write_file(path("list"), std::string(" \n"));
  EXPECT_THAT(refusal(""), HasSubstr("lists no clips"));
}

/// Truth of two channels, v and v + 0.5, v as the labels are.
class ClipsWithTruth : public LabelledClips {
 protected:
  static std::string floats(bool as_bytes) {
    const std::array<std::int32_t, 5> sizes{1, 3, kFrames, kHeight, kWidth};
    std::string bytes(sizeof sizes, 0);
    std::memcpy(bytes.data(), sizes.data(), sizeof sizes);
    for (int c = 0; c < 3; ++c)
      for (int frame = 0; frame < kFrames; ++frame)
        for (int y = 0; y < kHeight; ++y)
          for (int x = 0; x < kWidth; ++x) {
            const float value = c == 0 ? pixel(0, 0, frame, y, x) : label(frame, y, x) + 0.5f * (c - 1);
            std::string one(sizeof value, 0);
            std::memcpy(one.data(), &value, sizeof value);
            bytes += as_bytes ? std::string(1, static_cast<char>(static_cast<std::uint8_t>(value))) : one;
          }
    return bytes;
  }
  std::string truth(const std::string& settings, const std::string& transform = "") {
    write_file(path("list"), std::string("a\n"));
    return "name: 'd' type: 'VideoWithVoxelTruthData' top: 'data' top: 'truth' image_data_param { source: '" +
           path("list") + "' root_folder: '" + folder_ + "/' " + settings + " } transform_param { " +
           transform + " }";
  }
};

TEST_F(ClipsWithTruth, FloatsAndBytes) {
  for (const bool as_bytes : {false, true}) {
    write_file(path("a"), floats(as_bytes));
    Replica replica(truth(std::string("num_truth_channels: 2 truth_scale: 0.25 ") +
                          (as_bytes ? "use_byte_input: true" : "")));
    replica.step();
    EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 1, kFrames, kHeight, kWidth}));
    EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 2, kFrames, kHeight, kWidth}));
    for (int frame = 0; frame < kFrames; ++frame) {
      EXPECT_EQ(at(replica.values(0), 1, kHeight, kWidth, 0, 0, frame, 2, 3), pixel(0, 0, frame, 2, 3));
      for (int c = 0; c < 2; ++c)
        EXPECT_EQ(at(replica.values(1), 2, kHeight, kWidth, 0, c, frame, 2, 3),
                  0.25 * (label(frame, 2, 3) + (as_bytes ? 0 : 0.5 * c)));
    }
  }
}

/// Of flow only x turns with the mirror.
TEST_F(ClipsWithTruth, FlowTurnsWithTheMirror) {
  write_file(path("a"), floats(false));
  Replica replica(truth("num_truth_channels: 2 is_flow: true batch_size: 20", "mirror: true"));
  replica.step();
  const std::vector<double> data = replica.values(0), values = replica.values(1);
  int mirrored = 0;
  for (int n = 0; n < 20; ++n) {
    const bool turned = at(data, 1, kHeight, kWidth, n, 0, 0, 0, 0) != pixel(0, 0, 0, 0, 0);
    mirrored += turned;
    for (int frame = 0; frame < kFrames; ++frame) {
      const double v = label(frame, 1, turned ? kWidth - 2 : 1);
      EXPECT_EQ(at(values, 2, kHeight, kWidth, n, 0, frame, 1, 1), turned ? -v : v);
      EXPECT_EQ(at(values, 2, kHeight, kWidth, n, 1, frame, 1, 1), v + 0.5);
    }
  }
  EXPECT_GT(mirrored, 2);
  EXPECT_LT(mirrored, 18);
}

TEST_F(ClipsWithTruth, ARangeBecomesZeroToOne) {
  write_file(path("a"), floats(false));
  Replica replica(truth("num_truth_channels: 2 clip_min: 10 clip_max: 20"));
  replica.step();
  EXPECT_EQ(at(replica.values(1), 2, kHeight, kWidth, 0, 0, 0, 0, 0), 0);  // of 0
  EXPECT_FLOAT_EQ(static_cast<float>(at(replica.values(1), 2, kHeight, kWidth, 0, 0, 0, 2, 3)), 0.5f);  // 15
  EXPECT_EQ(at(replica.values(1), 2, kHeight, kWidth, 0, 0, 1, 0, 0), 1);  // of 40
}

TEST_F(ClipsWithTruth, WhatIsWrong) {
  write_file(path("a"), floats(false));
  const auto complaint = [&](const std::string& settings) {
    return bad_input_of([&] { Replica(truth(settings)).step(); });
  };
  EXPECT_THAT(complaint(""), HasSubstr("num_truth_channels must be given"));
  EXPECT_THAT(complaint("num_truth_channels: 3"), HasSubstr("more than 3 channels"));
  EXPECT_THAT(complaint("num_truth_channels: 2 use_byte_input: true"), HasSubstr("and as many bytes"));
  EXPECT_THAT(complaint("num_truth_channels: 2 clip_min: 1"), HasSubstr("needs a greater clip_max"));
  EXPECT_THAT(complaint("num_truth_channels: 2 clip_min: 1 clip_max: 1"),
              HasSubstr("needs a greater clip_max"));
  EXPECT_THAT(complaint("num_truth_channels: 2 clip_min: -inf clip_max: 1"), HasSubstr("needs a greater"));
  for (const std::string type : {"ImageData", "VideoData"})
    for (const std::string setting : {"num_truth_channels: 1", "mean_value: 3"}) {
      const std::string message = bad_input_of([&] {
        Replica("name: 'd' type: '" + type + "' top: 'd' image_data_param { source: 'x' use_image: true " +
                setting + " }");
      });
      EXPECT_THAT(message,
                  AnyOf(HasSubstr("VideoWithVoxelTruthData"), HasSubstr("belongs into transform_param"),
                        HasSubstr("has settings of C3D's VIDEO_DATA")))
          << type << setting;
    }
  EXPECT_THAT(
      bad_input_of([&] {
        Replica("name: 'd' type: 'ImageData' top: 'd' image_data_param { source: 'x' mean_value: 3 }");
      }),
      HasSubstr("image_data_param.mean_value belongs into transform_param"));
  EXPECT_THAT(refusal("num_truth_channels: 1"), HasSubstr("do not go with such clips"));
}

}  // namespace
}  // namespace banyan::data
