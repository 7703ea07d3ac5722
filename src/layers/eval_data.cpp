// EvalData (Cascade R-CNN): images with the boxes of their objects, in the order of a list
// (data/box_list.hpp). Outputs: images N x 3 x H x W; 1 x 1 x rows x 8: image in the device's part of the
// batch, x1, y1, x2, y2, label, whether it is ignored, whether it is difficult; and perhaps N x 2, the
// images' heights and widths. The number of rows is the next power of two; the rest are -1.
//
// Images are resized to resize_width x resize_height, or by short_size / their shorter side, each side to
// long_size at most; then each side is rounded to a multiple of 32. Boxes follow.
#include "banyan/data/field_data.hpp"
#include "layers/source_layer.hpp"

namespace banyan {
namespace {

class EvalDataLayer : public SourceLayer {
 public:
  EvalDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SourceLayer(parameter, options, {0, 0, 2, 3}) {}

 protected:
  Settings settings() const override {
    const auto& from = parameter().eval_data_param();
    if (from.source().empty()) refuse("eval_data_param.source", "is missing");
    Settings settings;
    settings.field = "eval_data_param";
    settings.batch_size = from.batch_size();
    return settings;
  }

  void check_transform() const override { data::field_data_settings(parameter()); }

  std::shared_ptr<data::RecordSource> open() const override {
    const auto& from = parameter().eval_data_param();
    data::BoxListOptions options;
    options.root_folder = from.root_folder();
    options.difficult = true;
    return data::open_box_list(from.source(), options);
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource& source) const override {
    const auto& boxes = dynamic_cast<const data::BoxListSource&>(source);
    const std::uint64_t images = source.size();
    const auto itself = [images](std::uint64_t item) { return item % images; };
    return std::make_shared<data::FieldDataWriter>(data::field_data_settings(parameter()),
                                                   boxes.shared_list(), itself, key_of("boxes"));
  }

  /// The sizes come before the table.
  std::size_t output_of_writer(std::size_t k) const override { return k == 0 ? 0 : 3 - k; }
};

const RegisterLayer<EvalDataLayer> registered_eval_data(
    "EvalData", {"images with the boxes of their objects, for tests (Cascade R-CNN)", "eval_data_param", {}});

}  // namespace
}  // namespace banyan
