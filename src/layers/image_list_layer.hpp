// What the layers have in common whose images are files named in a list: image_data_param. Internal to the
// room.
#pragma once

#include <algorithm>

#include "banyan/base/text.hpp"
#include "banyan/data/labelled_clips.hpp"
#include "layers/source_layer.hpp"

namespace banyan {

class ImageListLayer : public SourceLayer {
 public:
  using SourceLayer::SourceLayer;

 protected:
  /// Checks what not all of these layers have; throws bad_input.
  virtual void check_own_settings() const = 0;
  const caffe::ImageDataParameter& images() const { return parameter().image_data_param(); }

  Settings settings() const final {
    if (images().source().empty()) refuse("image_data_param.source", "is missing");
    if ((images().new_height() > 0) != (images().new_width() > 0))
      refuse("image_data_param", "must set both of new_height and new_width, or neither");
    constexpr std::uint32_t kMost = 1 << 15;
    if (std::max({images().new_height(), images().new_width(), images().short_side(), images().min_height(),
                  images().min_width()}) > kMost)
      refuse("image_data_param",
             cat("must have new_height, new_width, short_side, min_height and min_width of at most ", kMost));
    if (images().has_new_length() || images().has_sampling_rate() || images().has_show_data() ||
        images().has_use_image() || images().has_use_temporal_jitter())
      refuse("image_data_param", "has settings of C3D's VIDEO_DATA, whose type is VideoData");
    if (images().has_mean_value()) refuse("image_data_param.mean_value", "belongs into transform_param");
    if (data::has_truth_settings(images()))
      refuse("image_data_param", "has settings of C3D's VideoWithVoxelTruthData");
    if (images().dataset_share_per_node() != 1)
      refuse("image_data_param.dataset_share_per_node",
             "is not supported (except 1): it leaves out a part of the list; take its lines out of the file");
    check_pairs();
    check_own_settings();
    Settings settings;
    settings.field = "image_data_param";
    settings.batch_size = images().batch_size();
    settings.batch_size_is_total = images().batch_size_is_total();
    settings.epoch_end =
        images().epoch_end() == caffe::PARTIAL ? data::EpochEnd::partial : data::EpochEnd::wrap;
    settings.shuffle = images().shuffle();
    settings.together = images().pair_size();
    settings.random_skip = images().rand_skip();
    settings.threads =
        images().has_threads() ? static_cast<int>(std::clamp<std::uint32_t>(images().threads(), 1, 256)) : 1;
    return settings;
  }

 private:
  /// Batches begin with the first sample of a pair.
  void check_pairs() const {
    const std::uint32_t size = images().pair_size();
    if (size == 0) refuse("image_data_param.pair_size", "must be positive");
    if (images().batch_size() % size != 0)
      refuse("image_data_param.pair_size",
             cat(size, " must divide the batch_size, which is ", images().batch_size()));
    if (size > 1 && images().rand_skip() > 0)
      refuse("image_data_param.rand_skip", "could begin within a pair (pair_size): remove it");
  }
};

}  // namespace banyan
