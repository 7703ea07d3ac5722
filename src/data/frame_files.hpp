// The frames of a record: files one after the other, or a video's, whose images become the channels of one.
// Internal to the room.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/record.hpp"
#include "banyan/io/atomic_file.hpp"

namespace banyan::data {

/// Where the channels of a frame are, and how far apart.
struct FrameChannels {
  std::ptrdiff_t first = 0, stride = 1;
};

class FrameFiles {
 public:
  static constexpr std::size_t kLargest = std::size_t{1} << 30;

  void clear(Record& record) {
    paths_.clear();
    ends_.clear();
    record.file.clear();
  }
  void add(const std::string& path, Record& record) {
    const std::string bytes = io::read_file(path, kLargest);
    record.file.insert(record.file.end(), bytes.begin(), bytes.end());
    paths_.push_back(path);
    ends_.push_back(record.file.size());
    record.stored = {record.file.data(), record.file.size()};
  }
  /// Resizes each frame if both are positive. `channels_of(f)`: FrameChannels of frame f.
  template <class ChannelsOf>
  void decode(Record& record, ColorMode color, int new_height, int new_width, const ChannelsOf& channels_of) {
    const int count = static_cast<int>(paths_.size());
    for (int f = 0; f < count; ++f) {
      decode_file(record, static_cast<std::size_t>(f), color);
      take(record, record.scratch, f, count, color, new_height, new_width, channels_of(f));
    }
    record.show_image();
  }
  /// Frame f of `count`, which may be overwritten, becomes channels of the record's image.
  void take(Record& record, Image& frame, int f, int count, ColorMode color, int new_height, int new_width,
            const FrameChannels& place) {
    const int each = color == ColorMode::gray ? 1 : 3;
    if (new_height > 0 && new_width > 0) {
      resize_bilinear(frame, new_height, new_width, resized_);
      std::swap(frame, resized_);
    }
    if (f == 0) {
      record.image = {each * count, frame.height, frame.width, {}};
      record.image.pixels.resize(frame.pixels.size() * static_cast<std::size_t>(count));
    } else if (frame.height != record.image.height || frame.width != record.image.width) {
      const std::string which = paths_.empty() ? cat("frame ", f) : "the frame " + banyan::quoted(paths_[f]);
      bad_input(which, " is ", frame.height, " x ", frame.width, ", but the first one is ",
                record.image.height, " x ", record.image.width);
    }
    const std::uint8_t* from = frame.pixels.data();
    std::uint8_t* to = record.image.pixels.data() + place.first;
    for (std::size_t i = 0; i < frame.pixels.size(); i += static_cast<std::size_t>(each)) {
      for (int c = 0; c < each; ++c) to[c * place.stride] = from[i + static_cast<std::size_t>(c)];
      to += record.image.channels;
    }
  }

 private:
  void decode_file(Record& record, std::size_t f, ColorMode color) const {
    const std::size_t begin = f == 0 ? 0 : ends_[f - 1];
    try {
      decode_image(reinterpret_cast<const std::uint8_t*>(record.file.data()) + begin, ends_[f] - begin, color,
                   record.scratch);
    } catch (const Error& error) {
      throw Error(error.kind(), banyan::quoted(paths_[f]) + ": " + error.message());
    }
  }

  std::vector<std::string> paths_;
  std::vector<std::size_t> ends_;  // where their bytes end
  Image resized_;
};

}  // namespace banyan::data
