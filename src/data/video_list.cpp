#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/video.hpp"
#include "data/frame_files.hpp"
#include "data/list_words.hpp"

namespace banyan::data {

namespace {

/// A pattern's %d with its width, and its %c.
struct Placeholders {
  std::size_t number = std::string::npos, number_end = 0, axis = std::string::npos;
  std::size_t width = 0;
  bool valid = true;
};

Placeholders placeholders_of(const std::string& pattern) {
  Placeholders found;
  for (std::size_t at = pattern.find('%'); at != std::string::npos; at = pattern.find('%', at + 1)) {
    std::size_t end = at + 1;
    if (end < pattern.size() && pattern[end] == 'c') {
      found.valid = found.valid && found.axis == std::string::npos;
      found.axis = at;
      continue;
    }
    // %d, %0Nd with N of one digit
    std::size_t width = 0;
    if (end + 1 < pattern.size() && pattern[end] == '0' &&
        std::isdigit(static_cast<unsigned char>(pattern[end + 1])) != 0) {
      width = static_cast<std::size_t>(pattern[end + 1] - '0');
      end += 2;
    }
    found.valid =
        found.valid && end < pattern.size() && pattern[end] == 'd' && found.number == std::string::npos;
    found.number = at;
    found.number_end = end + 1;
    found.width = width;
  }
  return found;
}

class VideoReader : public RecordReader {
 public:
  VideoReader(std::string name, std::shared_ptr<const std::vector<Video>> videos, const VideoOptions& options)
      : name_(std::move(name)), videos_(std::move(videos)), options_(options) {}

  void fetch(std::uint64_t position, Record& record) override {
    const Video& video = (*videos_)[position];
    files_.clear(record);
    if (options_.shots == 0) add_shot(video, {1, video.frames}, 0, record);
    const std::vector<Shot> shots = shots_of(video, record.item);
    for (std::size_t i = 0; i < shots.size(); ++i) add_shot(video, shots[i], static_cast<int>(i), record);
    record.label = video.label;
  }

  void decode(Record& record) override {
    const ColorMode color = options_.flow || options_.gray ? ColorMode::gray : ColorMode::bgr;
    files_.decode(record, color, options_.new_height, options_.new_width,
                  [&](int f) { return channels_of(f, color == ColorMode::gray ? 1 : 3); });
  }

  std::string describe(std::uint64_t position) override {
    return cat(name_, ", video ", position, " (counted from 0; ", banyan::quoted((*videos_)[position].folder),
               ")");
  }

 private:
  double draw(std::uint64_t item, std::uint64_t which) const {
    return ops::uniform01(ops::philox(options_.key.key(), item, which).v[0]);
  }
  /// As many as the options ask for; further ones of a video with fewer are any of them. Tests take them in
  /// turn.
  std::vector<Shot> shots_of(const Video& video, std::uint64_t item) const {
    constexpr std::uint64_t kOfShots = std::uint64_t{1} << 32;  // other draws are below
    const std::size_t count = video.shots.size();
    std::vector<Shot> all = video.shots, chosen;
    for (std::size_t i = 0; i < static_cast<std::size_t>(options_.shots); ++i) {
      const double drawn = options_.random ? draw(item, kOfShots + i) : 0;
      if (i < count) {
        std::swap(all[i], all[i + static_cast<std::size_t>(drawn * static_cast<double>(count - i))]);
        chosen.push_back(all[i]);
      } else {
        chosen.push_back(
            all[options_.random ? static_cast<std::size_t>(drawn * static_cast<double>(count)) : i % count]);
      }
    }
    return chosen;
  }

  /// The snippets of the shot in place `i`.
  void add_shot(const Video& video, const Shot& shot, int i, Record& record) {
    std::vector<double> draws;
    for (int s = 0; s < options_.segments; ++s)
      draws.push_back(draw(record.item, static_cast<std::uint64_t>(i * options_.segments + s)));
    std::vector<int> offsets =
        snippet_offsets(shot.frames, options_.segments, options_.length, options_.random ? &draws : nullptr);
    const int each = shot.frames / options_.segments;
    if (options_.length_first && options_.random && each < options_.length)
      for (int s = 0; s < options_.segments; ++s) offsets[static_cast<std::size_t>(s)] = s * each;
    for (int s = 0; s < options_.segments; ++s)
      add_snippet(video, s, shot.first - 1 + offsets[static_cast<std::size_t>(s)], each >= options_.length,
                  record);
  }

  void add_snippet(const Video& video, int segment, int offset, bool fits, Record& record) {
    const std::string axes = options_.flow ? "xy" : "x";
    const auto path = [&](int number, char axis) {
      return video.folder + "/" + frame_name(options_.pattern, number, axis);
    };
    const auto there = [&](int number) {
      std::error_code unknown;
      return std::all_of(axes.begin(), axes.end(),
                         [&](char axis) { return std::filesystem::exists(path(number, axis), unknown); });
    };
    int last = 0;  // that was there
    for (int frame = 1, k = 0; frame <= options_.length; frame += options_.step, ++k) {
      int number = offset + frame;
      if (options_.draws_step && options_.random && fits) {
        const auto place = static_cast<std::uint64_t>(options_.segments + segment * options_.length + k);
        number += static_cast<int>(ops::philox(options_.key.key(), record.item, place).v[0] %
                                   static_cast<std::uint32_t>(options_.step));
      }
      if (options_.length_first && !there(number) && last > 0)
        number = last;
      else
        last = offset + frame;
      for (const char axis : axes) files_.add(path(number, axis), record);
    }
  }

  /// Where the channels of image f are, and how far apart.
  FrameChannels channels_of(int f, int each) const {
    if (!options_.length_first) return {f * each, 1};
    const int frames = options_.length / options_.step, kinds = options_.flow ? 2 : 1;
    const int snippet = f / (frames * kinds), inside = f % (frames * kinds);
    return {(snippet * kinds * each + inside % kinds) * frames + inside / kinds, frames};
  }

  std::string name_;
  std::shared_ptr<const std::vector<Video>> videos_;
  VideoOptions options_;
  FrameFiles files_;
};

class VideoSource : public RecordSource {
 public:
  VideoSource(const std::string& path, const VideoOptions& options)
      : path_(path),
        videos_(std::make_shared<const std::vector<Video>>(read_videos(path, options))),
        options_(options) {}
  std::uint64_t size() const override { return videos_->size(); }
  std::string name() const override { return "video list " + banyan::quoted(path_); }
  std::unique_ptr<RecordReader> reader() const override {
    return std::make_unique<VideoReader>(name(), videos_, options_);
  }

 private:
  static std::vector<Video> read_videos(const std::string& path, const VideoOptions& options) {
    std::vector<Video> videos = read_video_list(path);
    if (options.shots > 0) read_shot_list(options.shot_list, options.length, options.flow, videos);
    return videos;
  }

  std::string path_;
  std::shared_ptr<const std::vector<Video>> videos_;
  VideoOptions options_;
};

/// Shots of one video with so many frames.
std::vector<Shot> read_shots(const std::string& path, int frames, int length, bool flow) {
  const std::string text = io::read_file(path, FrameFiles::kLargest);
  ListWords words(text, path);
  std::vector<Shot> shots;
  const auto add = [&](std::int64_t first, std::int64_t end) {
    const std::int64_t count = end - (flow ? 1 : 0) - first;
    if (count > length) shots.push_back({static_cast<int>(first), static_cast<int>(count)});
  };
  int first = 0;
  while (!words.done()) {
    const int next = words.number<int>("the number of a frame");
    if (next < first || next > frames)
      words.fail(cat("frames in their order, up to ", frames),
                 cat(next, first > 0 ? cat(" after ", first) : ""));
    if (first > 0) add(first, next);
    first = next;
  }
  // A number 0 is none.
  add(std::max(first, 1), std::int64_t{frames} + 1);
  return shots;
}

}  // namespace

bool shows_file(const caffe::LayerParameter& layer) {
  const caffe::VideoDataParameter& s = layer.video_data_param();
  return layer.type() == "VideoData" &&
         (s.has_video_type() || s.has_device_id() || s.has_video_file() || s.has_skip_frames());
}

bool reads_camera(const caffe::LayerParameter& layer) {
  return shows_file(layer) && layer.video_data_param().video_type() != caffe::VideoSource::VIDEO;
}

std::vector<Video> read_video_list(const std::string& path) {
  std::vector<Video> videos;
  for_each_line_of(path, [&](std::uint64_t number, const std::string& line) {
    std::istringstream words(line);
    Video video;
    std::string rest;
    if (!(words >> std::quoted(video.folder) >> video.frames >> video.label) || words >> rest ||
        video.frames < 1)
      bad_input(path, ":", number, ": expected \"folder frames label\" with at least one frame, found ",
                banyan::quoted(line));
    videos.push_back(std::move(video));
  });
  if (videos.empty()) bad_input("the list ", banyan::quoted(path), " lists no videos");
  return videos;
}

void read_shot_list(const std::string& path, int length, bool flow, std::vector<Video>& videos) {
  std::size_t count = 0;
  for_each_line_of(path, [&](std::uint64_t number, const std::string& line) {
    std::istringstream words(line);
    std::string file, rest;
    int frames = 0;
    if (!(words >> std::quoted(file) >> frames) || words >> rest || frames < 1)
      bad_input(path, ":", number, ": expected \"file frames\" with at least one frame, found ",
                banyan::quoted(line));
    if (count < videos.size()) {
      if (frames > videos[count].frames)
        bad_input(path, ":", number, ": the shots are those of ", frames, " frames, but the video has ",
                  videos[count].frames);
      try {
        videos[count].shots = read_shots(file, frames, length, flow);
      } catch (const Error& error) {
        throw Error(error.kind(), cat(path, ":", number, ": ", error.message()));
      }
      if (videos[count].shots.empty())
        bad_input(path, ":", number, ": ", banyan::quoted(file), " names no shot of more than ", length,
                  flow ? " pairs of frames" : " frames", ", of which a snippet has ", length);
    }
    ++count;
  });
  if (count != videos.size())
    bad_input("the list of shots ", banyan::quoted(path), " has ", count,
              " lines, one for each video; there are ", videos.size(), " videos");
}

std::vector<int> snippet_offsets(int frames, int segments, int length, const std::vector<double>* draws) {
  const int each = frames / segments, places = each - length + 1;
  std::vector<int> offsets;
  for (int s = 0; s < segments; ++s) {
    if (places < 1)
      offsets.push_back(0);
    else if (draws != nullptr)
      offsets.push_back(s * each + static_cast<int>((*draws)[static_cast<std::size_t>(s)] * places));
    else
      offsets.push_back(s * each + places / 2);
  }
  return offsets;
}

void check_frame_pattern(const std::string& pattern, bool flow, const std::string& where) {
  const Placeholders found = placeholders_of(pattern);
  const bool has_axis = found.axis != std::string::npos;
  if (!found.valid || found.number == std::string::npos || has_axis != flow ||
      (flow && found.axis > found.number))
    bad_input(where, " must have ",
              flow ? "one %c (x or y) and then one number, as in \"flow_%c_%04d.jpg\""
                   : "one number, as in \"image_%04d.jpg\"",
              ", not ", banyan::quoted(pattern));
}

std::string frame_pattern(const std::string& given, bool flow) {
  return !given.empty() ? given : flow ? "flow_%c_%04d.jpg" : "image_%04d.jpg";
}

std::string frame_name(const std::string& pattern, int frame, char axis) {
  const Placeholders found = placeholders_of(pattern);
  std::string digits = std::to_string(frame);
  if (digits.size() < found.width) digits.insert(0, found.width - digits.size(), '0');
  std::string name = pattern;
  name.replace(found.number, found.number_end - found.number, digits);
  if (found.axis != std::string::npos) name.replace(found.axis, 2, 1, axis);
  return name;
}

std::shared_ptr<RecordSource> open_video_list(const std::string& path, const VideoOptions& options) {
  return std::make_shared<VideoSource>(path, options);
}

}  // namespace banyan::data
