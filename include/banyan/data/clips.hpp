// Clips of videos, which are folders of frames or files (C3D): a list names where each begins.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/data/augmenter.hpp"
#include "banyan/data/item_writer.hpp"
#include "banyan/data/record.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// Has this VideoData layer a list of clips? Otherwise its list names whole videos (data/video.hpp).
bool lists_clips(const caffe::LayerParameter& layer);

struct Clip {
  std::string folder;  ///< or file
  /// Number of its first frame; with draws_first, how many frames a folder has, from 1 on.
  int first = 1;
  int rate = 1;  ///< from one frame to the next, times that of the options
  std::int32_t label = 0;
  std::vector<float> labels;  ///< instead, where the options ask for several
  float overlap = 0;
};

struct ClipOptions {
  std::string root_folder;  ///< prepended to each folder as is
  int length = 1;           ///< frames of a clip
  int rate = 1;
  int most_rate = 0;         ///< if positive and `random`, a rate from 1 to this takes the place of `rate`
  bool draws_first = false;  ///< `random`: clips begin at any frame from which they fit; else at the first
  bool files = false;        ///< videos are files, with frames from 0 on, not folders of frames from 1 on
  int labels = 0;            ///< if positive, lines have labels below this, as in "1,4,7"
  bool overlaps = false;     ///< lines end with an overlap
  int new_height = 0, new_width = 0;  ///< resize if both are positive
  bool random = true;                 ///< draw, for each item
  ops::RandomKey key;
};

/// One `folder first label [rate [overlap]]` per line. Throws bad_input `file:line: ...`.
std::vector<Clip> read_clip_list(const std::string& path, const ClipOptions& options);

/// Records hold the frames' blue, then green, then red, so 3 x length channels; numbers: the overlap.
std::shared_ptr<RecordSource> open_clip_list(const std::string& path, const ClipOptions& options);

/// Throws bad_input for settings that a ClipWriter cannot follow; reads no file.
void check_clip_transform(const caffe::TransformationParameter& settings, const std::string& layer);

/// Outputs: pixels 3 x length x H x W, the label or labels, and with `overlaps` the overlap. An Augmenter of
/// all frames together; three mean values are those of the colours, a mean image is 3 x length x H x W.
class ClipWriter : public ItemWriter {
 public:
  ClipWriter(const caffe::TransformationParameter& settings, int length, bool overlaps, bool random,
             const ops::RandomKey& key, const std::string& layer);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  int length_;
  bool overlaps_;
  Augmenter augmenter_;
};

}  // namespace banyan::data
