// Snippets of videos that are stored as folders of frames (yjxiong's Caffe, TSN).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "banyan/data/box_geometry.hpp"
#include "banyan/data/item_writer.hpp"
#include "banyan/data/random_parts.hpp"
#include "banyan/data/record.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// Has this VideoData layer the settings of SSD's and NVIDIA's, for one video file or a camera?
bool shows_file(const caffe::LayerParameter& layer);
/// Is it for a camera, which is not supported?
bool reads_camera(const caffe::LayerParameter& layer);

/// Frames between two cuts.
struct Shot {
  int first = 1, frames = 0;
};
struct Video {
  std::string folder;
  int frames = 0, label = 0;
  std::vector<Shot> shots{};  ///< where a list names them
};
/// One `folder frames label` per line. Throws bad_input `file:line: ...`.
std::vector<Video> read_video_list(const std::string& path);
/// A line `file frames` for each video: the file holds the numbers of the frames with which its shots begin.
/// Pairs of frames (`flow`) are one fewer than frames. Only shots of more than `length` are taken. Throws
/// bad_input, also for a video without any.
void read_shot_list(const std::string& path, int length, bool flow, std::vector<Video>& videos);

/// How many frames come before the first one of each segment's snippet of `length` frames. With `draws` (one
/// number in [0, 1) per segment) at random within the segment, otherwise in its middle; 0 where segments are
/// shorter than a snippet.
std::vector<int> snippet_offsets(int frames, int segments, int length, const std::vector<double>* draws);

/// Throws bad_input unless the pattern has one number (%d or %0Nd) and, for flow, one %c before it.
void check_frame_pattern(const std::string& pattern, bool flow, const std::string& where);
/// The one that is given, or the usual one.
std::string frame_pattern(const std::string& given, bool flow);
/// The name of a frame (from 1); `axis` is x or y for flow.
std::string frame_name(const std::string& pattern, int frame, char axis);

struct VideoOptions {
  int segments = 1, length = 1;
  /// If positive, so many shots of a video, in training drawn without repetition as far as it has enough, are
  /// each taken for a video: `segments` snippets of each. Else there is no list of shots.
  int shots = 0;
  std::string shot_list;
  /// The frames of a snippet one after the other for each colour, or for x and then y. A file that is missing
  /// stands for the frame before it; snippets longer than their segment begin with it in training.
  bool length_first = false;
  int step = 1;             ///< of this many frames of a snippet the first one is taken; divides `length`
  bool draws_step = false;  ///< or, if `random`, any of them
  bool flow = false;        ///< two gray images (x, y) per frame, else one
  bool gray = false;        ///< frames as gray images
  std::string pattern;      ///< of the names of frames
  int new_height = 0, new_width = 0;  ///< resize if both are positive
  bool random = true;                 ///< draw where snippets begin, for each item
  ops::RandomKey key;
};
/// Records hold the channels of all frames of all snippets one after the other, or as length_first says.
std::shared_ptr<RecordSource> open_video_list(const std::string& path, const VideoOptions& options);

/// Throws bad_input for settings that a VideoWriter cannot follow.
void check_video_transform(const caffe::TransformationParameter& settings, const std::string& layer);

/// Outputs: pixels C x H x W, and the label. All channels are cut at the same place and mirrored together;
/// mirrored flow (is_flow) changes sign in x: even channels v become 255 - v, or, where `run` frames follow
/// each other (length_first), every second run of channels. The means repeat over the channels. Tests cut the
/// centre, as large as crop_size.
class VideoWriter : public ItemWriter {
 public:
  VideoWriter(const caffe::TransformationParameter& settings, bool random, const ops::RandomKey& key,
              int run = 1);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  PixelBox crop(const Record& record, std::uint64_t item, bool& mirror) const;

  caffe::TransformationParameter settings_;
  RandomParts parts_;
  bool random_;
  ops::RandomKey key_;
  int run_;
};

}  // namespace banyan::data
