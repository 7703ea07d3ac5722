// ImageSegData: images with a label for each pixel, named in a list (PSPNet, DeepLab). Outputs: images and,
// if wanted, labels, and the images' heights and widths. WindowSegData (DeconvNet) takes a window of each
// image, with which its line ends. SelectSegBinary (DecoupledNet) too, and then a number for each class, 1
// for those that are wanted: the third output (N x classes x 1 x 1), and the labels of its pixels.
#include "banyan/data/segmentation.hpp"
#include "layers/image_list_layer.hpp"

namespace banyan {

namespace {

class ImageSegDataLayer : public ImageListLayer {
 public:
  ImageSegDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : ImageListLayer(parameter, options, {0, 0, parameter.type() == kSelects ? 3 : 1, 3}) {}

 protected:
  void check_own_settings() const override {
    if (images().ignore_label() < 0 || images().ignore_label() > 255)
      refuse("image_data_param.ignore_label", cat("must be in [0, 255], not ", images().ignore_label()));
    if (images().label_dim() != 1 || images().label_size() != 1)
      refuse("image_data_param.label_dim", "is for ImageData only");
    if (images().scaled_decoding() || images().short_side() > 0 || images().min_height() > 0 ||
        images().min_width() > 0)
      refuse("image_data_param",
             "has scaled_decoding, short_side, min_height or min_width, which ImageSegData does not support");
    if (!selects()) return;
    constexpr std::uint32_t kMost = 1 << 16;
    if (classes() < 1 || classes() > kMost)
      refuse("window_cls_data_param.label_dim", cat("must be from 1 to ", kMost, ", not ", classes()));
    if (images().label_values() != caffe::ImageDataParameter::STORED)
      refuse("image_data_param.label_values", "must be STORED: the labels of the list take their place");
  }

  void check_transform() const override {
    data::check_segmentation_transform(parameter().transform_param(), channels(),
                                       {"crop_height", "crop_width", "scale_factors"}, name());
  }

  std::shared_ptr<data::RecordSource> open() const override {
    data::SegmentationOptions options;
    options.root_folder = images().root_folder();
    options.new_height = static_cast<int>(images().new_height());
    options.new_width = static_cast<int>(images().new_width());
    options.color = images().is_color() ? data::ColorMode::bgr : data::ColorMode::gray;
    options.labels = images().label_type();
    options.ignore_label = images().ignore_label();
    options.gray_labels = images().label_values() != caffe::ImageDataParameter::STORED;
    options.windows = type() == "WindowSegData" || selects();
    if (selects()) {
      options.class_numbers = static_cast<int>(classes());
      options.class_base = parameter().select_seg_binary_param().cls_label_base();
    }
    return data::open_segmentation_list(images().source(), options);
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource&) const override {
    data::SegmentationWriter::Options writing;
    writing.ignore_label = images().ignore_label();
    writing.label_values = images().label_values();
    writing.random_crop = options().phase == Phase::train;
    if (selects()) writing.class_numbers = static_cast<int>(classes());
    return std::make_shared<data::SegmentationWriter>(parameter().transform_param(), channels(), writing,
                                                      key_of("crop"));
  }

 private:
  static constexpr const char* kSelects = "SelectSegBinary";

  bool selects() const { return type() == kSelects; }
  std::uint32_t classes() const { return parameter().window_cls_data_param().label_dim(); }
  int channels() const { return images().is_color() ? 3 : 1; }
};

const RegisterLayer<ImageSegDataLayer> registered_image_seg_data(
    "ImageSegData", {"images with label images, named in a list", "image_data_param", {}});
const RegisterLayer<ImageSegDataLayer> registered_window_seg_data(
    "WindowSegData",
    {"windows of images with label images, named in a list (DeconvNet)", "image_data_param", {}});
const RegisterLayer<ImageSegDataLayer> registered_select_seg_binary(
    "SelectSegBinary", {.about = "windows of images with the pixels of wanted classes (DecoupledNet)",
                        .message = "image_data_param",
                        .examples = {},
                        .further = {"window_cls_data_param", "select_seg_binary_param"}});

}  // namespace

}  // namespace banyan
