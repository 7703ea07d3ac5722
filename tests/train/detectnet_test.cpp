// A small net of DetectNet's form, as its files have it: images and labels from two databases, the grids of
// targets, both losses, and in tests the Python layers that list and score boxes.

#include <gmock/gmock.h>

#include "banyan/train/session.hpp"
#include "train/trainer_fixture.hpp"
#include "train/training_case.hpp"

namespace banyan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kBoxWidth = 64, kBoxHeight = 48;

/// Dark images of 64 x 48 pixels, with one or two bright rectangles, and the labels of these.
void write_boxes(const std::string& images, const std::string& labels, int count) {
  data::LmdbWriter image_writer(images), label_writer(labels);
  for (int i = 0; i < count; ++i) {
    std::vector<std::uint8_t> pixels(3 * kBoxHeight * kBoxWidth);
    std::uint32_t state = static_cast<std::uint32_t>(i) * 2654435761u + 1;
    const auto next = [&state](int below) {
      state = state * 1664525u + 1013904223u;
      return static_cast<int>((state >> 8) % static_cast<std::uint32_t>(below));
    };
    for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(20 + next(20));
    caffe::Datum label;
    label.set_channels(1), label.set_height(4), label.set_width(16);
    std::vector<float> rows(4 * 16, 0);
    const int objects = 1 + i % 2;
    rows[0] = static_cast<float>(objects), rows[1] = 16;
    for (int k = 0; k < objects; ++k) {
      const int width = 18 + next(10), height = 16 + next(10);
      const int x = 32 * k + next(32 - width), y = next(kBoxHeight - height);
      float* row = &rows[16 * static_cast<std::size_t>(k + 1)];
      row[0] = static_cast<float>(x), row[1] = static_cast<float>(y);
      row[2] = static_cast<float>(width), row[3] = static_cast<float>(height), row[5] = 1;
      for (int c = 0; c < 3; ++c)
        for (int dy = 0; dy < height; ++dy)
          for (int dx = 0; dx < width; ++dx)
            pixels[static_cast<std::size_t>((c * kBoxHeight + y + dy) * kBoxWidth + x + dx)] =
                static_cast<std::uint8_t>(190 + next(20));
    }
    for (const float value : rows) label.add_float_data(value);
    const std::string number = std::to_string(i), key = std::string(8 - number.size(), '0') + number;
    image_writer.put(key, data::raw_datum(3, kBoxHeight, kBoxWidth, pixels.data(), 0));
    label_writer.put(key, label.SerializeAsString());
  }
  image_writer.close();
  label_writer.close();
}

/// Of batches of `batch` samples of the databases in `folder`.
std::string detectnet(const std::string& folder, int batch) {
  const auto data = [&](const char* blob, const char* database) {
    return cat("layer { name: '", blob, "' type: 'Data' top: '", blob, "' data_param { source: '", folder,
               "/", database, "' batch_size: ", batch, " batch_size_is_total: true backend: LMDB } } ");
  };
  const auto transformation = [](const char* phase, const char* changes) {
    return cat(
        "layer { name: 'transform_", phase,
        "' type: 'DetectNetTransformation' bottom: 'data' bottom: 'label' top: 'transformed_data' top: "
        "'transformed_label' detectnet_groundtruth_param { stride: 8 scale_cvg: 0.4 gridbox_type: "
        "GRIDBOX_MIN "
        "coverage_type: RECTANGULAR min_cvg_len: 10 obj_norm: true image_size_x: 64 image_size_y: 48 "
        "crop_bboxes: true object_class { src: 1 dst: 0 } } ",
        changes, " transform_param { mean_value: 60 } include { phase: ", phase, " } } ");
  };
  return data("data", "boxes") + data("label", "box_labels") +
         transformation(
             "TRAIN",
             "detectnet_augmentation_param { crop_prob: 1 shift_x: 8 shift_y: 8 flip_prob: 0.5 "
             "rotation_prob: 0.3 max_rotate_degree: 3 scale_prob: 0.4 scale_min: 0.9 scale_max: 1.1 "
             "hue_rotation_prob: 0.8 hue_rotation: 30 desaturation_prob: 0.8 desaturation_max: 0.8 }") +
         transformation("TEST", "") + R"(
layer { name: 'slice-label' type: 'Slice' bottom: 'transformed_label' top: 'foreground-label' top: 'bbox-label'
  top: 'size-label' top: 'obj-label' top: 'coverage-label' slice_param { slice_dim: 1 slice_point: 1 slice_point: 5
  slice_point: 7 slice_point: 8 } }
layer { name: 'coverage-block' type: 'Concat' bottom: 'foreground-label' bottom: 'foreground-label'
  bottom: 'foreground-label' bottom: 'foreground-label' top: 'coverage-block' }
layer { name: 'size-block' type: 'Concat' bottom: 'size-label' bottom: 'size-label' top: 'size-block' }
layer { name: 'obj-block' type: 'Concat' bottom: 'obj-label' bottom: 'obj-label' bottom: 'obj-label'
  bottom: 'obj-label' top: 'obj-block' }
layer { name: 'bb-label-norm' type: 'Eltwise' bottom: 'bbox-label' bottom: 'size-block' top: 'bbox-label-norm'
  eltwise_param { operation: PROD } }
layer { name: 'bb-obj-norm' type: 'Eltwise' bottom: 'bbox-label-norm' bottom: 'obj-block' top: 'bbox-obj-label-norm'
  eltwise_param { operation: PROD } }
layer { name: 'scaled' type: 'Power' bottom: 'transformed_data' top: 'scaled' power_param { scale: 0.01 } }
layer { name: 'conv1' type: 'Convolution' bottom: 'scaled' top: 'conv1' convolution_param {
  num_output: 16 kernel_size: 5 stride: 4 pad: 2 weight_filler { type: 'msra' } } }
layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }
layer { name: 'conv2' type: 'Convolution' bottom: 'conv1' top: 'conv2' convolution_param {
  num_output: 32 kernel_size: 5 stride: 2 pad: 2 weight_filler { type: 'msra' } } }
layer { name: 'relu2' type: 'ReLU' bottom: 'conv2' top: 'conv2' }
layer { name: 'conv3' type: 'Convolution' bottom: 'conv2' top: 'conv3' convolution_param {
  num_output: 32 kernel_size: 5 pad: 2 weight_filler { type: 'msra' } } }
layer { name: 'relu3' type: 'ReLU' bottom: 'conv3' top: 'conv3' }
layer { name: 'cvg/classifier' type: 'Convolution' bottom: 'conv3' top: 'cvg/classifier' convolution_param {
  num_output: 1 kernel_size: 1 weight_filler { type: 'xavier' } } }
layer { name: 'coverage/sig' type: 'Sigmoid' bottom: 'cvg/classifier' top: 'coverage' }
layer { name: 'bbox/regressor' type: 'Convolution' bottom: 'conv3' top: 'bboxes' convolution_param {
  num_output: 4 kernel_size: 1 weight_filler { type: 'xavier' } } }
layer { name: 'bbox_mask' type: 'Eltwise' bottom: 'bboxes' bottom: 'coverage-block' top: 'bboxes-masked'
  eltwise_param { operation: PROD } }
layer { name: 'bbox-norm' type: 'Eltwise' bottom: 'bboxes-masked' bottom: 'size-block' top: 'bboxes-masked-norm'
  eltwise_param { operation: PROD } }
layer { name: 'bbox-obj-norm' type: 'Eltwise' bottom: 'bboxes-masked-norm' bottom: 'obj-block'
  top: 'bboxes-obj-masked-norm' eltwise_param { operation: PROD } }
layer { name: 'bbox_loss' type: 'L1Loss' bottom: 'bboxes-obj-masked-norm' bottom: 'bbox-obj-label-norm'
  top: 'loss_bbox' loss_weight: 2 }
layer { name: 'coverage_loss' type: 'EuclideanLoss' bottom: 'coverage' bottom: 'coverage-label' top: 'loss_coverage' }
layer { name: 'cluster' type: 'Python' bottom: 'coverage' bottom: 'bboxes' top: 'bbox-list' include { phase: TEST }
  python_param { module: 'caffe.layers.detectnet.clustering' layer: 'ClusterDetections'
    param_str: '64, 48, 8, 0.5, 1, 0.4, 10, 1' } }
layer { name: 'cluster_gt' type: 'Python' bottom: 'coverage-label' bottom: 'bbox-label' top: 'bbox-list-label'
  include { phase: TEST }
  python_param { module: 'caffe.layers.detectnet.clustering' layer: 'ClusterGroundtruth' param_str: '64, 48, 8, 1' } }
layer { name: 'score' type: 'Python' bottom: 'bbox-list-label' bottom: 'bbox-list' top: 'bbox-list-scored'
  include { phase: TEST } python_param { module: 'caffe.layers.detectnet.mean_ap' layer: 'ScoreDetections' } }
layer { name: 'mAP' type: 'Python' bottom: 'bbox-list-scored' top: 'mAP' top: 'precision' top: 'recall'
  include { phase: TEST } python_param { module: 'caffe.layers.detectnet.mean_ap' layer: 'mAP' } }
)";
}

/// The changes of a sample are those of its place in the whole batch. Gradients differ by the order of sums.
TEST(DetectNetTraining, SeveralDevicesAreOne) {
  const TrainingFolder folder;
  write_boxes(folder.path() + "/boxes", folder.path() + "/box_labels", 10);
  const TrainingCase what{std::string(kFixedSolver) + "snapshot_after_train: false ",
                          detectnet(folder.path(), 6)};
  FLAGS_minloglevel = 2;
  Session one(options_of(what, folder, 1)), two(options_of(what, folder, 2)),
      three(options_of(what, folder, 3));
  for (int k = 0; k < 6; ++k) {
    one.step(1);
    for (Session* more : {&two, &three}) {
      more->step(1);
      EXPECT_NEAR(more->metrics().loss, one.metrics().loss, 1e-9 * one.metrics().loss) << k;
    }
  }
  for (const char* layer : {"conv1", "cvg/classifier", "bbox/regressor"}) {
    const auto expected = one.parameter(layer, 0).values;
    EXPECT_LE(largest_difference(expected, two.parameter(layer, 0).values), 1e-9) << layer;
    EXPECT_LE(largest_difference(expected, three.parameter(layer, 0).values), 1e-9) << layer;
  }
}

class DetectNet : public TrainerRun {
 protected:
  void SetUp() override {
    TrainerRun::SetUp();
    write_boxes(path("boxes"), path("box_labels"), 48);
    write("detectnet", detectnet(folder_, 8));
  }
};

TEST_F(DetectNet, LearnsToFindItsObjects) {
  write("detect", "net: '" + path("detectnet") +
                      "' type: 'Adam' base_lr: 0.002 lr_policy: 'fixed' random_seed: 3 snapshot_after_train: "
                      "false display: 50 "
                      "max_iter: 400 test_iter: 6 test_interval: 200 test_initialization: true");
  EXPECT_EQ(train_with("detect", {"train", "--cpu=2"}), 0) << file("log");
  const std::string log = file("log");
  const auto last = [&](const std::string& name) {
    const std::string words = name + " = ";
    const std::size_t at = log.rfind(words);
    EXPECT_NE(at, std::string::npos) << name << "\n" << log;
    return at == std::string::npos ? 0 : std::atof(log.c_str() + at + words.size());
  };
  EXPECT_GT(last("recall"), 50) << log;
  EXPECT_GT(last("precision"), 50) << log;
  // Of each batch, and then of these the mean.
  EXPECT_NEAR(last("mAP"), last("recall") * last("precision") / 100, 10) << log;
  EXPECT_THAT(
      log, AllOf(HasSubstr("Test net output #0: loss_bbox = "),
                 HasSubstr("Test net output #1: loss_coverage"), HasSubstr("Test net output #2: mAP = "),
                 HasSubstr("Test net output #3: precision = "), HasSubstr("Test net output #4: recall = ")));
}

TEST_F(DetectNet, OtherCommandsKnowIt) {
  EXPECT_EQ(run({"check", path("detectnet")}), 0) << file("log");
  EXPECT_EQ(run({"summary", "--model=" + path("detectnet"), "--phase=TEST"}), 0) << file("log");
  EXPECT_THAT(file("log"), AllOf(HasSubstr("ClusterDetections"), HasSubstr("PrecisionRecall")));
  std::filesystem::remove_all(path("boxes"));
  std::filesystem::remove_all(path("box_labels"));
  EXPECT_EQ(run({"time", "--model=" + path("detectnet"), "--cpu=1", "--iterations=1",
                 "--shape=data:2,3,48,64;label:2,1,4,16"}),
            0)
      << file("log");
  EXPECT_THAT(file("log"), HasSubstr("transform_TRAIN\tforward: "));
}

}  // namespace
}  // namespace banyan
