// All calls of FFmpeg: libbanyan_ffmpeg.so.
extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/log.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <cerrno>
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

/// Containers and streams of one file each: playlists would open others, and may wait for them.
constexpr const char* kFormats =
    "apng,asf,avi,dv,flv,gif,h264,hevc,ivf,m4v,matroska,mjpeg,mov,mpeg,mpegts,mpegvideo,mxf,nut,obu,ogg,rm,"
    "vc1,webm,"
    "wtv,yuv4mpegpipe";

/// Pictures are numbered as the decoder gives them from the beginning of the file, so a picture that is not
/// the next one is reached by decoding all before it: what a file says of times and of places to jump to
/// differs from format to format, and decoders make up what is missing after a jump.
class FfmpegVideo : public VideoFile {
 public:
  explicit FfmpegVideo(std::string path)
      : path_(std::move(path)), packet_(av_packet_alloc()), frame_(av_frame_alloc()) {
    if (!packet_ || !frame_) throw std::bad_alloc();
    begin();
  }

  std::int64_t count_frames() override {
    std::int64_t count = 0;
    beginning_again([&] {
      begin();
      while (decode()) ++count;
      if (count == 0) refuse(" has no pictures");
      begin();
    });
    return count;
  }

  void read(std::int64_t first, std::int64_t step, int count,
            const std::function<void(int, Image&)>& take) override {
    beginning_again([&] {
      for (int k = 0; k < count; ++k) {
        go_to(first + k * step);
        convert();
        take(k, image_);
      }
    });
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    bad_input("the video ", banyan::quoted(path_, 4096), parts...);
  }
  void check(int result) const {
    if (result < 0) refuse(" cannot be read: ", words_of(result));
  }

  /// After an error the next use begins again.
  template <class Use>
  void beginning_again(const Use& use) {
    try {
      use();
    } catch (...) {
      decoder_.reset();
      throw;
    }
  }

  /// Opens the file, so that the next picture is the first one.
  void begin() {
    decoder_.reset();
    file_.reset();
    at_ = -1;
    ended_ = damaged_ = false;
    AVDictionary* options = nullptr;
    check(av_dict_set(&options, "protocol_whitelist", "file", 0));
    check(av_dict_set(&options, "format_whitelist", kFormats, 0));
    AVFormatContext* file = nullptr;
    const int opened = avformat_open_input(&file, ("file:" + path_).c_str(), nullptr, &options);
    const Owned<AVDictionary> unused(options);
    if (opened == AVERROR(EINVAL)) refuse(" cannot be opened: it is in none of the formats that are read");
    if (opened < 0) refuse(" cannot be opened: ", words_of(opened));
    file_.reset(file);
    check(avformat_find_stream_info(file_.get(), nullptr));
    stream_ = av_find_best_stream(file_.get(), AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
    const AVCodec* const codec =
        stream_ < 0 ? nullptr : avcodec_find_decoder(file_->streams[stream_]->codecpar->codec_id);
    if (codec == nullptr) refuse(" has no pictures in a format that is known");
    decoder_.reset(avcodec_alloc_context3(codec));
    if (!decoder_) throw std::bad_alloc();
    check(avcodec_parameters_to_context(decoder_.get(), file_->streams[stream_]->codecpar));
    decoder_->thread_count = 1;  // the readers are as many threads as are wanted
    decoder_->max_pixels = kMostPixels;
    check(avcodec_open2(decoder_.get(), codec, nullptr));
  }

  bool next_packet() {
    for (;;) {
      av_packet_unref(packet_.get());
      const int result = av_read_frame(file_.get(), packet_.get());
      if (result == AVERROR_EOF) return false;
      if (result < 0) {
        damaged_ = true;
        return false;
      }
      if (packet_->stream_index == stream_ && packet_->size > 0) return true;
    }
  }

  void go_to(std::int64_t wanted) {
    if (wanted < 0) refuse(" has no picture of a number below 0");
    if (!decoder_ || at_ > wanted) begin();
    while (at_ < wanted) {
      if (decode())
        ++at_;
      else if (damaged_)
        refuse(" is damaged after ", at_ + 1, " pictures; number ", wanted, " (from 0) is wanted");
      else
        refuse(" has ", at_ + 1, " pictures; number ", wanted, " (from 0) is not one");
    }
  }

  /// The next picture; false after the last one, or where what follows is damaged.
  bool decode() {
    for (;;) {
      const int result = avcodec_receive_frame(decoder_.get(), frame_.get());
      if (result == 0) return true;
      if (result != AVERROR_EOF && result != AVERROR(EAGAIN)) damaged_ = true;
      if (result != AVERROR(EAGAIN) || ended_) return false;
      ended_ = !next_packet();
      const int sent = avcodec_send_packet(decoder_.get(), ended_ ? nullptr : packet_.get());
      if (sent >= 0 || ended_) continue;
      // What the decoder has got before is still to come.
      damaged_ = ended_ = true;
      avcodec_send_packet(decoder_.get(), nullptr);
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
  std::int64_t at_ = -1;  ///< number of the picture in frame_; -1: none
  bool ended_ = false;    ///< the decoder has got all packets
  bool damaged_ = false;  ///< but not what follows them in the file
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
