// Small detectors of MS-CNN's and Cascade R-CNN's kind in training: from their lists to the losses of both
// stages.
#include <cmath>

#include "banyan/train/session.hpp"
#include "data/data_test_tools.hpp"
#include "train/training_case.hpp"

namespace banyan::data {
namespace {

/// Image i, 32 x 48, has a bright square of 16 x 16 pixels, or a dark one, of class 2.
void make_list(const std::string& folder, bool difficult) {
  std::string text;
  for (int i = 0; i < 8; ++i) {
    const int x = 3 * i + 2, y = (5 * i) % 14, label = 1 + i % 2;
    Image image{3, 32, 48, std::vector<std::uint8_t>(3 * 32 * 48, 110)};
    for (int p = 0; p < 256; ++p)
      for (int c = 0; c < 3; ++c)
        image.pixels[static_cast<std::size_t>(((y + p / 16) * 48 + x + p % 16) * 3 + c)] =
            label == 1 ? 230 : 10;
    write_file(cat(folder, "/", i, ".png"), encode_image(image, "png"));
    text += cat("# ", i, "\n", i, ".png\n3\n32\n48\n1\n", label, " 0 ", difficult ? "0 " : "", x, " ", y, " ",
                x + 15, " ", y + 15, "\n0\n");
  }
  write_file(folder + "/list", text);
}

const std::string kFiller = "weight_filler { type: 'xavier' } ";

std::string map_layers(const std::string& name, int channels) {
  return cat("layer { name: '", name, "' type: 'Convolution' bottom: 'relu' top: '", name,
             "' convolution_param { num_output: ", channels, " kernel_size: 1 ", kFiller, " } } ");
}

/// A head of two layers after regions' pooling, and what both stages' losses and accuracies need.
std::string head_layers(int slots) {
  return cat(
      "layer { name: 'roi_pool' type: 'ROIPooling' bottom: 'relu' bottom: 'rois' top: 'roi_pool' "
      "roi_pooling_param { pooled_w: "
      "3 pooled_h: 3 spatial_scale: 0.125 } } layer { name: 'cls' type: 'InnerProduct' bottom: 'roi_pool' "
      "top: 'cls' "
      "inner_product_param { num_output: 3 ",
      kFiller,
      "} } layer { name: 'box' type: 'InnerProduct' bottom: 'roi_pool' top: 'box' inner_product_param { "
      "num_output: ",
      4 * slots, " ", kFiller,
      "} } layer { name: 'loss_cls' type: 'SoftmaxWithLoss' bottom: 'cls' bottom: 'labels' top: 'loss_cls' } "
      "layer { name: 'loss_box' type: 'SmoothL1Loss' bottom: 'box' bottom: 'targets' bottom: 'inside' "
      "bottom: 'outside' top: "
      "'loss_box' } layer { name: 'iou' type: 'BboxAccuracy' bottom: 'box' bottom: 'rois' bottom: 'match' "
      "top: 'iou' top: "
      "'iou_before' bbox_reg_param { cls_aware: ",
      slots > 2, " bbox_std: [0.1, 0.1, 0.2, 0.2] } } ");
}
std::string sample_layers(const std::string& more) {
  return "layer { name: 'sample' type: 'ProposalTarget' bottom: 'proposals' bottom: 'boxes' top: 'rois' top: "
         "'labels' top: "
         "'targets' top: 'inside' top: 'outside' top: 'match' proposal_target_param { cls_num: 3 batch_size: "
         "16 "
         "num_img_per_batch: 4 bg_thr_lw: 0 bg_thr_hg: 0.45 img_width: 48 img_height: 32 } bbox_reg_param { "
         "bbox_std: [0.1, 0.1, "
         "0.2, 0.2] " +
         more + " } } ";
}

std::string conv_layers() {
  return "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { "
         "num_output: 16 kernel_size: "
         "16 pad: 4 stride: 8 " +
         kFiller +
         "} } layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'relu' relu_param { negative_slope: 0.1 "
         "} } ";
}

TrainingCase of_mscnn(const std::string& folder, int batch, bool head, const std::string& mode) {
  TrainingCase of;
  of.solver =
      "base_lr: 0.003 momentum: 0.9 lr_policy: 'fixed' random_seed: 3 display: 0 snapshot_after_train: "
      "false ";
  const std::string field = "field_w: 18 field_h: 18 downsample_rate: 8 ";
  of.net = cat("layer { name: 'd' type: 'ImageGtData' top: 'data' top: 'map' top: 'boxes' "
               "image_gt_data_param { source: '",
               folder, "/list' root_folder: '", folder, "/' batch_size: ", batch,
               " shuffle: true output_gt_boxes: true crop_width: 40 "
               "crop_height: 32 ",
               field, "} transform_param { mirror: true mean_value: 110 scale: 0.01 } } ") +
           conv_layers() + map_layers("lfcn", 7) +
           "layer { name: 'loss' type: 'DetectionLoss' bottom: 'lfcn' bottom: 'map' top: 'loss' "
           "detection_loss_param { cls_num: 3 " +
           field + "bg_multiple: 2 pos_neg_weighted: true sample_mode: '" + mode +
           "' } } layer { name: 'accuracy' type: 'DetectionAccuracy' bottom: 'lfcn' bottom: 'map' top: "
           "'accuracy' top: 'boxiou' "
           "detection_accuracy_param { cls_num: 3 " +
           field + "} } ";
  if (head)
    of.net +=
        "layer { name: 'proposals' type: 'BoxOutput' bottom: 'lfcn' top: 'proposals' box_output_param { "
        "fg_thr: -5 iou_thr: "
        "0.65 " +
        field + "max_nms_num: 20 } } " + sample_layers("") + head_layers(3);
  of.iterations = 1000;
  return of;
}

TrainingCase of_cascade(const std::string& folder, int batch, bool head) {
  TrainingCase of = of_mscnn(folder, batch, false, "all");
  const std::string fields = "field_w: [18, 24] field_h: [18, 12] ";
  of.net =
      cat("layer { name: 'd' type: 'DetectionData' top: 'data' top: 'a' top: 'b' top: 'boxes' "
          "detection_data_param { source: '",
          folder, "/list' root_folder: '", folder, "/' batch_size: ", batch,
          " shuffle: 'random' output_gt_boxes: true crop_width: 48 crop_height: 32 stride: [8, 8] ", fields,
          "} transform_param { mirror: true mean_value: 110 scale: 0.01 } } ") +
      "layer { name: 'ab' type: 'Concat' bottom: 'a' bottom: 'b' top: 'ab' } layer { name: 'map' type: "
      "'Reshape' bottom: 'ab' top: "
      "'map' reshape_param { shape { dim: -1 dim: 6 dim: 0 dim: 0 } } } " +
      conv_layers() + map_layers("scores", 4) + map_layers("codes", 8) +
      "layer { name: 's' type: 'Reshape' bottom: 'scores' top: 's' reshape_param { shape { dim: -1 dim: 2 "
      "dim: 0 dim: 0 } } } "
      "layer { name: 'c' type: 'Reshape' bottom: 'codes' top: 'c' reshape_param { shape { dim: -1 dim: 4 "
      "dim: 0 dim: 0 } } } "
      "layer { name: 'loss' type: 'DetectionGroupLoss' bottom: 's' bottom: 'c' bottom: 'map' top: 'loss' "
      "detection_group_loss_param { cls_num: 2 objectness: true batch_size: 12 bg_multiple: 1 stride: 8 " +
      fields +
      "field_xyr: 1 field_whr: 4 } } layer { name: 'accuracy' type: 'DetectionGroupAccuracy' bottom: 's' "
      "bottom: 'c' bottom: 'map' "
      "top: 'accuracy' top: 'boxiou' detection_group_accuracy_param { cls_num: 2 objectness: true stride: 8 "
      "field_xyr: 1 field_whr: "
      "4 " +
      fields + "} } ";
  if (!head) return of;
  of.net +=
      "layer { name: 'p' type: 'Softmax' bottom: 's' top: 'p' } layer { name: 'proposals' type: "
      "'BoxGroupOutput' bottom: 'p' "
      "bottom: 'c' top: 'proposals' box_group_output_param { fg_thr: 0.1 min_size: 4 max_nms_num: 20 "
      "field_xyr: 1 field_whr: 4 "
      "box_group_param { stride: 8 " +
      fields + "} } } " + sample_layers("cls_aware: false");
  // Small and large regions go different ways, and come together again.
  const std::vector<std::string> blobs{"rois", "labels", "targets", "inside", "outside", "match"};
  for (const auto& blob : blobs) {
    for (std::size_t at = of.net.find("top: '" + blob + "'"); at != std::string::npos;
         at = of.net.find("top: '" + blob + "'", at + 1))
      of.net.replace(at, blob.size() + 7, "top: '" + blob + "_all'");
  }
  for (const char* part : {"small", "large"}) {
    of.net += cat("layer { name: '", part, "' type: 'ScaleRoute' ");
    for (const auto& blob : blobs) of.net += cat("bottom: '", blob, "_all' top: '", blob, "_", part, "' ");
    of.net += cat("scale_route_param { ", part == std::string("small") ? "high" : "low", "_scale: 15 } } ");
  }
  for (const auto& blob : blobs)
    of.net += cat("layer { name: '", blob, "' type: 'Concat' bottom: '", blob, "_small' bottom: '", blob,
                  "_large' top: '", blob, "' concat_param { axis: 0 } } ");
  of.net += head_layers(2);
  return of;
}

TEST(FieldTraining, TwoDevicesTrainAsOne) {
  FLAGS_minloglevel = 2;
  const TrainingFolder folder;
  for (const char* kind : {"random", "mixture", "cascade"}) {
    const bool cascade = kind == std::string("cascade");
    make_list(folder.path(), cascade);
    const auto trained = [&](int devices) {
      return cascade ? of_cascade(folder.path(), 4 / devices, false)
                     : of_mscnn(folder.path(), 4 / devices, false, kind);
    };
    Session one(options_of(trained(1), folder, 1)), two(options_of(trained(2), folder, 2));
    for (int k = 0; k < 10; ++k) {
      one.step(1);
      two.step(1);
      EXPECT_NEAR(one.metrics().loss, two.metrics().loss, 1e-4 * std::abs(one.metrics().loss)) << kind << k;
    }
    const auto expected = one.parameter("conv", 0).values, found = two.parameter("conv", 0).values;
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << kind;
  }
}

TEST(FieldTraining, BothStagesLearn) {
  FLAGS_minloglevel = 2;
  const TrainingFolder folder;
  for (const bool cascade : {false, true}) {
    make_list(folder.path(), cascade);
    TrainOptions options = options_of(
        cascade ? of_cascade(folder.path(), 4, true) : of_mscnn(folder.path(), 4, true, "bootstrap"), folder,
        1);
    options.keep_blobs = true;
    Session session(options);
    double first = 0, last = 0, found = 0, before = 0, after = 0, rows = 0, measured = 0;
    constexpr int kSteps = 600;
    for (int k = 0; k < kSteps; ++k) {
      session.step(1);
      if (k < 10) first += session.metrics().loss;
      if (k < kSteps - 20) continue;
      last += session.metrics().loss / 2;
      found += session.blob("accuracy").values[1] / 20;
      const double overlap = session.blob("iou").values[0];
      if (overlap >= 0) after += overlap, before += session.blob("iou_before").values[0], ++measured;
      rows = std::max(rows, static_cast<double>(session.blob("rois").shape[0]));
    }
    EXPECT_LT(last, 0.5 * first) << cascade;
    EXPECT_GT(found, 0.7) << cascade;  // of objects
    EXPECT_GT(after, before + 0.03 * measured) << cascade;
    EXPECT_GT(measured, 10) << cascade;
    EXPECT_GE(rows, 12) << cascade;
  }
}

}  // namespace
}  // namespace banyan::data
