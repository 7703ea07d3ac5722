// WindowData: windows of images, as R-CNN trains on them. Every batch holds a given share of windows with an
// object; which ones is drawn at random for each item, so there are no epochs.
#include "banyan/data/window_list.hpp"
#include "layers/source_layer.hpp"

namespace banyan {

namespace {

class WindowDataLayer : public SourceLayer {
 public:
  WindowDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SourceLayer(parameter, options, {0, 0, 2, 2}) {}

 protected:
  Settings settings() const override {
    const caffe::WindowDataParameter& from = parameter().window_data_param();
    if (from.source().empty()) refuse("window_data_param.source", "is missing");
    if (from.crop_mode() != "warp" && from.crop_mode() != "square")
      refuse("window_data_param.crop_mode",
             cat("must be \"warp\" or \"square\", not ", banyan::quoted(from.crop_mode())));
    if (!(from.fg_fraction() >= 0 && from.fg_fraction() <= 1))
      refuse("window_data_param.fg_fraction", cat("must be in [0, 1], not ", from.fg_fraction()));
    Settings settings;
    settings.field = "window_data_param";
    settings.batch_size = from.batch_size();
    return settings;
  }

  void check_transform() const override {
    const caffe::TransformationParameter& transform = parameter().transform_param();
    data::check_transform(transform, name());
    if (transform.pad() > 0 || transform.force_color() || transform.force_gray() ||
        transform.random_seed() >= 0 || data::rectangle_side(transform) > 0)
      refuse("transform_param",
             "may hold scale, mirror, crop_size, mean_file and mean_value only in WindowData");
    if (transform.crop_size() == 0)
      refuse("transform_param.crop_size", "is missing: windows are warped to it");
    if (transform.mean_value_size() > 1 && transform.mean_value_size() != 3)
      refuse("transform_param.mean_value", cat("must have 1 or 3 values, not ", transform.mean_value_size()));
    const std::uint32_t pad = parameter().window_data_param().context_pad();
    if (pad >= (transform.crop_size() + 1) / 2)
      refuse("window_data_param.context_pad",
             cat("must be less than half of crop_size (", transform.crop_size(), "), not ", pad));
  }

  std::shared_ptr<data::RecordSource> open() const override {
    const caffe::WindowDataParameter& from = parameter().window_data_param();
    data::WindowOptions options;
    options.root_folder = from.root_folder();
    options.fg_threshold = from.fg_threshold();
    options.bg_threshold = from.bg_threshold();
    options.fg_fraction = from.fg_fraction();
    options.batch = items_per_batch(settings());
    options.cache_images = from.cache_images();
    options.key = key_of("windows");
    return data::open_window_list(from.source(), options);
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource&) const override {
    const caffe::WindowDataParameter& from = parameter().window_data_param();
    return std::make_shared<data::WindowWriter>(parameter().transform_param(),
                                                static_cast<int>(from.context_pad()),
                                                from.crop_mode() == "square", key_of("windows"), name());
  }
};

const RegisterLayer<WindowDataLayer> registered_window_data(
    "WindowData", {"windows of images named in a list (R-CNN)", "window_data_param", {}});

}  // namespace

}  // namespace banyan
