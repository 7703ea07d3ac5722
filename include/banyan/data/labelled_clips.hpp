// Clips with numbers for each pixel of each frame, one file for each clip (C3D's nets with deconvolutions,
// CDC): five 32-bit integers, 1, channels, frames, height and width, and as many bytes or floats, whose
// last channels are not pixels: labels, or the truth of something else.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "banyan/data/augmenter.hpp"
#include "banyan/data/item_writer.hpp"
#include "banyan/data/record.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// Has the layer such clips?
bool reads_labelled_clips(const caffe::LayerParameter& layer);

/// Are there settings of the truth of VideoWithVoxelTruthData?
bool has_truth_settings(const caffe::ImageDataParameter& settings);

struct LabelledClipOptions {
  std::string root_folder;  ///< prepended to each path as is
  bool floats = false;      ///< files hold them, else bytes
  int truth_channels = 1;   ///< the last ones
};
/// A list names a file in each line. Throws bad_input. Records have the frames of a channel one after the
/// other as their channels, and the others after them in memory; numbers: how many frames.
std::shared_ptr<RecordSource> open_labelled_clips(const std::string& path,
                                                  const LabelledClipOptions& options);

/// Outputs: pixels channels x frames x H x W, changed by an Augmenter of all frames together, and the truth,
/// truth_channels x frames x H x W, cut at the same place and mirrored with them. A mean image has all
/// channels and frames.
class LabelledClipWriter : public ItemWriter {
 public:
  struct Options {
    int truth_channels = 1;
    float scale = 1;                               ///< of the truth
    std::optional<std::pair<float, float>> range;  ///< instead: becomes 0 to 1; what is beyond, 0 or 1
    bool flow = false;  ///< mirrored, the first channel of the truth changes its sign
  };
  LabelledClipWriter(const caffe::TransformationParameter& settings, const Options& options, bool random,
                     const ops::RandomKey& key, const std::string& layer);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  template <class T, class Stored>
  void write_truth(const Record& record, const Stored* truth, const Augmenter::Window& window,
                   const ItemShape& shape, T* to) const;

  Options options_;
  Augmenter augmenter_;
};

}  // namespace banyan::data
