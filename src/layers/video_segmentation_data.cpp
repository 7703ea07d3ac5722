// VideoSegmentationData and VideoWithVoxelTruthData (C3D's nets with deconvolutions): clips with a label, or
// other numbers, for each pixel of each frame, one file for each clip, named in a list. Outputs: pixels N x C
// x frames x H x W and labels N x 1 x frames x H x W, or num_truth_channels of them.
#include <cmath>

#include "banyan/base/text.hpp"
#include "banyan/data/labelled_clips.hpp"
#include "layers/source_layer.hpp"

namespace banyan {
namespace {

class LabelledClipLayer : public SourceLayer {
 public:
  LabelledClipLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SourceLayer(parameter, options, {0, 0, 2, 2}, LayoutRule::contiguous) {}

 protected:
  Settings settings() const override {
    const caffe::ImageDataParameter& from = clips();
    if (from.source().empty()) refuse("image_data_param.source", "is missing");
    refuse_transform("image_data_param", from);
    if (from.has_mean_value()) refuse("image_data_param.mean_value", "belongs into transform_param");
    caffe::ImageDataParameter others = from;
    others.clear_source();
    others.clear_root_folder();
    others.clear_batch_size();
    others.clear_rand_skip();
    others.clear_shuffle();
    others.clear_show_data();
    if (has_truth()) {
      check_truth();
      others.clear_use_byte_input();
      others.clear_num_truth_channels();
      others.clear_is_flow();
      others.clear_truth_scale();
      others.clear_clip_min();
      others.clear_clip_max();
    }
    if (others.ByteSizeLong() > 0)
      refuse("image_data_param",
             cat("has settings that do not go with such clips: ", others.ShortDebugString()));
    return settings_of_list("image_data_param", from);
  }

  void check_transform() const override {
    SourceLayer::check_transform();
    if (parameter().transform_param().pad() > 0)
      refuse("transform_param.pad", "does not go with numbers for each pixel");
  }

  std::shared_ptr<data::RecordSource> open() const override {
    return data::open_labelled_clips(
        clips().source(),
        {clips().root_folder(), has_truth() && !clips().use_byte_input(), truth_channels()});
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource&) const override {
    data::LabelledClipWriter::Options writing;
    writing.truth_channels = truth_channels();
    writing.scale = clips().truth_scale();
    writing.flow = clips().is_flow();
    if (clips().has_clip_min()) writing.range = {clips().clip_min(), clips().clip_max()};
    return std::make_shared<data::LabelledClipWriter>(
        parameter().transform_param(), writing, options().phase == Phase::train, key_of("crop"), name());
  }

 private:
  const caffe::ImageDataParameter& clips() const { return parameter().image_data_param(); }
  bool has_truth() const { return type() == "VideoWithVoxelTruthData"; }
  int truth_channels() const { return has_truth() ? static_cast<int>(clips().num_truth_channels()) : 1; }
  void check_truth() const {
    constexpr std::uint32_t kMost = 1 << 16;
    if (const std::uint32_t count = clips().num_truth_channels(); count < 1 || count > kMost)
      refuse("image_data_param.num_truth_channels",
             cat("must be given, from 1 to ", kMost, ": the last channels of a file"));
    if (clips().has_clip_min() != clips().has_clip_max() ||
        (clips().has_clip_min() && !(std::isfinite(clips().clip_max() - clips().clip_min()) &&
                                     clips().clip_min() < clips().clip_max())))
      refuse("image_data_param.clip_min", "needs a greater clip_max, and clip_max a clip_min");
  }
};

const RegisterLayer<LabelledClipLayer> registered_video_segmentation_data(
    "VideoSegmentationData",
    {"clips with a label for each pixel of each frame, files named in a list (C3D)", "image_data_param", {}});
const RegisterLayer<LabelledClipLayer> registered_video_with_voxel_truth_data(
    "VideoWithVoxelTruthData",
    {"clips with numbers for each pixel of each frame, files named in a list (C3D)", "image_data_param", {}});

}  // namespace
}  // namespace banyan
