// ImageData: image files named in a list. As in Caffe, the number of prefetched batches is
// data_param.prefetch, and force_color and force_gray have no effect (is_color decides).
#include "banyan/data/image_list.hpp"
#include "layers/image_list_layer.hpp"

namespace banyan {

namespace {

class ImageDataLayer : public ImageListLayer {
 public:
  using ImageListLayer::ImageListLayer;

 protected:
  void check_own_settings() const override {
    if (images().scaled_decoding() && images().new_height() == 0)
      refuse("image_data_param.scaled_decoding",
             "needs new_height and new_width: they say how far down it may go");
    if (images().short_side() > 0 && images().new_height() > 0)
      refuse("image_data_param", "has short_side and new_height: give one of them");
    if ((images().min_height() > 0) != (images().min_width() > 0))
      refuse("image_data_param", "must set both of min_height and min_width, or neither");
    if (images().min_height() > 0 && (images().short_side() > 0 || images().new_height() > 0))
      refuse("image_data_param",
             "has min_height and min_width besides another size: give one of min_height, new_height and "
             "short_side");
    if (images().label_type() != caffe::ImageDataParameter::IMAGE)
      refuse("image_data_param.label_type",
             "must be IMAGE here: ImageSegData reads images with other labels");
    if (images().has_has_label()) refuse("image_data_param.has_label", "is ImageSegData's (DeepLab)");
    if (images().has_label_num())
      refuse("image_data_param.label_num", "is MultiLabelImageData's (PG-CNN): write label_dim");
    labels_per_line();
  }

  std::shared_ptr<data::RecordSource> open() const override {
    data::ImageListOptions options;
    options.root_folder = images().root_folder();
    options.new_height = static_cast<int>(images().new_height());
    options.new_width = static_cast<int>(images().new_width());
    options.short_side = static_cast<int>(images().short_side());
    options.min_height = static_cast<int>(images().min_height());
    options.min_width = static_cast<int>(images().min_width());
    options.scaled_decoding = images().scaled_decoding();
    options.labels = labels_per_line();
    options.classes = !images().has_label_dim() && !images().has_label_size();
    if (images().has_ignore_label()) options.unknown = static_cast<float>(images().ignore_label());
    options.color = images().is_color() ? data::ColorMode::bgr : data::ColorMode::gray;
    return data::open_image_list(images().source(), options);
  }

 private:
  int labels_per_line() const {
    if (images().has_label_dim() && images().has_label_size())
      refuse("image_data_param", "has label_dim and label_size, two names of the same: give one of them");
    const std::uint32_t labels = images().has_label_size() ? images().label_size() : images().label_dim();
    constexpr std::uint32_t kMost = 1 << 16;
    if (labels < 1 || labels > kMost)
      refuse("image_data_param.label_dim", cat("must be from 1 to ", kMost, ", not ", labels));
    return static_cast<int>(labels);
  }
};

const RegisterLayer<ImageDataLayer> registered_image_data(
    "ImageData", {"image files (JPEG, PNG, WebP, BMP) named in a list", "image_data_param", {}});

}  // namespace

}  // namespace banyan
