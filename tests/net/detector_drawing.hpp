// Heads of detectors in random nets.
#pragma once

#include <string>
#include <vector>

#include "net/net_drawing.hpp"

namespace banyan {

class DetectorDrawing : public NetDrawing {
 protected:
  using NetDrawing::NetDrawing;

  void add_detectors() {
    if (!allowed_.kinks) return;
    if (below(6) == 0) add_single_shot_head();
    if (below(6) == 0) add_region_head();
    if (below(4) != 0) return;
    switch (below(allowed_.alone ? 6 : 5)) {
      case 0:
        return add_cell_head();
      case 1:
        return add_squeezed_head();
      case 2:
        return add_field_head();
      case 3:
        return add_anchor_boxes();
      case 4:
        return add_clusters();
      default:
        return add_cascade();
    }
  }
  /// DetectNet's images, changed at random, and what its cells shall find.
  void add_grid_targets(std::size_t) {
    const std::size_t images =
        add({"DetectNetTransformation",
             cat("detectnet_groundtruth_param { stride: 2 image_size_x: 6 image_size_y: 6 "
                 "object_class { src: 1 dst: 0 } } ",
                 one_of("", "detectnet_augmentation_param { crop_prob: 0.5 shift_x: 2 rotation_prob: 1 } ",
                        "transform_param { mean_value: 0.5 }")),
             {},
             {"colours", "objects"},
             2},
            {3, 6, 6});
    blobs_[images + 1].readable = false;
  }

 private:
  /// Boxes of each position last.
  std::size_t at_positions(std::size_t from, int numbers) {
    return add_unreadable(
        {"Permute", "permute_param { order: [0, 2, 3, 1] }", {convolution(from, numbers, 1)}});
  }
  /// Of a layer that gives `each` numbers for every box of a map: N x numbers.
  std::size_t predictions(std::size_t from, int boxes, int each) {
    return add_unreadable({"Flatten", "", {at_positions(from, boxes * each)}});
  }
  /// Scores of so many classes for every box.
  std::size_t softmax_of_boxes(std::size_t scores, int classes) {
    const std::size_t rows = add_unreadable(
        {"Reshape", cat("reshape_param { shape { dim: 0 dim: -1 dim: ", classes, " } }"), {scores}});
    return add_unreadable(
        {"Flatten", "", {add_unreadable({"Softmax", "softmax_param { axis: 2 }", {rows}})}});
  }
  /// A map with so many channels, the others being more rows of these.
  std::size_t with_channels(std::size_t from, int channels, int width) {
    return add_unreadable(
        {"Reshape",
         cat("reshape_param { shape { dim: 0 dim: ", channels, " dim: -1 dim: ", width, " } }"),
         {from}});
  }
  /// SSD's loss for one map, or its detections; RefineDet's second step sometimes.
  void add_single_shot_head() {
    const std::size_t from = pick();
    constexpr int kBoxes = 3, kClasses = 3;
    const std::size_t priors =
        add_unreadable({"PriorBox",
                        "prior_box_param { min_size: 2 aspect_ratio: 2 variance: [0.1, 0.1, 0.2, 0.2] }",
                        {from},
                        {"data"}});
    const std::size_t shifts = predictions(from, kBoxes, 4);
    const std::size_t scores = predictions(from, kBoxes, kClasses);
    std::string classes = cat("num_classes: ", kClasses, " ");
    std::vector<std::size_t> first_step;
    if (below(3) == 0) {
      const std::size_t first_scores = predictions(from, kBoxes, 2);
      first_step = {softmax_of_boxes(first_scores, 2), predictions(from, kBoxes, 4)};
      classes += "objectness_score: 0.4 ";
      if (below(2) == 0)
        add_unreadable({"MultiBoxLoss",
                        "multibox_loss_param { code_type: CENTER_SIZE num_classes: 2 objectness_score: 0.4 }",
                        {first_step[1], first_scores, priors},
                        {"truth"}});
    }
    if (below(4) != 0) {
      add_unreadable({"MultiBoxLoss",
                      cat("multibox_loss_param { code_type: CENTER_SIZE ", classes,
                          one_of("", "neg_overlap: 0.4", "conf_loss_type: LOGISTIC"), " }"),
                      {shifts, scores, priors},
                      {"truth"},
                      1,
                      false,
                      first_step});
      return;
    }
    std::vector<std::size_t> inputs{shifts, softmax_of_boxes(scores, kClasses), priors};
    inputs.insert(inputs.end(), first_step.begin(), first_step.end());
    const std::size_t found = add_unreadable(
        {"DetectionOutput",
         cat("detection_output_param { code_type: CENTER_SIZE keep_top_k: 4 nms_param { top_k: 9 } ", classes,
             " }"),
         inputs});
    if (below(2) == 0)
      add_unreadable({"DetectionEvaluate",
                      cat("detection_evaluate_param { num_classes: ", kClasses, " }"),
                      {found},
                      {"truth"}});
  }
  /// Faster R-CNN's: a region proposal network and the head for its regions, the latter sometimes with
  /// R-FCN's hard examples.
  void add_region_head() {
    const std::size_t from = pick();
    const Form f = form(from);
    const std::string anchors = "base_size: 2 ratio: 1 scale: 1 scale: 2 feat_stride: 1 ";
    std::size_t scores = convolution(from, 4, 1);
    const std::size_t shifts = convolution(from, 8, 1);
    const std::size_t targets =
        add_unreadable({"AnchorTarget",
                        cat("anchor_target_param { ", anchors, "allowed_border: 1 batch_size: 6 }"),
                        {scores},
                        {"boxes", "info"},
                        4});
    add_unreadable({"SmoothL1Loss",
                    "smooth_l1_loss_param { sigma: 3 }",
                    {shifts, targets + 1, targets + 2, targets + 3}});
    scores = with_channels(scores, 2, f.w);
    add_unreadable({"SoftmaxWithLoss", "loss_param { ignore_label: -1 }", {scores, targets}});
    scores = with_channels(add_unreadable({"Softmax", "", {scores}}), 4, f.w);
    const std::size_t proposals =
        add_unreadable({"Proposal",
                        cat("proposal_param { ", anchors, "min_size: 1 post_nms_topn: 4 }"),
                        {scores, shifts},
                        {"info"}});
    const std::size_t sample = add_unreadable(
        {"ProposalTarget",
         cat("proposal_target_param { num_classes: 3 batch_size: 4 ", one_of("", "ignore_label: -1"), " }"),
         {proposals},
         {"boxes"},
         5});
    const std::size_t pooled =
        add_unreadable({"ROIAlign", "roi_align_param { pooled_h: 2 pooled_w: 2 }", {from, sample}});
    const std::string learned = cat("inner_product_param { ", kFillers, " num_output: ");
    const std::size_t classes = add_unreadable({"InnerProduct", learned + "3 }", {pooled}}),
                      boxes = add_unreadable({"InnerProduct", learned + "12 }", {pooled}});
    std::size_t labels = sample + 1, weights = sample + 4;
    if (below(2) == 0) {
      const std::size_t losses =
          add_unreadable({"SoftmaxWithLossOHEM",
                          "loss_param { ignore_label: -1 } loss_weight: 0 loss_weight: 0 "
                          "loss_weight: 0",
                          {classes, labels},
                          {},
                          3});
      labels = add_unreadable({"BoxAnnotatorOHEM",
                               "box_annotator_ohem_param { roi_per_img: 2 }",
                               {sample, losses + 2, labels, weights},
                               {},
                               2});
      weights = labels + 1;
    }
    add_unreadable({"SoftmaxWithLoss", "loss_param { ignore_label: -1 }", {classes, labels}});
    add_unreadable({"SmoothL1Loss", "", {boxes, sample + 2, sample + 3, weights}});
  }
  /// YOLO's, of the second or third version, with its detections.
  void add_cell_head() {
    const std::size_t from = pick();
    const Form f = form(from);
    const std::size_t map = convolution(from, 14, 1);
    if (below(2) == 0) {
      add_unreadable({"RegionLoss",
                      cat("region_loss_param { num_class: 2 num: 2 biases: [1.2, 0.8, 3, 3.5] ",
                          one_of("thresh: 0.5 ", "rescore: 0 bias_match: 0 "), "} loss_weight: 0.1"),
                      {map},
                      {"truth"}});
      add_unreadable({"YoloDetectionOutput",
                      "yolo_detection_output_param { num_classes: 2 num_box: 2 biases: [1.2, 0.8, 3, 3.5] "
                      "confidence_threshold: 0.15 }",
                      {map}});
      if (f.h == f.w)
        add_unreadable({"EvalDetection",
                        cat("eval_detection_param { side: ", f.h,
                            " num_class: 2 num_object: 2 biases: [1.2, 0.8, 3, 3.5] }"),
                        {map},
                        {"truth"}});
      return;
    }
    const std::string biases = "biases: [6, 8, 20, 12, 40, 44] mask: [0, 2] anchors_scale: 16 ";
    add_unreadable({"Yolov3",
                    cat("yolov3_param { num_class: 2 num: 2 ", biases,
                        one_of("thresh: 0.5 coord_scale: 1 ", "use_logic_gradient: true object_scale: 2 "),
                        "} loss_weight: 0.1"),
                    {map},
                    {"truth"}});
    add_unreadable({"Yolov3DetectionOutput",
                    cat("yolov3_detection_output_param { num_classes: 2 num_box: 2 ", biases,
                        "mask_group_num: 1 confidence_threshold: 0.25 }"),
                    {map}});
  }
  /// SqueezeDet's.
  void add_squeezed_head() {
    const std::size_t from = pick();
    const std::size_t scores = add_unreadable(
        {"Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }", {at_positions(from, 6)}});
    const std::size_t likely = add_unreadable({"Softmax", "softmax_param { axis: 2 }", {scores}});
    const std::size_t confidences = add_unreadable({"Sigmoid", "", {at_positions(from, 2)}});
    add_unreadable(
        {"SqueezeDetLoss",
         "squeezedet_param { classes: 3 anchors_per_grid: 2 anchor_shapes: [2, 2, 4, 3] pos_conf: 2 "
         "neg_conf: 3 lambda_bbox: 1 lambda_conf: 1 } transform_param { crop_size: 6 }",
         {likely, confidences, at_positions(from, 8)},
         {"boxes"}});
  }
  /// Maps, each of which is one of an image's fields.
  std::size_t of_fields(std::size_t from, int channels) {
    return add_unreadable(
        {"Reshape", cat("reshape_param { shape { dim: -1 dim: ", channels, " dim: 6 dim: 6 } }"), {from}});
  }
  /// MS-CNN's loss of a map, or Cascade R-CNN's of two fields.
  void add_field_head() {
    const std::string common =
        cat("cls_num: 3 ", one_of("", "pos_neg_weighted: true "), one_of("", "bg_multiple: 1 "));
    const std::size_t from = six_by_six(pick());
    if (below(2) == 0) {
      const std::string field = "field_w: 4 field_h: 6 downsample_rate: 2 ";
      const std::size_t map = convolution(from, 7, 1);
      add_unreadable(
          {"DetectionLoss",
           cat("detection_loss_param { field_xyr: 0.1 field_whr: 1000 ", common, field,
               one_of("", "bb_smooth: false ", "iou_weighted: true "),
               one_of("", "sample_mode: 'all' ", "sample_mode: 'bootstrap' ", "sample_mode: 'mixture' "),
               "} loss_weight: 0.2"),
           {map},
           {"fields"}});
      add_unreadable({"DetectionAccuracy",
                      cat("detection_accuracy_param { cls_num: 3 ", field, "}"),
                      {map},
                      {"fields"}});
      return;
    }
    const std::string fields = "field_w: [4, 6] field_h: [6, 4] stride: 2 ";
    const std::size_t scores = of_fields(convolution(from, 6, 1), 3),
                      codes = of_fields(convolution(from, 8, 1), 4);
    const std::size_t wanted = of_fields(fed_blob("two_fields"), 6);
    add_unreadable(
        {"DetectionGroupLoss",
         cat("detection_group_loss_param { ", common, fields, one_of("", "batch_size: 8 ", "min_num_neg: 3 "),
             one_of("", "bbox_loss_type: 'Euclidean_L2' "),
             one_of("", "neg_mining_type: 'bootstrap' ", "neg_mining_type: 'mixture' "),
             "} loss_weight: 0.2"),
         {scores, codes, wanted}});
    add_unreadable({"DetectionGroupAccuracy",
                    cat("detection_group_accuracy_param { cls_num: 3 ", fields, "}"),
                    {scores, codes, wanted},
                    {},
                    1 + below(2)});
    const std::size_t likely = add_unreadable({"Softmax", "", {scores}});
    if (allowed_.alone)
      add_unreadable({"BoxGroupOutput",
                      "box_group_output_param { fg_thr: -2 iou_thr: 0.6 min_size: 1 max_post_nms_num: 3 "
                      "box_group_param { field_w: [4, 6] field_h: [6, 4] stride: 2 } }",
                      {likely, codes},
                      {},
                      2});
  }
  /// The boxes of all anchors, as CTPN's or RON's.
  void add_anchor_boxes() {
    const std::size_t from = pick();
    const Form f = form(from);
    const std::string anchors = "proposal_param { base_size: 2 ratio: 1 scale: 1 scale: 2 feat_stride: 1 }";
    const auto softmax = [&](std::size_t scores, int classes) {
      return add_unreadable({"Softmax", "", {with_channels(scores, classes, f.w)}});
    };
    const std::size_t likely = with_channels(softmax(convolution(from, 4, 1), 2), 4, f.w);
    if (below(2) == 0) {
      add_unreadable({"TextProposal", anchors, {likely, convolution(from, 4, 1)}, {"info"}, 2});
      return;
    }
    const std::size_t classes = softmax(convolution(from, 6, 1), 3);
    add_unreadable({"AnchorBoxes", anchors, {likely, classes, convolution(from, 8, 1)}, {}, 2});
  }
  /// DetectNet's lists of boxes, and how good they are.
  void add_clusters() {
    const std::size_t from = pick();
    const Form f = form(from);
    const std::size_t coverage = add_elementwise(convolution(from, 2, 1), "Sigmoid");
    const std::size_t boxes = convolution(from, 4, 1);
    const std::string grid = cat("image_size_x: ", 4 * f.w, " image_size_y: ", 4 * f.h,
                                 " stride: 4 num_classes: 2 max_boxes: ", f.h * f.w, " ");
    const std::size_t found = add_unreadable(
        {"ClusterDetections",
         cat("cluster_boxes_param { ", grid, "coverage_threshold: 0.4 rect_threshold: 0 min_height: 0 }"),
         {coverage, boxes},
         {},
         2});
    const std::size_t covered =
        add_unreadable({"Threshold", "threshold_param { threshold: 0.5 }", {coverage}});
    const std::size_t wanted = add_unreadable(
        {"ClusterGroundtruth", cat("cluster_boxes_param { ", grid, "}"), {covered, boxes}, {}, 2});
    const std::size_t scored =
        add_unreadable({"ScoreDetections",
                        one_of("", "score_detections_param { overlap_threshold: 0.2 }"),
                        {wanted, found}});
    add_unreadable({"PrecisionRecall", "", {scored}, {}, 3});
  }
  /// Cascade R-CNN's: regions of a map, a head for a sample of them, and one for the regions that it moves.
  void add_cascade() {
    const std::size_t from = pick();
    const std::size_t proposed = add_unreadable(
        {"BoxOutput",
         "box_output_param { fg_thr: -3 iou_thr: 0.6 field_w: 4 field_h: 6 downsample_rate: 2 max_nms_num: 9 "
         "max_post_nms_num: 3 min_size: 1 }",
         {convolution(from, 7, 1)},
         {},
         1 + below(2)});
    const std::size_t sample = add_unreadable(
        {"BatchProposalTarget",
         cat("proposal_target_param { cls_num: 3 num_img_per_batch: 6 img_width: 12 img_height: 12 ",
             one_of("batch_size: 6 ", "batch_size: -1 "), one_of("", "append_gtbox: false "),
             one_of("", "fg_thr: 0.3 bg_thr_hg: 0.3 bg_thr_lw: 0 "), "}"),
         {proposed},
         {"targets"},
         6});
    const std::string learned = cat("inner_product_param { ", kFillers, " num_output: ");
    const auto pooled = [&](std::size_t regions) {
      return add_unreadable(
          {"ROIAlign", "roi_align_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.5 }", {from, regions}});
    };
    const std::size_t seen = pooled(sample);
    const std::size_t classes = add_unreadable({"InnerProduct", learned + "3 }", {seen}}),
                      boxes = add_unreadable({"InnerProduct", learned + "12 }", {seen}});
    add_unreadable({"SoftmaxWithLoss", "", {classes, sample + 1}});
    add_unreadable({"SmoothL1Loss", "", {boxes, sample + 2, sample + 3, sample + 4}});
    add_unreadable({"BboxAccuracy", "", {boxes, sample, sample + 5}, {}, 1 + below(2)});
    if (below(2) == 0)
      add_unreadable({"FrcnnOutput",
                      "frcnn_output_param { conf_thr: 0.1 max_det_num: 3 }",
                      {add_unreadable({"Softmax", "", {classes}}), boxes, sample},
                      {"sizes"}});
    std::size_t moved = add_unreadable(
        {"DecodeBBox", one_of("", "decode_bbox_param { gt_iou_thr: 0.6 }"), {boxes, sample, sample + 5}});
    if (below(2) == 0)
      moved = add_unreadable({"ScaleRoute", "scale_route_param { low_scale: 2 high_scale: 9 }", {moved}});
    const std::size_t last = add_unreadable({"InnerProduct", learned + "2 }", {pooled(moved)}});
    add_unreadable(
        {"Reduction", "reduction_param { axis: 0 operation: SUMSQ coeff: 0.01 } loss_weight: 0.5", {last}});
  }
};

}  // namespace banyan
