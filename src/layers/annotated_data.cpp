// AnnotatedData (SSD): images with boxes around objects, records (AnnotatedDatum, or a Datum with an image
// file and six numbers for each object, as YOLO's BoxData reads them) of an LMDB or a LevelDB. Settings are
// those of Data and annotated_data_param. Outputs: pixels, and 1 x 1 x rows x 8 numbers: an object's item in
// the device's own part of the batch, label, instance, xmin, ymin, xmax, ymax (fractions of the image),
// difficult. The number of rows is the next power of two; the rest are -1, which MultiBoxLoss and
// DetectionEvaluate skip. With yolo_data_type: 1 (MobileNet-YOLO) the second output is N x 1 x 300 x 5, of
// each object the label - 1, centre and size, without difficult ones and followed by zeros; a part of each
// image is drawn whose sides are 1 - yolo_data_jitter to 1 of its own, in tests too, and batch samplers are
// not used.
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
    "AnnotatedData", {.about = "images with boxes around objects (SSD)",
                      .message = "annotated_data_param",
                      .examples = {},
                      .further = {"data_param"}});

}  // namespace

}  // namespace banyan
