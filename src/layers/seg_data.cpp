// SegData (yjxiong): images with a label for each pixel, named in a list. Outputs: images and labels.
#include "banyan/data/segmentation.hpp"
#include "layers/source_layer.hpp"

namespace banyan {

namespace {

class SegDataLayer : public SourceLayer {
 public:
  SegDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SourceLayer(parameter, options, {0, 0, 2, 2}) {}

 protected:
  Settings settings() const override {
    const caffe::SegDataParameter& pairs = parameter().seg_data_param();
    if (pairs.source().empty()) refuse("seg_data_param.source", "is missing");
    if (pairs.batch_size() > 1 && parameter().transform_param().crop_size() == 0)
      refuse("seg_data_param.batch_size", "needs a crop_size: images of a batch have one size");
    Settings settings;
    settings.field = "seg_data_param";
    settings.batch_size = pairs.batch_size();
    settings.shuffle = pairs.shuffle();
    return settings;
  }

  void check_transform() const override {
    data::check_segmentation_transform(parameter().transform_param(), kChannels,
                                       {"stride", "upper_size", "upper_height", "upper_width"}, name());
  }

  std::shared_ptr<data::RecordSource> open() const override {
    data::SegmentationOptions options;
    options.root_folder = parameter().seg_data_param().root_dir();
    return data::open_segmentation_list(parameter().seg_data_param().source(), options);
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource&) const override {
    data::SegmentationWriter::Options writing;
    writing.pads = false;
    writing.random_crop = options().phase == Phase::train;
    writing.balance = parameter().seg_data_param().balance();
    return std::make_shared<data::SegmentationWriter>(parameter().transform_param(), kChannels, writing,
                                                      key_of("crop"));
  }

 private:
  static constexpr int kChannels = 3;
};

const RegisterLayer<SegDataLayer> registered_seg_data(
    "SegData", {"images with label images, named in a list (yjxiong)", "seg_data_param", {}});

}  // namespace

}  // namespace banyan
