// AnnotatedData (SSD): images with boxes around objects, records (AnnotatedDatum) of an LMDB or a LevelDB.
// Settings are those of Data and annotated_data_param. Outputs: pixels, and 1 x 1 x rows x 8 numbers: an
// object's item in the device's own part of the batch, label, instance, xmin, ymin, xmax, ymax (fractions of
// the image), difficult. The number of rows is the next power of two; the rest are -1, which MultiBoxLoss and
// DetectionEvaluate skip.
#include "banyan/data/annotated.hpp"
#include "layers/data_layer.hpp"

namespace banyan {

namespace {

class AnnotatedDataLayer : public DataLayer {
 public:
  using DataLayer::DataLayer;

 protected:
  bool annotated() const override { return true; }

  void check_transform() const override {
    data::check_annotated(parameter().transform_param(), parameter().annotated_data_param(), name());
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource&) const override {
    data::AnnotatedWriter::Options wanted;
    wanted.objects = parameter().top_size() > 1;
    wanted.random_crop = options().phase == Phase::train;
    wanted.seed = options().seed;
    wanted.layer = name();
    return std::make_shared<data::AnnotatedWriter>(parameter().transform_param(),
                                                   parameter().annotated_data_param(), wanted);
  }
};

const RegisterLayer<AnnotatedDataLayer> registered_annotated_data(
    "AnnotatedData", {"images with boxes around objects (SSD)", "annotated_data_param", {}});

}  // namespace

}  // namespace banyan
