// The VideoData layer with lists of clips (C3D).

#include "banyan/data/clips.hpp"

#include <cmath>
#include <map>
#include <set>

#include "banyan/data/video.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Frame n of video v has 20 v + n everywhere, 60 more in green and 120 more in red.
class Clips : public FolderTest {
 protected:
  static double value(int v, int n, int colour) { return 20 * v + n + 60 * colour; }

  void frame(int v, int n, const Image& image) {
    write_file(path("v" + std::to_string(v)) + "/" + frame_name("%06d.jpg", n, 'x'),
               encode_image(image, "png"));
  }
  void video(int v, int frames, int height = 4, int width = 6) {
    std::filesystem::create_directories(path("v" + std::to_string(v)));
    for (int n = 1; n <= frames; ++n) {
      Image image{3, height, width, {}};
      for (int i = 0; i < height * width; ++i)
        for (int c = 0; c < 3; ++c) image.pixels.push_back(static_cast<std::uint8_t>(value(v, n, c)));
      frame(v, n, image);
    }
  }
  void list(const std::string& lines) { write_file(path("list"), lines); }
  std::string text(const std::string& more, const std::string& transform = "",
                   const std::string& tops = "top: 'data' top: 'label'") {
    return "name: 'v' type: 'VideoData' " + tops + " video_data_param { use_image: true source: '" +
           path("list") + "' root_folder: '" + folder_ + "/' " + more + " } transform_param { " + transform +
           " }";
  }
  std::string first_version(const std::string& more, const std::string& tops = "top: 'data' top: 'label'") {
    return "name: 'v' type: 'VideoData' " + tops + " image_data_param { source: '" + path("list") +
           "' root_folder: '" + folder_ + "/' " + more + " }";
  }
  std::string refusal(const std::string& layer) {
    return bad_input_of([&] { Replica(layer).step(); });
  }
  std::string complaint(const std::string& lines, const ClipOptions& options = {}) {
    list(lines);
    return bad_input_of([&] { read_clip_list(path("list"), options); });
  }
  /// Numbers of the frames of an item, whose first colour they are, less 20 for each video.
  static std::vector<int> frames(Replica& replica, std::size_t item, std::size_t length, std::size_t pixels) {
    const std::vector<double> values = replica.values(0);
    std::vector<int> found;
    for (std::size_t f = 0; f < length; ++f)
      found.push_back(static_cast<int>(values[(item * 3 * length + f) * pixels]));
    return found;
  }
};

TEST_F(Clips, LinesNameFolderFirstFrameAndLabel) {
  list("a 7 3\r\n\n\"b c\" 0 -1 2\nd 1 4 3 0.25\n");
  const std::vector<Clip> clips = read_clip_list(path("list"), {});
  ASSERT_EQ(clips.size(), 3u);
  EXPECT_EQ(clips[0].folder, "a");
  EXPECT_EQ(clips[0].first, 7);
  EXPECT_EQ(clips[0].rate, 1);
  EXPECT_EQ(clips[0].label, 3);
  EXPECT_EQ(clips[1].folder, "b c");
  EXPECT_EQ(clips[1].rate, 2);
  EXPECT_EQ(clips[1].label, -1);
  EXPECT_EQ(clips[2].overlap, 0.25f);
  ClipOptions several;
  several.labels = 8;
  list("a 1 1,4,7\nb 1 0\n");
  const std::vector<Clip> sets = read_clip_list(path("list"), several);
  EXPECT_EQ(sets[0].labels, (std::vector<float>{0, 1, 0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(sets[1].labels, (std::vector<float>{1, 0, 0, 0, 0, 0, 0, 0}));
}

ClipOptions clip_options_of(int length, int rate = 1, bool draws_first = false) {
  ClipOptions options;
  options.length = length;
  options.rate = rate;
  options.draws_first = draws_first;
  return options;
}

TEST_F(Clips, LinesThatAreNoneAreRefused) {
  ClipOptions overlapping, several;
  overlapping.overlaps = true;
  several.labels = 8;
  for (const char* line : {"a 1", "a 1 x", "a x 1", "a -1 1", "a 1 1 0", "a 1 1 2 nan", "a 1 1 2 0.5 6", "a"})
    EXPECT_THAT(complaint(std::string("v 1 1\n") + line), HasSubstr("list:2: expected \"folder first_frame"))
        << line;
  EXPECT_THAT(complaint("\n"), HasSubstr("lists no clips"));
  EXPECT_THAT(complaint("a 2147483647 1"), HasSubstr("smaller numbers"));
  EXPECT_THAT(complaint("a 1 1 2147483647", clip_options_of(16)), HasSubstr("smaller numbers"));
  EXPECT_THAT(complaint("a 1 1 2", overlapping), HasSubstr("since the layer has three outputs"));
  for (const char* labels : {"8", "-1", "1,", "1,,2", "x"})
    EXPECT_THAT(complaint(std::string("a 1 ") + labels, several), HasSubstr("labels from 0 to 7"));
  EXPECT_THAT(complaint("a 0 1", clip_options_of(1, 1, true)), HasSubstr("folder frames label"));
  EXPECT_THAT(complaint("a 11 1 2", clip_options_of(3, 2, true)),
              HasSubstr("a clip of 3 frames, each 4 after the one before, needs 12"));
  list("a 12 1 2");
  EXPECT_EQ(read_clip_list(path("list"), clip_options_of(3, 2, true)).size(), 1u);
}

TEST_F(Clips, AreFramesAtEqualDistances) {
  video(0, 20);
  video(1, 20);
  list("v0 3 5\nv1 2 6 3\n");
  for (const bool first : {true, false}) {
    const std::string settings = "batch_size: 2 new_length: 3 sampling_rate: 2 show_data: 1";
    for (const Phase phase : {Phase::train, Phase::test}) {
      Replica replica(first ? first_version(settings + " use_image: true use_temporal_jitter: false")
                            : text("batch_size: 2 new_length: 3 sampling_rate: 2 show_data: true"),
                      0, 1, phase, true);
      EXPECT_EQ(replica.outputs[0]->shape, (Shape{2, 3, 3, 4, 6}));
      EXPECT_EQ(replica.step(), (std::vector<int>{5, 6}));
      const std::vector<double> values = replica.values(0);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const int item = static_cast<int>(i) / 216, colour = static_cast<int>(i) / 72 % 3,
                  f = static_cast<int>(i) / 24 % 3;
        EXPECT_EQ(values[i], item == 0 ? value(0, 3 + 2 * f, colour) : value(1, 2 + 6 * f, colour)) << i;
      }
    }
  }
}

TEST_F(Clips, FramesAreResized) {
  video(0, 2, 8, 12);
  list("v0 1 0\n");
  Replica replica(text("new_length: 2 new_height: 5 new_width: 7", "crop_size: 4"));
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 2, 4, 4}));
  replica.step();
  EXPECT_EQ(frames(replica, 0, 2, 16), (std::vector<int>{1, 2}));
}

TEST_F(Clips, TrainingBeginsAnywhereAndTestsAtTheFirstFrame) {
  video(0, 9);
  list("v0 9 0\n");
  const std::string jitter = "batch_size: 200 new_length: 3 sampling_rate: 2 use_temporal_jitter: true";
  Replica training(text(jitter)), test(text(jitter), 0, 1, Phase::test);
  training.step();
  std::map<int, int> starts;
  for (std::size_t i = 0; i < 200; ++i) {
    const std::vector<int> found = frames(training, i, 3, 24);
    ++starts[found[0]];
    EXPECT_EQ(found, (std::vector<int>{found[0], found[0] + 2, found[0] + 4}));
  }
  ASSERT_EQ(starts.size(), 4u);  // 9 - 3 * 2 + 1
  EXPECT_EQ(starts.begin()->first, 1);
  for (const auto& [start, count] : starts) EXPECT_GT(count, 20) << start;
  test.step();
  EXPECT_EQ(frames(test, 7, 3, 24), (std::vector<int>{1, 3, 5}));
}

TEST_F(Clips, RatesMayBeDrawn) {
  video(0, 8);
  const std::string jitter =
      "batch_size: 100 new_length: 2 sampling_rate: 2 max_sampling_rate: 3 use_sampling_rate_jitter: true ";
  const auto rates = [&](const std::string& more, Phase phase = Phase::train) {
    Replica replica(text(jitter + more), 0, 1, phase);
    replica.step();
    std::set<int> found;
    for (std::size_t i = 0; i < 100; ++i) {
      const std::vector<int> each = frames(replica, i, 2, 24);
      found.insert(each[1] - each[0]);
    }
    return found;
  };
  list("v0 2 0\n");
  EXPECT_EQ(rates(""), (std::set<int>{1, 2, 3}));
  EXPECT_EQ(rates("", Phase::test), (std::set<int>{2}));
  list("v0 2 0 2\n");
  EXPECT_EQ(rates(""), (std::set<int>{2, 4, 6}));
  list("v0 5 0\n");  // five frames: a rate of 3 would need six
  EXPECT_EQ(rates("use_temporal_jitter: true"), (std::set<int>{1, 2}));
}

TEST_F(Clips, MayHaveOverlapsAndSeveralLabels) {
  video(0, 2);
  list("v0 1 4 1 0.25\nv0 2 0 1 0.5\n");
  Replica overlaps(first_version("batch_size: 2 use_image: true", "top: 'data' top: 'label' top: 'overlap'"));
  overlaps.step();
  EXPECT_EQ(overlaps.outputs[2]->shape, (Shape{2}));
  EXPECT_EQ(overlaps.values(1), (std::vector<double>{4, 0}));
  EXPECT_EQ(overlaps.values(2), (std::vector<double>{0.25, 0.5}));
  Replica pixels(first_version("batch_size: 2 use_image: true", "top: 'data'"));
  pixels.step();
  EXPECT_EQ(pixels.outputs[0]->shape, (Shape{2, 3, 1, 4, 6}));
  list("v0 1 0,2\nv0 2 1\n");
  Replica several(text("batch_size: 2 use_multiple_label: true num_of_labels: 3"));
  EXPECT_EQ(several.outputs[1]->shape, (Shape{2, 3}));
  several.step();
  EXPECT_EQ(several.values(1), (std::vector<double>{1, 0, 1, 0, 1, 0}));
}

/// Pixels and means that are all different tell where each comes from, mirrored or not.
TEST_F(Clips, TheMeanIsAVolumeAndReadWhereTheClipIsCut) {
  constexpr int kHeight = 5, kWidth = 7, kLength = 2, kCrop = 3;
  std::filesystem::create_directories(path("v0"));
  const auto pixel = [](int n, int c, int y, int x) { return 10 * n + 50 * c + 8 * y + x; };
  for (int n = 1; n <= kLength; ++n) {
    Image image{3, kHeight, kWidth, {}};
    for (int y = 0; y < kHeight; ++y)
      for (int x = 0; x < kWidth; ++x)
        for (int c = 0; c < 3; ++c) image.pixels.push_back(static_cast<std::uint8_t>(pixel(n, c, y, x)));
    frame(0, n, image);
  }
  list("v0 1 0\n");
  std::vector<float> mean;
  for (int i = 0; i < 3 * kLength * kHeight * kWidth; ++i) mean.push_back(static_cast<float>(i) / 1024);
  caffe::BlobProto shaped, c3d;
  for (const int dim : {1, 3, kLength, kHeight, kWidth}) shaped.mutable_shape()->add_dim(dim);
  shaped.mutable_data()->Add(mean.begin(), mean.end());
  // Fields 1 to 5 and values in field 6.
  c3d.set_num(1);
  c3d.set_channels(3);
  c3d.set_height(kLength);
  c3d.set_width(kHeight);
  c3d.mutable_diff()->Add(mean.begin(), mean.end());
  write_file(path("shaped"), shaped.SerializeAsString());
  write_file(path("c3d"), c3d.SerializeAsString() + std::string{'\x28', static_cast<char>(kWidth)});
  for (const std::string file : {"shaped", "c3d"}) {
    Replica replica(text("batch_size: 400 new_length: 2",
                         "mirror: true crop_size: 3 scale: 2 mean_file: '" + path(file) + "'"));
    replica.step();
    const std::vector<double> values = replica.values(0);
    std::set<std::vector<int>> cuts;
    for (std::size_t i = 0; i < 400; ++i) {
      const auto at = [&](int c, int f, int y, int x) {
        return values[i * 54 + static_cast<std::size_t>(((c * kLength + f) * kCrop + y) * kCrop + x)];
      };
      const bool mirrored = at(0, 0, 0, 1) < at(0, 0, 0, 0);
      const int corner = static_cast<int>(std::lround(at(0, 0, 0, mirrored ? 2 : 0) / 2)) - pixel(1, 0, 0, 0);
      const int top = corner / 8, left = corner % 8;
      cuts.insert({top, left, mirrored});
      for (int c = 0; c < 3; ++c)
        for (int f = 0; f < kLength; ++f)
          for (int y = 0; y < kCrop; ++y)
            for (int x = 0; x < kCrop; ++x) {
              const int from_y = top + y, from_x = left + (mirrored ? kCrop - 1 - x : x);
              const int of_mean = ((c * kLength + f) * kHeight + from_y) * kWidth + from_x;
              EXPECT_EQ(at(c, f, y, x), 2 * (pixel(f + 1, c, from_y, from_x) - of_mean / 1024.0));
            }
    }
    EXPECT_EQ(cuts.size(), 30u);  // 3 x 5 places, each mirrored or not
  }
  EXPECT_THAT(refusal(text("new_length: 1", "mean_file: '" + path("c3d") + "'")),
              AllOf(HasSubstr("3 x 5 x 7"), HasSubstr("6 x 5 x 7")));
}

TEST_F(Clips, MeansAreThoseOfTheColours) {
  video(0, 2);
  list("v0 1 0\n");
  for (const std::string means : {"mean_value: 3", "mean_value: [1, 2, 4]"}) {
    Replica replica(text("new_length: 2", means));
    replica.step();
    const std::vector<double> values = replica.values(0);
    for (int c = 0; c < 3; ++c)
      for (int f = 0; f < 2; ++f)
        EXPECT_EQ(values[static_cast<std::size_t>((2 * c + f) * 24)],
                  value(0, f + 1, c) - (means == "mean_value: 3" ? 3 : 1 << c));
  }
}

/// The values of items from place `from` on, one after the other.
std::vector<std::vector<double>> serve_clips(const std::string& text, int devices, int steps,
                                             std::uint64_t from = 0) {
  std::vector<std::vector<double>> all;
  for (int rank = 0; rank < devices; ++rank) {
    Replica replica(text, rank, devices);
    if (from > 0) replica.source().seek(from);
    for (int k = 0; k < steps; ++k) {
      const std::size_t count = replica.step().size();
      const std::vector<double> pixels = replica.values(0);
      const auto each = static_cast<std::ptrdiff_t>(pixels.size() / count);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t place =
            (static_cast<std::size_t>(k) * count + i) * static_cast<std::size_t>(devices) +
            static_cast<std::size_t>(rank);
        all.resize(std::max(all.size(), place + 1));
        const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(i) * each;
        all[place].assign(first, first + each);
      }
    }
  }
  return all;
}

TEST_F(Clips, SeveralDevicesTogetherAreOneAndAnyPositionIsRepeated) {
  for (int v = 0; v < 3; ++v) video(v, 9 + v, 8, 9);
  list("v0 9 0\nv1 10 1\nv2 11 2\n");
  const std::string more =
      "new_length: 2 shuffle: true use_temporal_jitter: true use_sampling_rate_jitter: true "
      "max_sampling_rate: 3 ";
  const auto of = [&](int batch) {
    return text(more + "batch_size: " + std::to_string(batch), "crop_size: 5 mirror: true");
  };
  const auto one = serve_clips(of(4), 1, 3);
  EXPECT_EQ(serve_clips(of(2), 2, 3), one);
  EXPECT_EQ(serve_clips(of(4), 1, 1, 8), (std::vector<std::vector<double>>(one.begin() + 8, one.end())));
}

TEST_F(Clips, ReachingBeyondTheLastFrameIsAnErrorWithItsName) {
  video(0, 2);
  list("v0 2 0\n");
  EXPECT_THAT(refusal(text("new_length: 2")), AllOf(HasSubstr("clip 0"), HasSubstr("v0/000003.jpg")));
}

TEST_F(Clips, WhatIsNotReadIsRefused) {
  const std::string three = "top: 'a' top: 'b' top: 'c'";
  list("v0 1 0\n");
  EXPECT_THAT(refusal(first_version("new_length: 16", three)),
              HasSubstr("image_data_param.use_image must be given: true for folders of frames, false for"));
  EXPECT_THAT(
      refusal("name: 'v' type: 'VideoData' top: 'd' video_data_param { source: 's' sampling_rate: 1 }"),
      HasSubstr("video_data_param.use_image must be given"));
  EXPECT_THAT(refusal("name: 'v' type: 'VideoData' top: 'd' video_data_param { use_image: true }"),
              HasSubstr("video_data_param.source is missing"));
  EXPECT_THAT(refusal(first_version("use_image: true is_color: false")), HasSubstr("is_color must be true"));
  EXPECT_THAT(refusal(first_version("use_image: true short_side: 5")), HasSubstr("short_side does not go"));
  EXPECT_THAT(refusal(first_version("use_image: true pair_size: 2")), HasSubstr("pair_size does not go"));
  EXPECT_THAT(refusal(first_version("use_image: true mirror: true")),
              HasSubstr("mirror belongs into transform_param"));
  EXPECT_THAT(refusal(first_version("use_image: true new_height: 3")), HasSubstr("both of new_height"));
  EXPECT_THAT(refusal(first_version("use_image: true") + " video_data_param { }"),
              HasSubstr("does not go with video_data_param"));
  EXPECT_THAT(refusal(text("num_segments: 3")), HasSubstr("TSN's lists of videos and of C3D's"));
  EXPECT_THAT(refusal(text("device_id: 3")), HasSubstr("cameras are not supported"));
  EXPECT_THAT(refusal(text("new_length: 0")), HasSubstr("new_length must be in [1, 10000], not 0"));
  EXPECT_THAT(refusal(text("sampling_rate: 0")), HasSubstr("sampling_rate must be in [1, 10000], not 0"));
  EXPECT_THAT(refusal(text("max_sampling_rate: 0")), HasSubstr("max_sampling_rate must be in"));
  EXPECT_THAT(refusal(text("use_multiple_label: true")), HasSubstr("num_of_labels must be from 1"));
  EXPECT_THAT(refusal(text("", "mean_value: [1, 2]")), HasSubstr("expected 1, or 3 for the colours"));
  EXPECT_THAT(refusal(text("", "multi_scale: true crop_size: 2")), HasSubstr("multi_scale is not supported"));
}

}  // namespace
}  // namespace banyan::data
