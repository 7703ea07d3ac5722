// FrcnnRoiData (a Faster R-CNN in C++, makefile/frcnn): images with the boxes of their objects, named in the
// list window_data_param.source. Outputs for one image per device: pixels (1 x 3 x H x W), im_info (1 x 3:
// height, width, scale) and true boxes (1 x rows x 5: x1, y1, x2, y2, class), as many rows as the list has
// boxes of one image; rows of class 0 are not used. The order is another one in each epoch. What its JSON
// file (window_data_param.config) says is in roi_data_param and transform_param (io/upgrade_frcnn.cpp).
#include "banyan/base/contains.hpp"
#include "banyan/data/augmenter.hpp"
#include "banyan/data/roi_list.hpp"
#include "layers/source_layer.hpp"

namespace banyan {

namespace {

class FrcnnRoiDataLayer : public SourceLayer {
 public:
  FrcnnRoiDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SourceLayer(parameter, options, {0, 0, 3, 3}) {}

 protected:
  Settings settings() const override {
    const caffe::WindowDataParameter& from = parameter().window_data_param();
    if (from.source().empty()) refuse("window_data_param.source", "is missing");
    const std::vector<std::string> known{"source", "root_folder", "cache_images", "batch_size", "config"};
    for (const auto* field : fields_of(from))
      if (!contains(known, field->name()))
        refuse("window_data_param." + field->name(), "has no meaning in FrcnnRoiData");
    if (from.has_batch_size() && from.batch_size() != 1)
      refuse("window_data_param.batch_size", "must be 1: images have different sizes");
    const caffe::RoiDataParameter& how = parameter().roi_data_param();
    constexpr float kLongest = 1 << 15;
    for (const float scale : how.scale())
      if (!(scale >= 1 && scale <= kLongest))
        refuse("roi_data_param.scale", cat("must be in [1, ", kLongest, "], not ", scale));
    if (!(how.max_size() >= 1 && how.max_size() <= kLongest))
      refuse("roi_data_param.max_size", cat("must be in [1, ", kLongest, "], not ", how.max_size()));
    if (how.align() < 1 || how.align() > 1024)
      refuse("roi_data_param.align", cat("must be in [1, 1024], not ", how.align()));
    Settings settings;
    settings.field = "window_data_param";
    settings.batch_size = 1;
    settings.shuffle = true;
    return settings;
  }

  void check_transform() const override {
    const caffe::TransformationParameter& transform = parameter().transform_param();
    for (const auto* field : fields_of(transform))
      if (field->name() != "mean_value" && field->name() != "mirror" && field->name() != "scale" &&
          !data::changes_nothing(transform, *field))
        refuse("transform_param." + field->name(),
               "is not supported: FrcnnRoiData has mean_value, mirror and scale");
    if (transform.mean_value_size() > 1 && transform.mean_value_size() != 3)
      refuse("transform_param.mean_value", cat("must have 1 or 3 values, not ", transform.mean_value_size()));
  }

  std::shared_ptr<data::RecordSource> open() const override {
    const caffe::WindowDataParameter& from = parameter().window_data_param();
    return data::open_roi_list(from.source(), from.root_folder());
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource& source) const override {
    const caffe::TransformationParameter& transform = parameter().transform_param();
    return std::make_shared<data::RoiWriter>(
        parameter().roi_data_param(), transform, transform.mirror() && options().phase == Phase::train,
        static_cast<const data::RoiSource&>(source).most_boxes(), key_of("image"));
  }

 private:
  static std::vector<const google::protobuf::FieldDescriptor*> fields_of(
      const google::protobuf::Message& message) {
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    return fields;
  }
};

const RegisterLayer<FrcnnRoiDataLayer> registered_frcnn_roi_data(
    "FrcnnRoiData", {.about = "images with boxes, named in a list (a Faster R-CNN in C++)",
                     .message = "window_data_param",
                     .examples = {},
                     .further = {"roi_data_param"}});

}  // namespace

}  // namespace banyan
