// CPMData (OpenPose, convolutional pose machines): images of people with maps of their joints. Records are
// those of an LMDB or a LevelDB; settings are those of Data and cpm_transform_param. Outputs: images and maps
// (data::PoseWriter).
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/poses.hpp"
#include "layers/data_layer.hpp"

namespace banyan {

namespace {

class CpmDataLayer : public DataLayer {
 public:
  using DataLayer::DataLayer;

 protected:
  void check_transform() const override {
    if (parameter().transform_param().ByteSizeLong() > 0)
      refuse("transform_param",
             "has no effect in CPMData: cpm_transform_param says what becomes of an image");
    data::check_poses(parameter().cpm_transform_param(), name());
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource&) const override {
    if (parameter().cpm_transform_param().visualize() && options().rank == 0)
      log_warning(cat("layer ", quoted(name()), ": visualize has no effect: no images are written"));
    return std::make_shared<data::PoseWriter>(parameter().cpm_transform_param(),
                                              options().phase == Phase::train, key_of("poses"));
  }
};

const RegisterLayer<CpmDataLayer> registered_cpm_data(
    "CPMData", {.about = "images of people with maps of their joints (OpenPose)",
                .message = "cpm_transform_param",
                .examples = {},
                .further = {"data_param"}});

}  // namespace

}  // namespace banyan
