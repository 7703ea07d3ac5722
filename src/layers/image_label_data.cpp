// ImageLabelData: images with a label for each pixel, or for each that label_slice chooses; named in two
// lists (caffe-dilation) or, with a backend, in two databases (caffe-jacinto). Outputs: images, labels.
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "banyan/base/text.hpp"
#include "banyan/data/label_slices.hpp"
#include "banyan/data/leveldb.hpp"
#include "banyan/data/lmdb_source.hpp"
#include "banyan/data/segmentation.hpp"
#include "layers/source_layer.hpp"

namespace banyan {

namespace {

class ImageLabelDataLayer : public SourceLayer {
 public:
  ImageLabelDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SourceLayer(parameter, options, {0, 0, 2, 2}) {}

 protected:
  Settings settings() const override {
    const std::string field = "image_label_data_param";
    if (pairs().image_list_path().empty()) refuse(field + ".image_list_path", "is missing");
    if (pairs().label_list_path().empty()) refuse(field + ".label_list_path", "is missing");
    if (pairs().has_backend() && pairs().backend() != caffe::DataParameter::LMDB &&
        pairs().backend() != caffe::DataParameter::LEVELDB)
      refuse(field + ".backend", "must be LMDB or LEVELDB");
    Settings settings;
    settings.field = field;
    settings.batch_size = pairs().batch_size();
    settings.shuffle = pairs().shuffle();
    settings.random_skip = pairs().rand_skip();
    settings.threads = static_cast<int>(std::clamp<std::uint32_t>(pairs().threads(), 1, 256));
    return settings;
  }

  void check_transform() const override {
    constexpr int kChannels = 3;
    data::check_segmentation_transform(parameter().transform_param(), kChannels, {}, name());
    writer();
  }

  std::shared_ptr<data::RecordSource> open() const override {
    if (pairs().has_backend())
      return data::pair_sources(open_database(pairs().image_list_path(), data::ColorMode::bgr),
                                open_database(pairs().label_list_path(), data::ColorMode::labels));
    std::error_code ignored;
    if (std::filesystem::is_directory(pairs().image_list_path(), ignored))
      refuse("image_label_data_param.image_list_path",
             "is a folder; databases need a backend, LMDB or LEVELDB");
    const bool one_folder = pairs().image_dir().empty() && pairs().label_dir().empty();
    data::SegmentationOptions options;
    options.root_folder = one_folder ? pairs().data_dir() : pairs().image_dir();
    options.label_list = pairs().label_list_path();
    options.label_folder = one_folder ? pairs().data_dir() : pairs().label_dir();
    return data::open_segmentation_list(pairs().image_list_path(), options);
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource&) const override {
    return writer();
  }

 private:
  const caffe::ImageLabelDataParameter& pairs() const { return parameter().image_label_data_param(); }

  std::shared_ptr<const data::ItemWriter> writer() const {
    return std::make_shared<data::LabelSliceWriter>(pairs(), parameter().transform_param(),
                                                    options().phase == Phase::train, key_of("crop"), name());
  }

  std::shared_ptr<data::RecordSource> open_database(const std::string& folder, data::ColorMode color) const {
    if (pairs().backend() == caffe::DataParameter::LEVELDB)
      return data::open_leveldb(folder, {color, pairs().shuffle(), false});
    return data::open_lmdb(folder, {color, pairs().shuffle(), false});
  }
};

const RegisterLayer<ImageLabelDataLayer> registered_image_label_data(
    "ImageLabelData", {"images with label images, in two lists or databases", "image_label_data_param", {}});

}  // namespace

}  // namespace banyan
