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

/// Videos with lists of their shots (UntrimmedNets).
class SequenceData : public VideoData {
 protected:
  /// Where shots begin, for each video.
  void shots(const std::vector<std::pair<std::string, int>>& videos) {
    std::string list;
    for (std::size_t v = 0; v < videos.size(); ++v) {
      const std::string file = path("shots" + std::to_string(v));
      write_file(file, videos[v].first);
      list += "\"" + file + "\" " + std::to_string(videos[v].second) + "\n";
    }
    write_file(path("shots"), list);
  }
  std::string sequence(int batch, const std::string& more, const std::string& transform = "") {
    return "name: 'v' type: 'SequenceData' top: 'data' top: 'label' sequence_data_param { video_source: '" +
           path("list") + "' shot_source: '" + path("shots") + "' batch_size: " + std::to_string(batch) +
           " " + more + " } transform_param { " + transform + " }";
  }
  static constexpr const char* kFrames = "modality: RGB name_pattern: 'f%d.png' ";
  static constexpr const char* kPairs = "name_pattern: 'flow_%c_%03d.png' ";
  static std::vector<Shot> read(const std::string& path, int length, bool flow) {
    std::vector<Video> one(1);
    one[0].frames = 25;
    read_shot_list(path, length, flow, one);
    return one[0].shots;
  }
};

TEST_F(SequenceData, ShotsEndWhereTheNextBegins) {
  const auto places = [&](int length, bool flow) {
    std::vector<std::pair<int, int>> found;
    for (const Shot& shot : read(path("shots"), length, flow)) found.emplace_back(shot.first, shot.frames);
    return found;
  };
  using Found = std::vector<std::pair<int, int>>;
  shots({{"1 6\n9 20 21", 25}});
  EXPECT_EQ(places(1, false), (Found{{1, 5}, {6, 3}, {9, 11}, {21, 5}}));
  EXPECT_EQ(places(3, false), (Found{{1, 5}, {9, 11}, {21, 5}}));
  EXPECT_EQ(places(3, true), (Found{{1, 4}, {9, 10}, {21, 4}}));
  shots({{"0 6", 25}});
  EXPECT_EQ(places(1, false), (Found{{6, 20}}));
  shots({{"", 7}});
  EXPECT_EQ(places(1, false), (Found{{1, 7}}));
}

/// Tests take the first shots, and the middle of each segment.
TEST_F(SequenceData, TestsAreTheSameEveryTime) {
  video(0, 20, false);
  video(1, 9, false);
  shots({{"1 11", 20}, {"1", 9}});
  Replica replica(sequence(2, kFrames + std::string("num_segments: 2 num_shots: 3")), 0, 1, Phase::test);
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{2, 18, 4, 6}));
  EXPECT_EQ(replica.step(), (std::vector<int>{0, 1}));
  const std::vector<double> values = replica.values(0);
  // Shots of 10 frames, in segments of 5; of 9, in segments of 4: their third frames.
  const std::vector<double> wanted = {3, 8, 13, 18, 3, 8, 103, 107, 103, 107, 103, 107};
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(values[72 * i], wanted[i], i < 6 ? 0 : 1) << i;
}

TEST_F(SequenceData, TrainingDrawsShotsWithoutRepetition) {
  video(0, 40, false);
  shots({{"1 11 21 31", 40}});
  Replica replica(sequence(300, kFrames + std::string("num_shots: 3 num_segments: 2 num_frames: 2")));
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{300, 36, 4, 6}));
  replica.step();
  const std::vector<double> values = replica.values(0);
  std::map<std::vector<int>, int> choices;
  std::set<int> firsts;
  for (std::size_t item = 0; item < 300; ++item) {
    std::vector<int> chosen;
    for (std::size_t snippet = 0; snippet < 6; ++snippet) {
      const double* first = &values[(item * 12 + snippet * 2) * 72];
      EXPECT_EQ(first[72], first[0] + 1);
      const int frame = static_cast<int>(first[0]), shot = (frame - 1) / 10, inside = (frame - 1) % 10;
      EXPECT_EQ(inside / 5, snippet % 2);
      EXPECT_LT(inside % 5, 4);
      firsts.insert(frame);
      if (snippet % 2 == 0)
        chosen.push_back(shot);
      else
        EXPECT_EQ(shot, chosen.back());
    }
    EXPECT_EQ(std::set<int>(chosen.begin(), chosen.end()).size(), 3u);
    ++choices[chosen];
  }
  EXPECT_EQ(firsts.size(), 4u * 2 * 4);
  EXPECT_EQ(choices.size(), 24u);  // of 4 x 3 x 2 orders, each 12.5 times
  for (const auto& [chosen, count] : choices) EXPECT_LT(count, 34);
}

/// With too few shots all are there, and some again.
TEST_F(SequenceData, TooFewShotsAreTakenAgain) {
  video(1, 12, true);
  shots({{"1 7", 12}});
  Replica replica(sequence(100, kPairs + std::string("num_shots: 3 num_frames: 4")));
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{100, 24, 4, 6}));
  replica.step();
  const std::vector<double> values = replica.values(0);
  std::map<int, int> thirds;
  for (std::size_t item = 0; item < 100; ++item) {
    std::vector<int> shots;
    for (std::size_t i = 0; i < 3; ++i) {
      const double* snippet = &values[(item * 24 + i * 8) * 24];
      for (std::size_t frame = 1; frame < 4; ++frame)
        EXPECT_EQ(snippet[48 * frame], snippet[0] + static_cast<double>(frame));
      EXPECT_EQ(snippet[24], snippet[0] - 10);
      const int first = static_cast<int>(snippet[0]) - 100;
      EXPECT_TRUE((first >= 1 && first <= 2) || (first >= 7 && first <= 8)) << first;  // shots of 5 pairs
      shots.push_back(first > 6);
    }
    EXPECT_NE(shots[0], shots[1]);
    ++thirds[shots[2]];
  }
  EXPECT_GT(thirds[0], 20);
  EXPECT_GT(thirds[1], 20);
}

TEST_F(SequenceData, DevicesShareTheBatch) {
  for (int v = 0; v < 2; ++v) video(v, 30, false);
  shots({{"1 11 21", 30}, {"1 9 20", 30}});
  const std::string settings = kFrames + std::string("num_shots: 2 num_segments: 2 shuffle: true");
  const std::string transform = "crop_size: 2 mirror: true";
  Replica alone(sequence(4, settings, transform));
  Replica first(sequence(2, settings, transform), 0, 2), second(sequence(2, settings, transform), 1, 2);
  for (int step = 0; step < 3; ++step) {
    for (Replica* one : {&alone, &first, &second}) one->step();
    for (std::size_t output = 0; output < 2; ++output) expect_dealt(alone, {&first, &second}, output);
  }
}

TEST_F(SequenceData, WhatIsWrong) {
  video(0, 9, false);
  const auto complaint = [&](const std::string& more) { return refusal(sequence(1, more)); };
  const std::string good = kFrames;
  shots({{"1 5", 9}});
  EXPECT_THAT(complaint(good + "crop_size: 2"), HasSubstr("crop_size belongs into transform_param"));
  EXPECT_THAT(complaint(good + "num_shots: 0"), HasSubstr("num_shots must be in [1, 10000]"));
  EXPECT_THAT(complaint(good + "num_shots: 500 num_frames: 21"), HasSubstr("asks for 10500 frames"));
  EXPECT_THAT(complaint("name_pattern: 'f%d.png'"), HasSubstr("one %c"));
  EXPECT_THAT(complaint(good + "num_frames: 5"), HasSubstr("names no shot of more than 5 frames"));
  EXPECT_THAT(complaint(good + "new_height: 5"), HasSubstr("both of new_height and new_width"));
  shots({{"5 1", 9}});
  EXPECT_THAT(complaint(good), AllOf(HasSubstr("frames in their order"), HasSubstr("1 after 5")));
  shots({{"1 11", 9}});
  EXPECT_THAT(complaint(good), HasSubstr("up to 9"));
  shots({{"1 x", 9}});
  EXPECT_THAT(complaint(good), HasSubstr("the number of a frame"));
  shots({{"1", 10}});
  EXPECT_THAT(complaint(good), HasSubstr("the shots are those of 10 frames, but the video has 9"));
  write_file(path("shots"), std::string("nothere 9\n"));
  EXPECT_THAT(complaint(good), AllOf(HasSubstr("shots:1: "), HasSubstr("nothere")));
  shots({{"1", 9}, {"1", 9}});
  EXPECT_THAT(complaint(good), HasSubstr("has 2 lines, one for each video; there are 1"));
  write_file(path("shots"), std::string("a\n"));
  EXPECT_THAT(complaint(good), HasSubstr("expected \"file frames\""));
}

}  // namespace
}  // namespace banyan::data
