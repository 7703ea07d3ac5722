// All calls of FFmpeg: libbanyan_ffmpeg.so.
extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/log.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "data/video_backend.hpp"

namespace banyan::data {
namespace {

constexpr std::int64_t kMostPixels = std::int64_t{1} << 25;  // a few damaged bytes can claim any size

struct Close {
  void operator()(AVFormatContext* of) const { avformat_close_input(&of); }
  void operator()(AVCodecContext* of) const { avcodec_free_context(&of); }
  void operator()(AVPacket* of) const { av_packet_free(&of); }
  void operator()(AVFrame* of) const { av_frame_free(&of); }
  void operator()(AVDictionary* of) const { av_dict_free(&of); }
  void operator()(SwsContext* of) const { sws_freeContext(of); }
};
template <class T>
using Owned = std::unique_ptr<T, Close>;

std::string words_of(int error) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  return av_strerror(error, text, sizeof text) == 0 ? text : cat("error ", error);
}

class FfmpegVideo : public VideoFile {
 public:
  explicit FfmpegVideo(std::string path)
      : path_(std::move(path)), packet_(av_packet_alloc()), frame_(av_frame_alloc()) {
    if (!packet_ || !frame_) throw std::bad_alloc();
    begin();
    list_frames();
    begin();
  }

  std::int64_t frames() const override { return frames_; }

  void read(std::int64_t first, std::int64_t step, int count,
            const std::function<void(int, Image&)>& take) override {
    for (int k = 0; k < count; ++k) {
      const std::int64_t wanted = first + k * step;
      if (at_ != wanted) go_to(wanted);
      convert();
      take(k, image_);
    }
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    bad_input("the video ", banyan::quoted(path_, 4096), parts...);
  }
  void check(int result) const {
    if (result < 0) refuse(" cannot be read: ", words_of(result));
  }

  /// Opens the file, so that the next picture is the first one.
  void begin() {
    decoder_.reset();
    file_.reset();
    // Nothing but files: a name that looks like an address is one, too.
    AVDictionary* options = nullptr;
    check(av_dict_set(&options, "protocol_whitelist", "file", 0));
    AVFormatContext* file = nullptr;
    const int opened = avformat_open_input(&file, ("file:" + path_).c_str(), nullptr, &options);
    const Owned<AVDictionary> unused(options);
    if (opened < 0) refuse(" cannot be opened: ", words_of(opened));
    file_.reset(file);
    check(avformat_find_stream_info(file_.get(), nullptr));
    const AVCodec* codec = nullptr;
    stream_ = av_find_best_stream(file_.get(), AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    if (stream_ < 0 || codec == nullptr) refuse(" has no pictures in a format that is known");
    decoder_.reset(avcodec_alloc_context3(codec));
    if (!decoder_) throw std::bad_alloc();
    check(avcodec_parameters_to_context(decoder_.get(), file_->streams[stream_]->codecpar));
    decoder_->thread_count = 1;  // the readers are as many threads as are wanted
    decoder_->max_pixels = kMostPixels;
    check(avcodec_open2(decoder_.get(), codec, nullptr));
    at_ = -1;
    ended_ = false;
    by_time_ = false;
  }

  bool next_packet() {
    for (;;) {
      av_packet_unref(packet_.get());
      const int result = av_read_frame(file_.get(), packet_.get());
      if (result == AVERROR_EOF) return false;
      check(result);
      if (packet_->stream_index == stream_ && packet_->size > 0) return true;
    }
  }

  /// How many there are, and, where packets say when theirs are shown, when.
  void list_frames() {
    bool timed = true;
    while (next_packet()) {
      if ((packet_->flags & AV_PKT_FLAG_DISCARD) != 0) continue;  // is decoded, but not shown
      ++frames_;
      timed = timed && packet_->pts != AV_NOPTS_VALUE;
      if (!timed) continue;
      times_.push_back(packet_->pts);
      if ((packet_->flags & AV_PKT_FLAG_KEY) != 0) keys_.push_back(packet_->pts);
    }
    std::sort(times_.begin(), times_.end());
    std::sort(keys_.begin(), keys_.end());
    if (!timed || std::adjacent_find(times_.begin(), times_.end()) != times_.end() || keys_.empty() ||
        keys_.front() != times_.front())
      times_.clear();
    if (frames_ == 0) refuse(" has no pictures");
  }

  void go_to(std::int64_t wanted) {
    if (wanted < 0 || wanted >= frames_)
      refuse(" has ", frames_, " pictures; number ", wanted, " (from 0) is not one");
    if (!times_.empty() && jump(wanted)) return;
    if (by_time_ || at_ > wanted) begin();
    while (at_ < wanted) step(wanted);
  }

  /// Goes on from the last picture before that needs no other, unless the way from here is shorter. False if
  /// the times of pictures are not those of the packets: then pictures are counted.
  bool jump(std::int64_t wanted) {
    const std::int64_t key = *std::prev(std::upper_bound(keys_.begin(), keys_.end(), times_[wanted]));
    const std::int64_t key_at = std::lower_bound(times_.begin(), times_.end(), key) - times_.begin();
    if (at_ < 0 || at_ > wanted || at_ < key_at) {
      if (av_seek_frame(file_.get(), stream_, key, AVSEEK_FLAG_BACKWARD) < 0) return forget_times();
      avcodec_flush_buffers(decoder_.get());
      ended_ = false;
      by_time_ = true;
      at_ = -1;
    }
    while (at_ != wanted)
      if (!decode() || !find_time() || at_ > wanted) return forget_times();
    return true;
  }

  bool forget_times() {
    times_.clear();
    return false;
  }

  /// The number of the picture in frame_.
  bool find_time() {
    const auto found = std::lower_bound(times_.begin(), times_.end(), frame_->best_effort_timestamp);
    if (found == times_.end() || *found != frame_->best_effort_timestamp) return false;
    at_ = found - times_.begin();
    return true;
  }

  void step(std::int64_t wanted) {
    if (!decode())
      refuse(" is damaged: it ends after ", at_ + 1, " of ", frames_, " pictures; number ", wanted,
             " (from 0) is wanted");
    ++at_;
  }

  /// The next picture; false after the last one.
  bool decode() {
    for (;;) {
      const int result = avcodec_receive_frame(decoder_.get(), frame_.get());
      if (result == 0) return true;
      if (result == AVERROR_EOF) return false;
      if (result != AVERROR(EAGAIN)) refuse(" is damaged: ", words_of(result));
      if (ended_) return false;
      ended_ = !next_packet();
      const int sent = avcodec_send_packet(decoder_.get(), ended_ ? nullptr : packet_.get());
      if (sent < 0) refuse(" is damaged: ", words_of(sent));
    }
  }

  void convert() {
    const int width = frame_->width, height = frame_->height;
    if (width < 1 || height < 1 || std::int64_t{width} * height > kMostPixels)
      refuse(" has pictures of an unusual size");
    SwsContext* const scaler =
        sws_getCachedContext(scaler_.release(), width, height, static_cast<AVPixelFormat>(frame_->format),
                             width, height, AV_PIX_FMT_BGR24, SWS_BICUBIC, nullptr, nullptr, nullptr);
    scaler_.reset(scaler);
    if (!scaler) refuse(" has pictures in a format that is not known");
    image_.channels = 3;
    image_.height = height;
    image_.width = width;
    image_.pixels.resize(3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
    // The library writes whole vectors, beyond the end of a row: rows of its own size, then.
    const int pitch = (3 * width + 63) / 64 * 64;
    rows_.resize(static_cast<std::size_t>(pitch) * static_cast<std::size_t>(height) + 64);
    std::uint8_t* const planes[4] = {rows_.data(), nullptr, nullptr, nullptr};
    const int pitches[4] = {pitch, 0, 0, 0};
    check(sws_scale(scaler, frame_->data, frame_->linesize, 0, height, planes, pitches));
    for (int y = 0; y < height; ++y)
      std::copy_n(rows_.data() + std::ptrdiff_t{y} * pitch, 3 * width,
                  image_.pixels.data() + std::ptrdiff_t{y} * 3 * width);
  }

  std::string path_;
  Owned<AVFormatContext> file_;
  Owned<AVCodecContext> decoder_;
  Owned<AVPacket> packet_;
  Owned<AVFrame> frame_;
  Owned<SwsContext> scaler_;
  int stream_ = -1;
  std::int64_t frames_ = 0;
  std::int64_t at_ = -1;  ///< number of the picture in frame_; -1: none
  bool ended_ = false;    ///< the decoder has got the last packet
  bool by_time_ = false;  ///< at_ was found by its time since the file was opened
  std::vector<std::int64_t> times_,
      keys_;  ///< of all pictures, and of those that need no other; in order, or empty
  std::vector<std::uint8_t> rows_;
  Image image_;
};

std::unique_ptr<VideoFile> open(const std::string& path) { return std::make_unique<FfmpegVideo>(path); }

constexpr VideoBackend kBackend{VideoBackend::kVersion, &open};

}  // namespace
}  // namespace banyan::data

extern "C" __attribute__((visibility("default"))) const banyan::data::VideoBackend* banyan_video_backend() {
  av_log_set_level(AV_LOG_QUIET);
  return &banyan::data::kBackend;
}
