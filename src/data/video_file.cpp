#include "data/video_file.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "base/sibling_library.hpp"
#include "data/video_backend.hpp"

namespace banyan::data {
namespace {

const LoadedBackend<VideoBackend>& video_backend() {
  static const auto loaded = load_part<VideoBackend>(
      "libbanyan_ffmpeg.so", "part for video files (libbanyan_ffmpeg.so)", kVideoBackendSymbol);
  return loaded;
}

class FrameReader : public RecordReader {
 public:
  FrameReader(std::string path, std::int64_t step)
      : path_(std::move(path)), step_(step), video_(open_video_file(path_)) {}

  void fetch(std::uint64_t position, Record& record) override {
    frame_ = static_cast<std::int64_t>(position) * step_;
    record.stored = {};  // a file is read while it is decoded
    record.label = 0;
    record.labels.clear();
    record.objects.clear();
  }
  void decode(Record& record) override {
    video_->read(frame_, 1, 1, [&](int, Image& frame) { std::swap(record.image, frame); });
    record.show_image();
  }
  std::string describe(std::uint64_t position) override {
    return cat("video ", banyan::quoted(path_), ", frame ", position * static_cast<std::uint64_t>(step_),
               " (counted from 0)");
  }

 private:
  std::string path_;
  std::int64_t step_, frame_ = 0;
  std::unique_ptr<VideoFile> video_;
};

class FrameSource : public RecordSource {
 public:
  FrameSource(const std::string& path, std::uint32_t skipped)
      : path_(path), step_(std::int64_t{skipped} + 1), frames_(frames_in(path)) {}
  std::uint64_t size() const override { return static_cast<std::uint64_t>((frames_ + step_ - 1) / step_); }
  std::string name() const override { return "video " + banyan::quoted(path_); }
  std::unique_ptr<RecordReader> reader() const override {
    return std::make_unique<FrameReader>(path_, step_);
  }

 private:
  std::string path_;
  std::int64_t step_, frames_;
};

}  // namespace

#ifdef BANYAN_WITH_FFMPEG
bool has_ffmpeg() { return true; }
#else
bool has_ffmpeg() { return false; }
#endif

void require_ffmpeg(const std::string& what) {
  if (!has_ffmpeg())
    bad_input(what,
              " needs FFmpeg, which this build of Banyan lacks: install libavformat-dev, libavcodec-dev and ",
              "libswscale-dev, and build again");
  if (video_backend().table == nullptr) bad_input(what, " needs FFmpeg: ", video_backend().why);
}

std::unique_ptr<VideoFile> open_video_file(const std::string& path) {
  require_ffmpeg(cat("reading ", banyan::quoted(path)));
  return video_backend().table->open(path);
}

std::int64_t frames_in(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::int64_t> counted;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = counted.find(path); found != counted.end()) return found->second;
  }
  const std::int64_t frames = open_video_file(path)->count_frames();
  const std::lock_guard lock(mutex);
  counted[path] = frames;
  return frames;
}

std::shared_ptr<RecordSource> open_video_frames(const std::string& path, std::uint32_t skipped) {
  return std::make_shared<FrameSource>(path, skipped);
}

}  // namespace banyan::data
