// Video files, read by FFmpeg. Its part of Banyan, libbanyan_ffmpeg.so, is loaded with the first file.
// Internal to the room.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "banyan/data/image_codec.hpp"
#include "banyan/data/record.hpp"

namespace banyan::data {

bool has_ffmpeg();
/// Throws bad_input, beginning with `what`, if video files cannot be read.
void require_ffmpeg(const std::string& what);

/// One stream of pictures; for one thread at a time. Errors are bad_input and name the file.
class VideoFile {
 public:
  virtual ~VideoFile() = default;
  /// Decodes all of them.
  virtual std::int64_t count_frames() = 0;
  /// Frames first, first + step, first + 2 step... (from 0), `count` of them, as blue, green and red: `take`
  /// is called with the number of each (from 0) among them.
  virtual void read(std::int64_t first, std::int64_t step, int count,
                    const std::function<void(int, Image&)>& take) = 0;
};

std::unique_ptr<VideoFile> open_video_file(const std::string& path);
/// How many frames the file has, counted once in a process.
std::int64_t frames_in(const std::string& path);

/// Records are the frames of one file, of which `skipped` are left out after each.
std::shared_ptr<RecordSource> open_video_frames(const std::string& path, std::uint32_t skipped);

}  // namespace banyan::data
