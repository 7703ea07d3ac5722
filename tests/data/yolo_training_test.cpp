// YOLO's losses in nets, with AnnotatedData's rows and its table: they learn to find squares, on two devices
// as on one.
#include <cmath>

#include "banyan/train/session.hpp"
#include "data/data_test_tools.hpp"
#include "train/training_case.hpp"

namespace banyan::data {
namespace {

/// Image i has a square of 6 x 6 of 16 x 16 pixels, bright ones being of label 2.
void make_squares(const std::string& path) {
  LmdbWriter writer(path);
  for (int i = 0; i < 8; ++i) {
    std::vector<std::uint8_t> pixels(256, 20);
    const int x = i * 5 % 10, y = i * 3 % 10;
    for (int p = 0; p < 36; ++p)
      pixels[static_cast<std::size_t>((y + p / 6) * 16 + x + p % 6)] = i % 2 == 0 ? 120 : 250;
    caffe::AnnotatedDatum record;
    record.mutable_datum()->ParseFromString(raw_datum(1, 16, 16, pixels.data(), 0));
    record.set_type(caffe::AnnotatedDatum::BBOX);
    caffe::AnnotationGroup& group = *record.add_annotation_group();
    group.set_group_label(1 + i % 2);
    caffe::NormalizedBBox& box = *group.add_annotation()->mutable_bbox();
    box.set_xmin(static_cast<float>(x) / 16);
    box.set_ymin(static_cast<float>(y) / 16);
    box.set_xmax(static_cast<float>(x + 6) / 16);
    box.set_ymax(static_cast<float>(y + 6) / 16);
    writer.put(key_of(static_cast<std::uint64_t>(i)), record.SerializeAsString());
  }
  writer.close();
}

TrainingCase finding(const std::string& database, bool v3) {
  const std::string rows = v3 ? "yolo_data_type: 1 yolo_data_jitter: 0" : "";
  TrainingCase of;
  of.solver =
      "type: 'Adam' base_lr: 0.003 momentum: 0.9 lr_policy: 'fixed' random_seed: 3 display: 0 "
      "snapshot_after_train: false ";
  of.net = "layer { name: 'a' type: 'AnnotatedData' top: 'data' top: 'truth' data_param { source: '" +
           database + "' batch_size: 8 batch_size_is_total: true shuffle: true } annotated_data_param { " +
           rows +
           " } transform_param { mean_value: 60 scale: 0.01 } } "
           "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { "
           "num_output: 24 kernel_size: 12 pad: 4 stride: 4 weight_filler { type: 'xavier' } } } "
           "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' } "
           "layer { name: 'map' type: 'Convolution' bottom: 'conv' top: 'map' convolution_param { "
           "num_output: 14 kernel_size: 1 weight_filler { type: 'xavier' } } } ";
  of.net +=
      v3 ? "layer { name: 'loss' type: 'Yolov3' bottom: 'map' bottom: 'truth' top: 'loss' yolov3_param { "
           "num_class: 2 num: 2 biases: [5, 7, 12, 12] anchors_scale: 4 coord_scale: 1 thresh: 0.5 } } "
           "layer { name: 'f' type: 'Yolov3DetectionOutput' bottom: 'map' top: 'found' "
           "yolov3_detection_output_param { num_classes: 2 num_box: 2 biases: [5, 7, 12, 12] mask: [0, "
           "1] anchors_scale: 4 mask_group_num: 1 } }"
         : "layer { name: 'loss' type: 'RegionLoss' bottom: 'map' bottom: 'truth' top: 'loss' "
           "region_loss_param { num_class: 2 num: 2 biases: [1.25, 1.75, 3, 3] object_scale: 5 "
           "noobject_scale: 1 coord_scale: 1 thresh: 0.5 } } "
           "layer { name: 'f' type: 'YoloDetectionOutput' bottom: 'map' top: 'found' "
           "yolo_detection_output_param { num_classes: 2 num_box: 2 biases: [1.25, 1.75, 3, 3] } }";
  of.iterations = 1000;
  return of;
}

/// Which square is found first in each image of the last batch: those of which most is right, by image.
int right_ones(Session& session) {
  const std::vector<double> found = session.blob("found").values, truth = session.blob("truth").values;
  const std::size_t rows = 32 * 7, numbers = truth.size() / 8;
  int right = 0;
  for (std::size_t image = 0; image < 8; ++image) {
    const double* best = found.data() + image * rows;
    Box box;
    double label = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      if (numbers > 8 && i == image) {
        const double* row = truth.data() + i * numbers;
        box = {row[1] - row[3] / 2, row[2] - row[4] / 2, row[1] + row[3] / 2, row[2] + row[4] / 2};
        label = row[0] + 1;
      } else if (numbers == 8 && truth[i * 8] == static_cast<double>(image)) {
        const double* row = truth.data() + i * 8;
        box = {row[3], row[4], row[5], row[6]};
        label = row[1];
      }
    }
    right += best[1] == label && overlap(box, {best[3], best[4], best[5], best[6]}) > 0.6;
  }
  return right;
}

TEST(YoloTraining, FindsSquaresOnTwoDevicesAsOnOne) {
  FLAGS_minloglevel = 2;
  for (const bool v3 : {true, false}) {
    const TrainingFolder folder;
    const std::string database = folder.path() + "/db";
    make_squares(database);
    TrainOptions whole = options_of(finding(database, v3), folder, 1);
    whole.keep_blobs = true;
    Session one(whole), two(options_of(finding(database, v3), folder, 2));
    for (int k = 0; k < 10; ++k) {
      one.step(1);
      two.step(1);
      EXPECT_NEAR(one.metrics().loss, two.metrics().loss, 1e-4 * one.metrics().loss) << k;
    }
    const double first = one.metrics().loss;
    one.step(490);
    EXPECT_LT(one.metrics().loss, 0.1 * first);
    EXPECT_GE(right_ones(one), 7) << v3;
  }
}

}  // namespace
}  // namespace banyan::data
