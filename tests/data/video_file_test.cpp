// Video files, written here by FFmpeg's own encoders.
#include "data/video_file.hpp"

#ifdef BANYAN_WITH_FFMPEG
extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
}
#endif

#include <fstream>
#include <random>

#include "banyan/data/clips.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

#ifdef BANYAN_WITH_FFMPEG

struct Encoding {
  const char* file;  ///< its ending says the container
  AVCodecID codec;
  int group,
      between;  ///< pictures from one that needs no other to the next; at most so many that need a later one
};
constexpr Encoding kEncodings[] = {
    {"a.avi", AV_CODEC_ID_MPEG4, 12, 0}, {"b.avi", AV_CODEC_ID_MPEG4, 12, 2},
    {"c.mp4", AV_CODEC_ID_MPEG4, 10, 2}, {"d.mkv", AV_CODEC_ID_MPEG2VIDEO, 6, 2},
    {"e.avi", AV_CODEC_ID_MJPEG, 1, 0},  {"f.m2v", AV_CODEC_ID_MPEG2VIDEO, 6, 2},
    {"g.ts", AV_CODEC_ID_MPEG4, 12, 2},  {"h.ts", AV_CODEC_ID_MPEG2VIDEO, 9, 2}};

class VideoFiles : public FolderTest {
 protected:
  static constexpr int kFrames = 50, kHeight = 48, kWidth = 80;
  static int gray(int frame) { return 20 + 4 * frame; }  // 16 is black, 235 white

  static void expect_ok(int result) { ASSERT_GE(result, 0); }

  /// Frame i is gray(i) everywhere, so that a neighbour's would be noticed.
  void write(const Encoding& how, int frames = kFrames) {
    const std::string file = path(how.file);
    AVFormatContext* to = nullptr;
    expect_ok(avformat_alloc_output_context2(&to, nullptr, nullptr, file.c_str()));
    const AVCodec* codec = avcodec_find_encoder(how.codec);
    ASSERT_NE(codec, nullptr);
    AVStream* stream = avformat_new_stream(to, nullptr);
    AVCodecContext* encoder = avcodec_alloc_context3(codec);
    encoder->width = kWidth;
    encoder->height = kHeight;
    encoder->time_base = {1, 25};
    encoder->framerate = {25, 1};
    encoder->pix_fmt = how.codec == AV_CODEC_ID_MJPEG ? AV_PIX_FMT_YUVJ420P : AV_PIX_FMT_YUV420P;
    encoder->gop_size = how.group;
    encoder->max_b_frames = how.between;
    encoder->flags |= AV_CODEC_FLAG_QSCALE;
    encoder->global_quality = FF_QP2LAMBDA;
    if ((to->oformat->flags & AVFMT_GLOBALHEADER) != 0) encoder->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    expect_ok(avcodec_open2(encoder, codec, nullptr));
    expect_ok(avcodec_parameters_from_context(stream->codecpar, encoder));
    stream->time_base = encoder->time_base;
    expect_ok(avio_open(&to->pb, file.c_str(), AVIO_FLAG_WRITE));
    expect_ok(avformat_write_header(to, nullptr));
    AVFrame* frame = av_frame_alloc();
    frame->format = encoder->pix_fmt;
    frame->width = kWidth;
    frame->height = kHeight;
    expect_ok(av_frame_get_buffer(frame, 0));
    AVPacket* packet = av_packet_alloc();
    for (int i = 0; i <= frames; ++i) {
      expect_ok(av_frame_make_writable(frame));
      for (int plane = 0; plane < 3; ++plane)
        std::fill_n(frame->data[plane], frame->linesize[plane] * (plane == 0 ? kHeight : kHeight / 2),
                    static_cast<std::uint8_t>(plane == 0 ? gray(i) : 128));
      frame->pts = i;
      frame->quality = FF_QP2LAMBDA;
      expect_ok(avcodec_send_frame(encoder, i < frames ? frame : nullptr));
      while (avcodec_receive_packet(encoder, packet) == 0) {
        av_packet_rescale_ts(packet, encoder->time_base, stream->time_base);
        packet->stream_index = stream->index;
        packet->duration = av_rescale_q(1, encoder->time_base, stream->time_base);
        expect_ok(av_interleaved_write_frame(to, packet));
      }
    }
    expect_ok(av_write_trailer(to));
    av_packet_free(&packet);
    av_frame_free(&frame);
    avcodec_free_context(&encoder);
    avio_closep(&to->pb);
    avformat_free_context(to);
  }

  /// Of a pixel of the frame; MJPEG's gray has no margins.
  static int frame_of(const Encoding& how, double value) {
    const double gray = how.codec == AV_CODEC_ID_MJPEG ? value : 16 + value * 219 / 255;
    return static_cast<int>(std::lround((gray - 20) / 4));
  }
  static std::vector<int> numbers(VideoFile& video, const Encoding& how, int first, int step, int count) {
    std::vector<int> found;
    video.read(first, step, count, [&](int k, Image& image) {
      EXPECT_EQ(k, static_cast<int>(found.size()));
      EXPECT_EQ(image.channels, 3);
      EXPECT_EQ(image.height, kHeight);
      EXPECT_EQ(image.width, kWidth);
      EXPECT_EQ(image.pixels.size(), std::size_t{3} * kHeight * kWidth);
      const auto [least, most] = std::minmax_element(image.pixels.begin(), image.pixels.end());
      EXPECT_LE(*most - *least, 3);  // a gray frame: what the encoder and the colours' rounding leave
      found.push_back(frame_of(how, (*least + *most) / 2.0));
    });
    return found;
  }
  static std::vector<int> wanted(int first, int step, int count) {
    std::vector<int> found;
    for (int k = 0; k < count; ++k) found.push_back(first + k * step);
    return found;
  }
};

TEST_F(VideoFiles, GiveAnyFramesInAnyOrder) {
  for (const Encoding& how : kEncodings) {
    SCOPED_TRACE(how.file);
    write(how);
    const auto video = open_video_file(path(how.file));
    ASSERT_EQ(video->count_frames(), kFrames);
    EXPECT_EQ(numbers(*video, how, 0, 1, kFrames), wanted(0, 1, kFrames));
    std::mt19937 draws(7);
    for (int k = 0; k < 40; ++k) {
      const int step = 1 + static_cast<int>(draws() % 5), count = 1 + static_cast<int>(draws() % 8);
      const int first = static_cast<int>(draws() % static_cast<unsigned>(kFrames - (count - 1) * step));
      ASSERT_EQ(numbers(*video, how, first, step, count), wanted(first, step, count))
          << first << " " << step << " " << count;
    }
    EXPECT_THAT(bad_input_of([&] { numbers(*video, how, kFrames - 1, 1, 2); }),
                AllOf(HasSubstr(how.file), HasSubstr("has 50 pictures; number 50 (from 0) is not one")));
  }
}

TEST_F(VideoFiles, AreRefusedIfTheyAreNone) {
  EXPECT_THAT(bad_input_of([&] { open_video_file(path("none.avi")); }),
              AllOf(HasSubstr("none.avi"), HasSubstr("No such file")));
  write_file(path("text.avi"), std::string("no video at all\n"));
  EXPECT_THAT(bad_input_of([&] { open_video_file(path("text.avi")); }), HasSubstr("text.avi"));
  EXPECT_THAT(bad_input_of([&] { open_video_file("http://127.0.0.1/a.avi"); }), HasSubstr("No such file"));
}

/// A reader that begins in the middle gives what one gives that has read everything before.
TEST_F(VideoFiles, AreTheSameForAFreshReader) {
  for (const Encoding& how : kEncodings) {
    SCOPED_TRACE(how.file);
    write(how);
    std::vector<std::vector<std::uint8_t>> one_after_the_other;
    open_video_file(path(how.file))->read(0, 1, kFrames, [&](int, Image& image) {
      one_after_the_other.push_back(image.pixels);
    });
    for (int frame = 0; frame < kFrames; frame += 7)
      open_video_file(path(how.file))->read(frame, 1, 1, [&](int, Image& image) {
        EXPECT_EQ(image.pixels, one_after_the_other[static_cast<std::size_t>(frame)]) << frame;
      });
  }
}

TEST_F(VideoFiles, GoOnAfterAnError) {
  const Encoding& how = kEncodings[0];
  write(how);
  const auto video = open_video_file(path(how.file));
  EXPECT_THAT(bad_input_of([&] { numbers(*video, how, 48, 1, 9); }), HasSubstr("has 50 pictures"));
  EXPECT_EQ(numbers(*video, how, 49, 1, 1), wanted(49, 1, 1));
  std::filesystem::rename(path(how.file), path("moved"));
  EXPECT_THAT(bad_input_of([&] { numbers(*video, how, 5, 1, 1); }), HasSubstr("No such file"));
  EXPECT_THAT(bad_input_of([&] { numbers(*video, how, 5, 1, 1); }), HasSubstr("No such file"));
  std::filesystem::rename(path("moved"), path(how.file));
  EXPECT_EQ(numbers(*video, how, 5, 1, 2), wanted(5, 1, 2));
}

/// It would open other files, and wait for them.
TEST_F(VideoFiles, ArePlaylistsForNobody) {
  write(kEncodings[6]);
  write_file(path("list.mp4"), "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n" + path("g.ts") + "\n");
  EXPECT_THAT(bad_input_of([&] { open_video_file(path("list.mp4")); }), HasSubstr("in none of the formats"));
}

/// Damage may leave frames as they were, or end in an error: never in a crash or a hang.
TEST_F(VideoFiles, MayBeDamaged) {
  std::mt19937 draws(3);
  int refused = 0;
  for (const Encoding& how : kEncodings) {
    write(how, 14);
    std::string whole;
    {
      std::ifstream from(path(how.file), std::ios::binary);
      whole.assign(std::istreambuf_iterator<char>(from), {});
    }
    for (int k = 0; k < 60; ++k) {
      std::string damaged = whole;
      if (k % 3 == 0) damaged.resize(draws() % damaged.size());
      for (unsigned changes = draws() % 20; !damaged.empty() && changes > 0; --changes)
        damaged[draws() % damaged.size()] = static_cast<char>(draws());
      const std::string file = path(std::string("damaged_") + how.file);
      write_file(file, damaged);
      try {
        const auto video = open_video_file(file);
        const int count = static_cast<int>(std::min<std::int64_t>(video->count_frames(), 14));
        video->read(0, 1, count, [](int, Image&) {});
        video->read(count / 2, 1, 1, [](int, Image&) {});
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.message();
        EXPECT_THAT(error.message(), HasSubstr(how.file));
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 50);
}

class VideoFileClips : public VideoFiles {
 protected:
  static constexpr const Encoding& kHow = kEncodings[2];
  std::string text(const std::string& more) {
    return "name: 'v' type: 'VideoData' top: 'data' top: 'label' image_data_param { use_image: false source: "
           "'" +
           path("list") + "' root_folder: '" + folder_ + "/' " + more + " }";
  }
  /// Numbers of the frames of an item, by the first pixel of each.
  static std::vector<int> frames(Replica& replica, std::size_t item, std::size_t length, std::size_t pixels) {
    std::vector<int> found;
    for (std::size_t f = 0; f < length; ++f)
      found.push_back(frame_of(kHow, replica.values(0)[(item * 3 * length + f) * pixels]));
    return found;
  }
};

TEST_F(VideoFileClips, BeginAtTheFrameThatTheListNames) {
  write(kHow);
  write_file(path("list"), std::string("c.mp4 0 3\nc.mp4 16 4\nc.mp4 5 5 2\n"));
  for (const Phase phase : {Phase::train, Phase::test}) {
    Replica replica(text("batch_size: 3 new_length: 8 sampling_rate: 2"), 0, 1, phase);
    replica.step();
    ASSERT_EQ(replica.outputs[0]->shape, (Shape{3, 3, 8, kHeight, kWidth}));
    constexpr std::size_t kPixels = kHeight * kWidth;
    EXPECT_EQ(frames(replica, 0, 8, kPixels), wanted(0, 2, 8));
    EXPECT_EQ(frames(replica, 1, 8, kPixels), wanted(16, 2, 8));
    EXPECT_EQ(frames(replica, 2, 8, kPixels), wanted(5, 4, 8));
    EXPECT_EQ(replica.values(1), (std::vector<double>{3, 4, 5}));
  }
  Replica small(text("batch_size: 1 new_length: 2 new_height: 6 new_width: 5"));
  small.step();
  EXPECT_EQ(small.outputs[0]->shape, (Shape{1, 3, 2, 6, 5}));
}

/// The list's numbers of frames do not count: the file's does.
TEST_F(VideoFileClips, BeginAnywhereInTraining) {
  write(kHow);
  write_file(path("list"), std::string("c.mp4 0 1\n"));
  const std::string settings = "batch_size: 1 new_length: 16 sampling_rate: 3 use_temporal_jitter: true";
  Replica replica(text(settings));
  std::set<int> begins;
  for (int step = 0; step < 40; ++step) {
    replica.step();
    const std::vector<int> found = frames(replica, 0, 16, kHeight * kWidth);
    EXPECT_EQ(found, wanted(found[0], 3, 16));
    begins.insert(found[0]);
  }
  EXPECT_EQ(begins, (std::set<int>{0, 1, 2}));  // 50 - 16 x 3 + 1 places
  Replica tests(text(settings), 0, 1, Phase::test);
  tests.step();
  EXPECT_EQ(frames(tests, 0, 16, kHeight * kWidth), wanted(0, 3, 16));
}

TEST_F(VideoFileClips, ThatDoNotFitAreRefused) {
  write(kHow);
  const auto refusal = [&](const std::string& lines, const std::string& settings) {
    write_file(path("list"), lines);
    return bad_input_of([&] { Replica(text(settings)).step(); });
  };
  EXPECT_THAT(refusal("c.mp4 43 1\n", "new_length: 8"),
              AllOf(HasSubstr("c.mp4"), HasSubstr("has 50 pictures; number 50 (from 0) is not one")));
  EXPECT_THAT(refusal("c.mp4 0 1\n", "new_length: 51 use_temporal_jitter: true"),
              HasSubstr("a clip of 51 frames, each 1 after the one before, needs 51; the video has 50"));
  EXPECT_THAT(refusal("c.mp4 x 1\n", "new_length: 8"), HasSubstr("expected \"file first_frame label"));
  EXPECT_THAT(refusal("gone.mp4 0 1\n", "new_length: 8"), AllOf(HasSubstr("clip 0"), HasSubstr("gone.mp4")));
}

class VideoFileFrames : public VideoFiles {
 protected:
  static constexpr const Encoding& kHow = kEncodings[2];
  std::string text(const std::string& more, const std::string& transform = "", const std::string& top = "") {
    return "name: 'v' type: 'VideoData' top: 'data' " + top +
           " video_data_param { video_type: VIDEO video_file: '" + path("c.mp4") + "' " + more +
           " } data_param { batch_size: 4 } transform_param { " + transform + " }";
  }
};

TEST_F(VideoFileFrames, FollowOneAnother) {
  write(kHow);
  for (const int skipped : {0, 15}) {
    Replica replica(text("skip_frames: " + std::to_string(skipped)), 0, 1, Phase::test);
    for (int batch = 0; batch < 2; ++batch) {
      replica.step();
      ASSERT_EQ(replica.outputs[0]->shape, (Shape{4, 3, kHeight, kWidth}));
      for (int item = 0; item < 4; ++item) {
        const int of_file = skipped == 0 ? 50 : 4;  // 0, 16, 32 and 48
        EXPECT_EQ(frame_of(kHow, replica.values(0)[static_cast<std::size_t>(item) * 3 * kHeight * kWidth]),
                  (4 * batch + item) % of_file * (skipped + 1));
      }
    }
  }
  Replica resized(
      text("", "scale: 0.5 mean_value: 10 resize_param { resize_mode: WARP height: 20 width: 30 }"), 0, 1,
      Phase::test);
  resized.step();
  EXPECT_EQ(resized.outputs[0]->shape, (Shape{4, 3, 20, 30}));
  EXPECT_EQ(frame_of(kHow, 2 * resized.values(0)[1800 + 7] + 10), 1);
}

TEST_F(VideoFileFrames, RefuseWhatIsNotThere) {
  write(kHow);
  const auto refusal = [&](const std::string& layer) { return bad_input_of([&] { Replica(layer).step(); }); };
  EXPECT_THAT(refusal(text("", "", "top: 'label'")), HasSubstr("gives images only, for one top"));
  EXPECT_THAT(
      refusal("name: 'v' type: 'VideoData' top: 'd' video_data_param { video_file: 'x' } data_param { "
              "batch_size: 1 }"),
      HasSubstr("video_type must be VIDEO: cameras are not supported"));
  EXPECT_THAT(
      refusal("name: 'v' type: 'VideoData' top: 'd' video_data_param { video_type: VIDEO } data_param { "
              "batch_size: 1 }"),
      HasSubstr("video_file is missing"));
  EXPECT_THAT(
      refusal(text("batch_size: 9 new_height: 10")),
      HasSubstr(
          "has settings of lists beside a video_file: batch_size: 9 new_height: 10; the batch size is"));
}

#else

TEST(VideoFiles, NeedFfmpeg) {
  EXPECT_THAT(bad_input_of([] { open_video_file("a.avi"); }),
              HasSubstr("needs FFmpeg, which this build of Banyan lacks: install libavformat-dev"));
}

#endif

}  // namespace
}  // namespace banyan::data
