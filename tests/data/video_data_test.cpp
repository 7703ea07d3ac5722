// The VideoData layer (TSN).

#include <map>
#include <set>

#include "banyan/data/video.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Places = std::vector<std::pair<int, int>>;

TEST(VideoParts, SnippetsBeginWithinTheirSegments) {
  // 3 segments of 10 frames, snippets of 4: 7 places each.
  EXPECT_EQ(snippet_offsets(32, 3, 4, nullptr), (std::vector<int>{3, 13, 23}));
  const std::vector<double> draws{0, 0.5, 0.999};
  EXPECT_EQ(snippet_offsets(32, 3, 4, &draws), (std::vector<int>{0, 13, 26}));
  EXPECT_EQ(snippet_offsets(8, 3, 3, &draws), (std::vector<int>{0, 0, 0}));  // segments of 2 frames
  EXPECT_EQ(snippet_offsets(9, 3, 3, &draws), (std::vector<int>{0, 3, 6}));
}

TEST(VideoParts, NamesOfFrames) {
  EXPECT_EQ(frame_name("image_%04d.jpg", 7, 'x'), "image_0007.jpg");
  EXPECT_EQ(frame_name("%d.png", 12345, 'x'), "12345.png");
  EXPECT_EQ(frame_name("flow_%c_%05d.jpg", 123, 'y'), "flow_y_00123.jpg");
  EXPECT_NO_THROW(check_frame_pattern("%c%d", true, "it"));
  for (const char* pattern : {"image.jpg", "%s", "%d%d", "%", "%5d", "%c_%d"})
    EXPECT_THAT(bad_input_of([&] { check_frame_pattern(pattern, false, "it"); }),
                HasSubstr("it must have one number"))
        << pattern;
  for (const char* pattern : {"%d", "%d_%c", "%c_%c_%d"})
    EXPECT_THAT(bad_input_of([&] { check_frame_pattern(pattern, true, "it"); }), HasSubstr("%c")) << pattern;
}

TEST(VideoParts, CropsOfSeveralScales) {
  // 240, 210 and 180 of 240; 223 would be as good as 224.
  EXPECT_EQ(scaled_crops(240, 320, 224, {1, 0.93f}, 0), (Places{{240, 240}, {224, 224}}));
  EXPECT_EQ(scaled_crops(320, 240, 224, {1, 0.875f, 0.75f}, 1),
            (Places{{240, 240}, {240, 210}, {210, 240}, {210, 210}, {210, 180}, {180, 210}, {180, 180}}));
  EXPECT_EQ(scaled_crops(223, 223, 224, {1}, 1), (Places{{223, 223}}));
  EXPECT_EQ(fixed_places(12, 20, 4, 4, false), (Places{{0, 0}, {0, 16}, {8, 0}, {8, 16}, {4, 8}}));
  EXPECT_EQ(fixed_places(12, 20, 4, 4, true).size(), 13u);
  EXPECT_EQ(fixed_places(12, 20, 4, 4, true)[12], (std::pair{6, 12}));
}

/// Frame n of video v: 100 v + n everywhere (x of flow; y is 10 less).
class VideoData : public FolderTest {
 protected:
  void video(int v, int frames, bool flow, int height = 4, int width = 6) {
    const std::string folder = path("v" + std::to_string(v));
    std::filesystem::create_directories(folder);
    const auto put = [&](const std::string& name, int value, int channels) {
      Image image{channels, height, width, {}};
      for (int i = 0; i < height * width; ++i)
        for (int c = 0; c < channels; ++c) image.pixels.push_back(static_cast<std::uint8_t>(value + 40 * c));
      write_file(folder + "/" + name, encode_image(image, "png"));
    };
    for (int n = 1; n <= frames; ++n) {
      if (flow) {
        put(frame_name("flow_%c_%03d.png", n, 'x'), 100 * v + n, 1);
        put(frame_name("flow_%c_%03d.png", n, 'y'), 100 * v + n - 10, 1);
      } else {
        put(frame_name("f%d.png", n, 'x'), 100 * v + n, 3);
      }
    }
    list_ += folder + " " + std::to_string(frames) + " " + std::to_string(v) + "\n";
    write_file(path("list"), list_);
  }
  std::string text(int batch, const std::string& more, const std::string& transform = "") {
    return "name: 'v' type: 'VideoData' top: 'data' top: 'label' video_data_param { source: '" +
           path("list") + "' batch_size: " + std::to_string(batch) + " " + more + " } transform_param { " +
           transform + " }";
  }
  std::string refusal(const std::string& text) {
    return bad_input_of([&] { Replica(text).step(); });
  }
  std::string list_;
};

constexpr const char* kRgb = "modality: RGB name_pattern: 'f%d.png' num_segments: 3 ";
constexpr const char* kFlow = "name_pattern: 'flow_%c_%03d.png' num_segments: 2 new_length: 3 ";

TEST_F(VideoData, TestsTakeTheMiddleOfEachSegment) {
  video(0, 15, false);
  video(1, 9, false);
  Replica replica(text(2, kRgb, "mean_value: [1, 2, 3] crop_size: 3"), 0, 1, Phase::test);
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{2, 9, 3, 3}));
  EXPECT_EQ(replica.step(), (std::vector<int>{0, 1}));
  const std::vector<double> values = replica.values(0);
  for (std::size_t c = 0; c < 9; ++c) {
    const double colour = 40.0 * static_cast<double>(c % 3) - static_cast<double>(c % 3 + 1);
    const auto segment = static_cast<double>(c / 3);
    EXPECT_EQ(values[9 * c + 4], 3 + 5 * segment + colour);         // frames 3, 8, 13
    EXPECT_EQ(values[81 + 9 * c + 4], 102 + 3 * segment + colour);  // frames 2, 5, 8
  }
}

TEST_F(VideoData, FlowHasTwoChannelsPerFrameAndXTurnsWithTheMirror) {
  video(1, 6, true);
  Replica replica(text(40, kFlow, "mirror: true is_flow: true"));
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{40, 12, 4, 6}));
  replica.step();
  const std::vector<double> values = replica.values(0);
  std::set<double> first;
  for (std::size_t i = 0; i < 40; ++i) {
    const bool mirrored = values[i * 288] > 130;
    first.insert(values[i * 288]);
    for (std::size_t k = 0; k < 6; ++k) {  // segments of 3 frames: all are taken
      const double x = 101 + static_cast<double>(k);
      EXPECT_EQ(values[i * 288 + 48 * k], mirrored ? 255 - x : x);
      EXPECT_EQ(values[i * 288 + 48 * k + 24], x - 10);
    }
  }
  EXPECT_EQ(first, (std::set<double>{101, 154}));
}

TEST_F(VideoData, TrainingDrawsAllPlacesOfASegment) {
  video(0, 16, false);
  Replica replica(text(200, kRgb + std::string("grayscale: false")));
  replica.step();
  const std::vector<double> values = replica.values(0);
  std::map<double, int> starts;
  for (std::size_t i = 0; i < 200; ++i)
    for (std::size_t s = 0; s < 3; ++s) ++starts[values[(9 * i + 3 * s) * 24]];
  ASSERT_EQ(starts.size(), 15u);  // three segments of 5 frames; the 16th is left over
  for (const auto& [frame, count] : starts) {
    EXPECT_LE(frame, 15);
    EXPECT_NEAR(count, 40, 34) << frame;  // six standard deviations
  }
}

/// The channels of the first item: of each, the value of all pixels.
std::vector<double> channels(Replica& replica, std::size_t pixels) {
  const std::vector<double> values = replica.values(0);
  std::vector<double> found;
  for (std::size_t i = 0; i < values.size(); i += pixels) found.push_back(values[i]);
  return found;
}

TEST_F(VideoData, LengthFirstKeepsTheFramesOfAColourTogether) {
  video(0, 8, false);
  const std::string more = "modality: RGB name_pattern: 'f%d.png' num_segments: 2 length_first: true ";
  for (const int step : {1, 2}) {
    Replica replica(text(1, more + "new_length: 4 step: " + std::to_string(step)), 0, 1, Phase::test);
    const int frames = 4 / step;
    ASSERT_EQ(replica.outputs[0]->shape, (Shape{1, 6 * frames, 4, 6}));
    replica.step();
    std::vector<double> expected;
    for (const int begin : {1, 5})
      for (const int colour : {0, 40, 80})
        for (int k = 0; k < frames; ++k) expected.push_back(begin + k * step + colour);
    EXPECT_EQ(channels(replica, 24), expected) << step;
  }
}

TEST_F(VideoData, LengthFirstKeepsTheFlowAlongEachAxisTogether) {
  video(1, 4, true);
  Replica replica(text(20,
                       "name_pattern: 'flow_%c_%03d.png' num_segments: 2 new_length: 2 length_first: true",
                       "mirror: true is_flow: true"));
  replica.step();
  const std::vector<double> all = channels(replica, 24);
  std::set<bool> seen;
  for (std::size_t i = 0; i < 20; ++i) {
    const std::vector<double> item(all.begin() + static_cast<std::ptrdiff_t>(8 * i),
                                   all.begin() + static_cast<std::ptrdiff_t>(8 * i + 8));
    const bool mirrored = item[0] > 130;
    seen.insert(mirrored);
    const auto x = [&](double value) { return mirrored ? 255 - value : value; };
    EXPECT_EQ(item, (std::vector<double>{x(101), x(102), 91, 92, x(103), x(104), 93, 94}));
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(VideoData, AnyFrameOfAStepMayBeDrawn) {
  video(0, 6, false);
  const std::string more =
      "modality: RGB name_pattern: 'f%d.png' length_first: true new_length: 6 step: 3 rand_step: true";
  Replica training(text(100, more));
  training.step();
  const std::vector<double> all = channels(training, 24);
  ASSERT_EQ(all.size(), 600u);  // two frames of three colours
  std::set<double> first, second;
  for (std::size_t i = 0; i < 600; i += 6) {
    first.insert(all[i]);
    second.insert(all[i + 1]);
  }
  EXPECT_EQ(first, (std::set<double>{1, 2, 3}));
  EXPECT_EQ(second, (std::set<double>{4, 5, 6}));
  Replica test(text(1, more), 0, 1, Phase::test);
  test.step();
  EXPECT_EQ(channels(test, 24), (std::vector<double>{1, 4, 41, 44, 81, 84}));
}

TEST_F(VideoData, LengthFirstRepeatsTheLastFrameOfAShortVideo) {
  video(0, 3, false);
  const std::string more =
      "modality: RGB name_pattern: 'f%d.png' length_first: true new_length: 2 num_segments: 2 ";
  Replica training(text(1, more));
  training.step();  // segments of one frame: snippets begin with them
  EXPECT_EQ(channels(training, 24), (std::vector<double>{1, 2, 41, 42, 81, 82, 2, 3, 42, 43, 82, 83}));
  std::filesystem::remove(path("v0/f2.png"));
  Replica test(text(1, more), 0, 1, Phase::test);
  test.step();
  EXPECT_EQ(channels(test, 24), (std::vector<double>{1, 1, 41, 41, 81, 81, 1, 1, 41, 41, 81, 81}));
  std::filesystem::remove(path("v0/f1.png"));
  EXPECT_THAT(refusal(text(1, more)), HasSubstr("f1.png"));
}

std::vector<std::vector<double>> serve(const std::string& text, int devices, int steps, std::uint64_t from) {
  std::vector<std::vector<double>> all;
  for (int rank = 0; rank < devices; ++rank) {
    Replica replica(text, rank, devices);
    if (from > 0) replica.source().seek(from);
    for (int k = 0; k < steps; ++k) {
      const std::vector<int> labels = replica.step();
      const std::vector<double> pixels = replica.values(0);
      const std::size_t count = labels.size();
      const auto each = static_cast<std::ptrdiff_t>(pixels.size() / count);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t place =
            (static_cast<std::size_t>(k) * count + i) * static_cast<std::size_t>(devices) +
            static_cast<std::size_t>(rank);
        all.resize(std::max(all.size(), place + 1));
        const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(i) * each;
        all[place].assign(first, first + each);
        all[place].push_back(labels[i]);
      }
    }
  }
  return all;
}

TEST_F(VideoData, SeveralDevicesTogetherAreOneAndAnyPositionIsRepeated) {
  for (int v = 0; v < 2; ++v) video(v, 9 + v, false, 20, 24);
  const std::string more = std::string(kRgb) + "shuffle: true new_height: 16 new_width: 20",
                    transform =
                        "crop_size: 8 mirror: true fix_crop: true more_fix_crop: true multi_scale: true "
                        "max_distort: 1 scale_ratios: [1, 0.75, 0.5]";
  const auto one = serve(text(4, more, transform), 1, 3, 0);
  EXPECT_EQ(serve(text(2, more, transform), 2, 3, 0), one);
  EXPECT_EQ(serve(text(4, more, transform), 1, 1, 8),
            (std::vector<std::vector<double>>(one.begin() + 8, one.end())));
}

/// Only when it is to be opened: made data can take its place.
TEST_F(VideoData, ACameraCannotBeRead) {
  const std::string camera = "name: 'd' type: 'VideoData' top: 'data' data_param { batch_size: 1 } ";
  const char* none = "layer \"d\": video_data_param.video_type must be VIDEO: cameras are not supported";
  EXPECT_THAT(refusal(camera + "video_data_param { video_type: WEBCAM device_id: 0 }"), HasSubstr(none));
  EXPECT_THAT(refusal(camera + "video_data_param { skip_frames: 1 }"), HasSubstr(none));
}

TEST_F(VideoData, RefusesWhatDoesNotFit) {
  video(0, 9, false);
  const std::string rgb = kRgb;
  for (const char* of_c3d :
       {"root_folder: 'x'", "sampling_rate: 1", "max_sampling_rate: 2", "use_temporal_jitter: true",
        "use_sampling_rate_jitter: true", "use_multiple_label: true", "num_of_labels: 3"})
    EXPECT_THAT(refusal(text(1, of_c3d)), HasSubstr("use_image must be given"));
  EXPECT_THAT(refusal(text(1, "modality: VIDEO")), HasSubstr("modality must be RGB or FLOW"));
  const std::string first = rgb + "length_first: true new_length: 3 ";
  EXPECT_THAT(refusal(text(1, rgb + "new_length: 2 step: 2")), HasSubstr("step needs length_first"));
  EXPECT_THAT(refusal(text(1, "length_first: true new_length: 2 step: 2")), HasSubstr("and modality: RGB"));
  EXPECT_THAT(refusal(text(1, first + "step: 2")), HasSubstr("must divide new_length, which is 3; found 2"));
  EXPECT_THAT(refusal(text(1, first + "step: 0")), HasSubstr("must divide new_length"));
  EXPECT_THAT(refusal(text(1, first + "grayscale: true")),
              HasSubstr("grayscale does not go with length_first"));
  EXPECT_THAT(refusal(text(1, rgb + "mirror: true")), HasSubstr("mirror belongs into transform_param"));
  EXPECT_THAT(refusal(text(1, "modality: RGB name_pattern: 'f.png'")),
              HasSubstr("name_pattern must have one"));
  EXPECT_THAT(refusal(text(1, rgb + "new_length: 0")), HasSubstr("new_length must be in [1, 10000], not 0"));
  EXPECT_THAT(refusal(text(1, rgb, "stride: 2")), HasSubstr("stride is not supported"));
  EXPECT_THAT(refusal(text(1, rgb, "multi_scale: true")), HasSubstr("crop_size is missing"));
  EXPECT_THAT(refusal(text(1, rgb, "crop_size: 5")), AllOf(HasSubstr("video 0"), HasSubstr("4 x 6")));
  EXPECT_THAT(refusal(text(1, rgb, "mean_value: [1, 2, 3, 4]")), HasSubstr("do not repeat evenly over 9"));
  EXPECT_THAT(refusal(text(1, "modality: RGB")), AllOf(HasSubstr("video 0"), HasSubstr("image_0")));
  write_file(path("v0/f2.png"), encode_image(gradient_image(3, 5, 6), "png"));
  EXPECT_THAT(refusal(text(1, "modality: RGB name_pattern: 'f%d.png' new_length: 9")),
              AllOf(HasSubstr("v0/f2.png"), HasSubstr("5 x 6")));
  write_file(path("list"), std::string("v0 0 1\n"));
  EXPECT_THAT(refusal(text(1, rgb)), HasSubstr("list:1: expected \"folder frames label\""));
}

}  // namespace
}  // namespace banyan::data
