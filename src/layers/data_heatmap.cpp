// DataHeatmap (caffe-heatmap): images of people named in a list with their joints. Outputs: images N x 3 x
// outsize x outsize, maps N x joints x label_height x label_width (data::HeatmapWriter).
#include "banyan/data/heatmaps.hpp"
#include "layers/source_layer.hpp"

namespace banyan {
namespace {

class DataHeatmapLayer : public SourceLayer {
 public:
  DataHeatmapLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SourceLayer(parameter, options) {}

 protected:
  Settings settings() const override {
    if (heatmaps().source().empty()) refuse("heatmap_data_param.source", "is missing");
    data::check_heatmaps(heatmaps(), name());
    Settings settings;
    settings.field = "heatmap_data_param";
    settings.batch_size = heatmaps().batchsize();
    return settings;
  }

  void check_transform() const override {
    if (parameter().transform_param().ByteSizeLong() > 0)
      refuse("transform_param",
             "has no effect in DataHeatmap: heatmap_data_param says what becomes of an image");
  }

  std::shared_ptr<data::RecordSource> open() const override {
    return data::open_heatmap_list(heatmaps(), key_of("clusters"));
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource&) const override {
    return std::make_shared<data::HeatmapWriter>(heatmaps(), key_of("heatmaps"));
  }

 private:
  const caffe::HeatmapDataParameter& heatmaps() const { return parameter().heatmap_data_param(); }
};

const RegisterLayer<DataHeatmapLayer> registered_data_heatmap(
    "DataHeatmap", {"images of people, named in a list with their joints, and maps of these (caffe-heatmap)",
                    "heatmap_data_param",
                    {}});

}  // namespace
}  // namespace banyan
