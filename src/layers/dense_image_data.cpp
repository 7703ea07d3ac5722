// DenseImageData (SegNet, ENet): images with a label for each pixel, or for each square of
// label_divide_factor pixels, named in a list. Outputs: images N x C x H x W, labels N x 1 x H/d x W/d.
#include <algorithm>

#include "banyan/base/text.hpp"
#include "banyan/data/segmentation.hpp"
#include "layers/source_layer.hpp"

namespace banyan {

namespace {

class DenseImageDataLayer : public SourceLayer {
 public:
  DenseImageDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SourceLayer(parameter, options, {0, 0, 2, 2}) {}

 protected:
  Settings settings() const override {
    const std::string field = "dense_image_data_param";
    const std::uint32_t height = dense().new_height(), width = dense().new_width();
    if (dense().source().empty()) refuse(field + ".source", "is missing");
    check_sides(height, width, "new_height", "new_width");
    check_sides(dense().crop_height(), dense().crop_width(), "crop_height", "crop_width");
    const std::int32_t divisor = dense().label_divide_factor();
    if (divisor < 1) refuse(field + ".label_divide_factor", cat("must be positive, not ", divisor));
    if (height > 0 && static_cast<std::uint32_t>(divisor) > std::min(height, width))
      refuse(field + ".label_divide_factor", cat("is ", divisor, ", more than new_height or new_width"));
    if (height > 0 && (dense().crop_height() > height || dense().crop_width() > width))
      refuse(field + ".crop_height", "and crop_width must not exceed new_height and new_width");
    Settings settings;
    settings.field = field;
    settings.batch_size = dense().batch_size();
    settings.shuffle = dense().shuffle();
    settings.random_skip = dense().rand_skip();
    return settings;
  }

  void check_transform() const override {
    const caffe::TransformationParameter& transform = parameter().transform_param();
    data::check_segmentation_transform(transform, channels(), {"crop_height", "crop_width"}, name());
    const bool cuts = std::max({transform.crop_size(), transform.crop_height(), transform.crop_width()}) > 0;
    if (own_crop() && cuts)
      refuse("dense_image_data_param.crop_height", "and a crop of transform_param exclude each other");
    if (dense().mirror() && transform.mirror())
      refuse("dense_image_data_param.mirror", "and transform_param.mirror exclude each other");
    if (dense().label_divide_factor() > 1 && (own_crop() || cuts))
      refuse("dense_image_data_param.label_divide_factor",
             "goes without a crop: a part of an image would need parts of labels");
  }

  std::shared_ptr<data::RecordSource> open() const override {
    data::SegmentationOptions options;
    options.root_folder = dense().root_folder();
    options.new_height = static_cast<int>(dense().new_height());
    options.new_width = static_cast<int>(dense().new_width());
    options.color = dense().is_color() ? data::ColorMode::bgr : data::ColorMode::gray;
    options.label_divisor = dense().label_divide_factor();
    options.label_sizes = true;
    return data::open_segmentation_list(dense().source(), options);
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource&) const override {
    data::SegmentationWriter::Options writing;
    writing.random_crop = own_crop() || options().phase == Phase::train;
    writing.pads = !own_crop();
    writing.label_divisor = dense().label_divide_factor();
    caffe::TransformationParameter transform = parameter().transform_param();
    if (dense().mirror()) transform.set_mirror(true);
    if (own_crop()) {
      transform.set_crop_height(dense().crop_height());
      transform.set_crop_width(dense().crop_width());
    }
    return std::make_shared<data::SegmentationWriter>(transform, channels(), writing, key_of("crop"));
  }

 private:
  void check_sides(std::uint32_t height, std::uint32_t width, const char* height_name,
                   const char* width_name) const {
    const std::string field = "dense_image_data_param";
    if ((height > 0) != (width > 0))
      refuse(field, cat("must set both of ", height_name, " and ", width_name, ", or neither"));
    constexpr std::uint32_t kMost = 1 << 15;
    if (std::max(height, width) > kMost)
      refuse(field, cat("must have ", height_name, " and ", width_name, " of at most ", kMost));
  }
  /// caffe-segnet-cudnn5's crop, at random in every phase; a smaller image is an error, as there.
  bool own_crop() const { return dense().crop_height() > 0; }
  const caffe::DenseImageDataParameter& dense() const { return parameter().dense_image_data_param(); }
  int channels() const { return dense().is_color() ? 3 : 1; }
};

const RegisterLayer<DenseImageDataLayer> registered_dense_image_data(
    "DenseImageData",
    {"images with label images, named in a list (SegNet, ENet)", "dense_image_data_param", {}});

}  // namespace

}  // namespace banyan
