// BboxData (SqueezeDet's branch): images with the boxes of their objects, each of which are in a file of
// their own. Outputs: pixels, and N x 5T numbers, rows x1, y1, x2, y2 and class as the files have them, T
// being the most that an image of the list has; the rest are -1. Boxes do not follow what is done to the
// image, so it can be resized, which the files must know of, but neither cropped nor mirrored.
#include "banyan/base/text.hpp"
#include "banyan/data/image_list.hpp"
#include "layers/source_layer.hpp"

namespace banyan {

namespace {

class BboxDataLayer : public SourceLayer {
 public:
  using SourceLayer::SourceLayer;

 protected:
  Settings settings() const override {
    const caffe::BboxDataParameter& from = parameter().bbox_data_param();
    if (from.source().empty()) refuse("bbox_data_param.source", "is missing");
    if ((from.new_height() > 0) != (from.new_width() > 0))
      refuse("bbox_data_param", "must set both of new_height and new_width, or neither");
    constexpr std::uint32_t kMost = 1 << 15;
    if (from.new_height() > kMost || from.new_width() > kMost)
      refuse("bbox_data_param", cat("must have new_height and new_width of at most ", kMost));
    return settings_of_list("bbox_data_param", from);
  }

  void check_transform() const override {
    SourceLayer::check_transform();
    const caffe::TransformationParameter& transform = parameter().transform_param();
    if (transform.mirror()) refuse("transform_param.mirror", "is not supported: boxes would not follow");
    if (transform.resize_param_size() > 0)
      refuse("transform_param.resize_param", "is not supported: new_height and new_width resize");
    if (data::crop_of(transform).height > 0)
      refuse("transform_param", "must not crop: boxes would not follow");
  }

  std::shared_ptr<data::RecordSource> open() const override {
    const caffe::BboxDataParameter& from = parameter().bbox_data_param();
    data::ImageListOptions options;
    options.root_folder = from.root_folder();
    options.new_height = static_cast<int>(from.new_height());
    options.new_width = static_cast<int>(from.new_width());
    options.color = from.is_color() ? data::ColorMode::bgr : data::ColorMode::gray;
    options.box_files = true;
    return data::open_image_list(from.source(), options);
  }
};

const RegisterLayer<BboxDataLayer> registered_bbox_data(
    "BboxData", {"images with boxes around objects (SqueezeDet's branch)", "bbox_data_param", {}});

}  // namespace

}  // namespace banyan
