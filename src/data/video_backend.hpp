// The interface between libbanyan and what calls FFmpeg, a separate library (libbanyan_ffmpeg.so) that is
// loaded with the first video file. The library exports one C function, `banyan_video_backend`, which returns
// this table.
#pragma once

#include <memory>
#include <string>

#include "data/video_file.hpp"

namespace banyan::data {

struct VideoBackend {
  /// Counts changes to this struct, to VideoFile and to Image: a library from another build is refused, not
  /// called.
  static constexpr int kVersion = 1;
  int version;
  std::unique_ptr<VideoFile> (*open)(const std::string& path);
};

inline constexpr const char* kVideoBackendSymbol = "banyan_video_backend";
/// Type of the exported function: `extern "C" const banyan::data::VideoBackend* banyan_video_backend();`

}  // namespace banyan::data
