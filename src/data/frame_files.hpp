// The frames of a record: files one after the other, whose images become the channels of one. Internal to the
// room.
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
    const int each = color == ColorMode::gray ? 1 : 3;
    const int channels = each * static_cast<int>(paths_.size());
    for (std::size_t f = 0; f < paths_.size(); ++f) {
      const Image& frame = decode_frame(record, f, color, new_height, new_width);
      if (f == 0) {
        record.image = {channels, frame.height, frame.width, {}};
        record.image.pixels.resize(frame.pixels.size() * paths_.size());
      } else if (frame.height != record.image.height || frame.width != record.image.width) {
        bad_input("the frame ", banyan::quoted(paths_[f]), " is ", frame.height, " x ", frame.width,
                  ", but the first one is ", record.image.height, " x ", record.image.width);
      }
      const std::uint8_t* from = frame.pixels.data();
      const FrameChannels place = channels_of(static_cast<int>(f));
      std::uint8_t* to = record.image.pixels.data() + place.first;
      for (std::size_t i = 0; i < frame.pixels.size(); i += static_cast<std::size_t>(each)) {
        for (int c = 0; c < each; ++c) to[c * place.stride] = from[i + static_cast<std::size_t>(c)];
        to += channels;
      }
    }
    record.show_image();
  }

 private:
  const Image& decode_frame(Record& record, std::size_t f, ColorMode color, int new_height, int new_width) {
    const std::size_t begin = f == 0 ? 0 : ends_[f - 1];
    Image& frame = record.scratch;
    try {
      decode_image(reinterpret_cast<const std::uint8_t*>(record.file.data()) + begin, ends_[f] - begin, color,
                   frame);
    } catch (const Error& error) {
      throw Error(error.kind(), banyan::quoted(paths_[f]) + ": " + error.message());
    }
    if (new_height > 0 && new_width > 0) {
      resize_bilinear(frame, new_height, new_width, resized_);
      std::swap(frame, resized_);
    }
    return frame;
  }

  std::vector<std::string> paths_;
  std::vector<std::size_t> ends_;  // where their bytes end
  Image resized_;
};

}  // namespace banyan::data
