// The nets and solvers used to test promises 1 and 2, on CPU devices and on GPUs.
#pragma once

#include <string>
#include <vector>

#include "train/training_case.hpp"

namespace banyan {

inline const char* const kSolver =
    "base_lr: 0.05 momentum: 0.9 weight_decay: 0.001 lr_policy: 'step' gamma: 0.5 stepsize: 8 random_seed: 3 "
    "display: 0 ";

inline std::string data_layer(const std::string& more = "") {
  return "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'DATA' backend: "
         "LMDB batch_size: 24 "
         "batch_size_is_total: true " +
         more + " } transform_param { scale: 0.01 crop_size: 10 pad: 1 mirror: true mean_value: 60 } } ";
}

inline const char* const kBody = R"(
layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 bias_term: false weight_filler { type: 'msra' } } }
layer { name: 'bn1' type: 'SyncBN' bottom: 'conv1' top: 'bn1' bn_param { slope_filler { value: 1 } } }
layer { name: 'relu1' type: 'ReLU' bottom: 'bn1' top: 'bn1' }
layer { name: 'pool1' type: 'Pooling' bottom: 'bn1' top: 'pool1' pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: 'conv2' type: 'Convolution' bottom: 'pool1' top: 'conv2'
  convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'bn2' type: 'BatchNorm' bottom: 'conv2' top: 'bn2' batch_norm_param { sync: true } }
layer { name: 'scale2' type: 'Scale' bottom: 'bn2' top: 'bn2' scale_param { bias_term: true } }
layer { name: 'relu2' type: 'ReLU' bottom: 'bn2' top: 'bn2' }
layer { name: 'drop' type: 'Dropout' bottom: 'bn2' top: 'drop' dropout_param { dropout_ratio: 0.3 } }
)";

inline std::string classifier(const std::string& loss_param = "") {
  return "layer { name: 'ip' type: 'InnerProduct' bottom: 'drop' top: 'ip' inner_product_param { num_output: "
         "5 "
         "weight_filler { type: 'xavier' } } } "
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' loss_param "
         "{ " +
         loss_param + " } } ";
}

/// A second, weighted loss, and two layers that share their weights.
inline const char* const kSecondLoss = R"(
layer { name: 'a' type: 'InnerProduct' bottom: 'drop' top: 'a' param { name: 'w' } param { name: 'b' }
  inner_product_param { num_output: 1 weight_filler { type: 'gaussian' std: 0.05 } } }
layer { name: 'b' type: 'InnerProduct' bottom: 'bn2' top: 'b' param { name: 'w' } param { name: 'b' }
  inner_product_param { num_output: 1 weight_filler { type: 'gaussian' std: 0.05 } } }
layer { name: 'ab' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'ab' }
layer { name: 'distance' type: 'EuclideanLoss' bottom: 'ab' bottom: 'label' top: 'distance' loss_weight: 0.1 }
)";

/// Layers of segmentation and detection nets, vectors of unit length, losses of several kinds. MVN's eps: its
/// default amplifies the rounding of a nearly constant channel by 1e5.
inline const char* const kOtherLayers = R"(
layer { name: 'pool9' type: 'Pooling' bottom: 'bn1' top: 'pool9' top: 'mask9' pooling_param { kernel_size: 2 stride: 2 } }
layer { name: 'up9' type: 'Upsample' bottom: 'pool9' bottom: 'mask9' top: 'up9' upsample_param { scale: 2 } }
layer { name: 'deconv9' type: 'Deconvolution' bottom: 'pool9' top: 'deconv9' convolution_param {
  num_output: 6 group: 6 kernel_size: 4 stride: 2 pad: 1 bias_term: false weight_filler { type: 'bilinear' } } }
layer { name: 'sum9' type: 'Eltwise' bottom: 'up9' bottom: 'deconv9' top: 'sum9' }
layer { name: 'prelu9' type: 'PReLU' bottom: 'sum9' top: 'sum9' }
layer { name: 'shuffle9' type: 'ShuffleChannel' bottom: 'sum9' top: 'shuffle9' shuffle_channel_param { group: 2 } }
layer { name: 'interp9' type: 'Interp' bottom: 'shuffle9' top: 'interp9' interp_param { height: 4 width: 5 } }
layer { name: 'mvn9' type: 'MVN' bottom: 'interp9' top: 'mvn9' mvn_param { eps: 0.001 } }
layer { name: 'norm9' type: 'Normalize' bottom: 'mvn9' top: 'norm9' norm_param {
  across_spatial: false channel_shared: false scale_filler { type: 'constant' value: 2 } } }
layer { name: 'ip9' type: 'InnerProduct' bottom: 'norm9' top: 'ip9' inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'swish9' type: 'Swish' bottom: 'ip9' top: 'swish9' }
layer { name: 'smoothed9' type: 'SoftmaxWithLoss' bottom: 'swish9' bottom: 'label' top: 'smoothed9' loss_weight: 0.3
  loss_param { label_smoothing: 0.1 } }
layer { name: 'hinge9' type: 'HingeLoss' bottom: 'ip9' bottom: 'label' top: 'hinge9' loss_weight: 0.1 hinge_loss_param { norm: L2 } }
layer { name: 'squares9' type: 'Reduction' bottom: 'ip9' top: 'squares9' loss_weight: 0.01 reduction_param { operation: MEAN } }
)";

/// The rows of each image as 6 time steps; whether a sequence continues from step to step, and from a batch's
/// sample to the same one of the next batch, follows from a pixel.
inline const char* const kRecurrentBody = R"(
layer { name: 'rows' type: 'Reshape' bottom: 'data' top: 'rows' reshape_param { shape { dim: 0 dim: 6 dim: 50 } } }
layer { name: 'steps' type: 'Permute' bottom: 'rows' top: 'steps' permute_param { order: 1 order: 0 order: 2 } }
layer { name: 'cut' type: 'Slice' bottom: 'steps' top: 'pixel' top: 'x' slice_param { axis: 2 slice_point: 1 } }
layer { name: 'dark' type: 'Threshold' bottom: 'pixel' top: 'dark' threshold_param { threshold: -0.1 } }
layer { name: 'cont' type: 'Reshape' bottom: 'dark' top: 'cont' reshape_param { shape { dim: 0 dim: 0 } } }
layer { name: 'whole' type: 'InnerProduct' bottom: 'data' top: 'whole' inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }
layer { name: 'lstm' type: 'LSTM' bottom: 'x' bottom: 'cont' bottom: 'whole' top: 'lstm' recurrent_param {
  num_output: 5 weight_filler { type: 'uniform' min: -0.3 max: 0.3 } bias_filler { value: 0.1 } } }
layer { name: 'anew' type: 'Lstm' bottom: 'lstm' top: 'anew' lstm_param {
  num_output: 5 clipping_threshold: 0.0005 weight_filler { type: 'uniform' min: -0.4 max: 0.4 } bias_filler { value: 0.1 } } }
layer { name: 'rnn' type: 'RNN' bottom: 'anew' bottom: 'cont' top: 'rnn' recurrent_param {
  num_output: 6 weight_filler { type: 'uniform' min: -0.5 max: 0.5 } } }
layer { name: 'drop' type: 'Permute' bottom: 'rnn' top: 'drop' permute_param { order: 1 order: 0 order: 2 } }
)";

/// Layers of face recognition nets: parameters that a rule or a projection changes, a margin that decays.
inline const char* const kFaces = R"(
layer { name: 'flip8' type: 'Flip' bottom: 'bn2' top: 'flip8' }
layer { name: 'turned8' type: 'Transpose' bottom: 'flip8' top: 'turned8' transpose_param { dim: [0, 2, 3, 1] } }
layer { name: 'face8' type: 'InnerProduct' bottom: 'turned8' top: 'face8' inner_product_param { num_output: 6 weight_filler { type: 'xavier' } } }
layer { name: 'other8' type: 'InnerProduct' bottom: 'drop' top: 'other8' inner_product_param { num_output: 6 weight_filler { type: 'xavier' } } }
layer { name: 'center8' type: 'CenterLoss' bottom: 'face8' bottom: 'label' top: 'center8' loss_weight: 0.02
  center_loss_param { num_output: 5 center_filler { type: 'xavier' } } }
layer { name: 'margin8' type: 'MarginInnerProduct' bottom: 'face8' bottom: 'label' top: 'margin8' top: 'lambda8'
  margin_inner_product_param { num_output: 5 type: QUADRUPLE base: 20 gamma: 0.2 lambda_min: 1 weight_filler { type: 'xavier' } } }
layer { name: 'angle8' type: 'SoftmaxWithLoss' bottom: 'margin8' bottom: 'label' top: 'angle8' loss_weight: 0.3 }
layer { name: 'cosine8' type: 'CosineSimilarity' bottom: 'face8' bottom: 'other8' top: 'cosine8' }
layer { name: 'alike8' type: 'Reduction' bottom: 'cosine8' top: 'alike8' loss_weight: -0.1 reduction_param { operation: MEAN } }
layer { name: 'reversal8' type: 'GradientScaler' bottom: 'face8' top: 'reversal8'
  gradient_scaler_param { lower_bound: 0.1 upper_bound: 0.5 alpha: 2 max_iter: 6 } }
layer { name: 'backwards8' type: 'Reverse' bottom: 'reversal8' top: 'backwards8' reverse_param { axis: 1 } }
layer { name: 'domain8' type: 'InnerProduct' bottom: 'backwards8' top: 'domain8' inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'unit8' type: 'InnerProduct' bottom: 'face8' top: 'unit8' inner_product_param {
  num_output: 5 normalize: true bias_term: false weight_filler { type: 'gaussian_unitball' } } }
layer { name: 'limited8' type: 'Scale' bottom: 'unit8' top: 'limited8' scale_param {
  num_axes: 0 min_value: 0.9 max_value: 1 filler { value: 1.2 } } }
layer { name: 'squares8' type: 'Reduction' bottom: 'face8' top: 'squares8' reduction_param { operation: SUMSQ axis: 1 coeff: 0.1 } }
layer { name: 'spread8' type: 'ChannelScale' bottom: 'limited8' bottom: 'squares8' top: 'spread8' }
layer { name: 'add8' type: 'LabelSpecificAdd' bottom: 'spread8' bottom: 'label' top: 'add8' top: 'bias8'
  label_specific_add_param { bias_base: -0.1 bias_gamma: -0.02 bias_min: -0.4 } }
layer { name: 'rescale8' type: 'LabelSpecificRescale' bottom: 'add8' bottom: 'label' top: 'rescale8'
  label_specific_rescale_param { positive_weight_base: 0.9 gamma: 0.05 positive_weight_min: 0.6 } }
layer { name: 'unit_loss8' type: 'SoftmaxWithLoss' bottom: 'rescale8' bottom: 'label' top: 'unit_loss8' loss_weight: 0.3 }
layer { name: 'common8' type: 'GlobalLSEMargin' bottom: 'limited8' bottom: 'label' top: 'common8' top: 'statistics8' scale_param {
  filler { value: 2 } max_value: 3 } }
layer { name: 'common_loss8' type: 'SoftmaxWithLoss' bottom: 'common8' bottom: 'label' top: 'common_loss8' loss_weight: 0.2 }
layer { name: 'rows8' type: 'Parameter' top: 'rows8' parameter_param { shape { dim: 5 dim: 6 } blob_filler { type: 'gaussian_unitball' } } }
layer { name: 'distances8' type: 'InnerDistance' bottom: 'face8' bottom: 'rows8' top: 'distances8' inner_distance_param { bias_term: false } }
layer { name: 'apart8' type: 'GeneralContrastiveLoss' bottom: 'distances8' bottom: 'label' top: 'apart8' top: 'means8' loss_weight: 0.05 loss_weight: 1
  general_contrastive_loss_param { negative_margin: 3 } }
layer { name: 'confused8' type: 'SoftmaxWithLoss' bottom: 'domain8' bottom: 'label' top: 'confused8' loss_weight: 0.2 }
)";

/// Faster R-CNN: a label l stands for a box of class l + 1 at l, 2; anchors and regions are drawn.
inline const char* const kDetector = R"(
layer { name: 'row9' type: 'Reshape' bottom: 'label' top: 'row9' reshape_param { shape { dim: 0 dim: 1 dim: 1 } } }
layer { name: 'x9' type: 'Power' bottom: 'row9' top: 'x9' power_param { shift: 6 } }
layer { name: 'y9' type: 'Power' bottom: 'row9' top: 'y9' power_param { scale: 0 shift: 2 } }
layer { name: 'last9' type: 'Power' bottom: 'row9' top: 'last9' power_param { scale: 0 shift: 8 } }
layer { name: 'class9' type: 'Power' bottom: 'row9' top: 'class9' power_param { shift: 1 } }
layer { name: 'boxes9' type: 'Concat' bottom: 'row9' bottom: 'y9' bottom: 'x9' bottom: 'last9' bottom: 'class9' top: 'boxes9'
  concat_param { axis: 2 } }
layer { name: 'size9' type: 'Power' bottom: 'row9' top: 'size9' power_param { scale: 0 shift: 12 } }
layer { name: 'info9' type: 'Concat' bottom: 'size9' bottom: 'size9' bottom: 'class9' top: 'info9' concat_param { axis: 1 } }
layer { name: 'rpn9' type: 'Convolution' bottom: 'bn1' top: 'rpn9' convolution_param {
  num_output: 6 kernel_size: 3 pad: 1 stride: 2 weight_filler { type: 'xavier' } } }
layer { name: 'score9' type: 'Convolution' bottom: 'rpn9' top: 'score9' convolution_param {
  num_output: 4 kernel_size: 1 weight_filler { type: 'xavier' } } }
layer { name: 'shift9' type: 'Convolution' bottom: 'rpn9' top: 'shift9' convolution_param {
  num_output: 8 kernel_size: 1 weight_filler { type: 'gaussian' std: 0.05 } } }
layer { name: 'scores9' type: 'Reshape' bottom: 'score9' top: 'scores9' reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 0 } } }
layer { name: 'anchors9' type: 'AnchorTarget' bottom: 'score9' bottom: 'boxes9' bottom: 'info9'
  top: 'labels9' top: 'targets9' top: 'inside9' top: 'outside9' anchor_target_param {
    feat_stride: 2 base_size: 4 ratio: 1 scale: 1 scale: 2 batch_size: 16 positive_overlap: 0.5 allowed_border: 2 } }
layer { name: 'rpn_loss9' type: 'SoftmaxWithLoss' bottom: 'scores9' bottom: 'labels9' top: 'rpn_loss9' loss_param { ignore_label: -1 } }
layer { name: 'shift_loss9' type: 'SmoothL1Loss' bottom: 'shift9' bottom: 'targets9' bottom: 'inside9' bottom: 'outside9' top: 'shift_loss9'
  smooth_l1_loss_param { sigma: 3 } }
layer { name: 'prob9' type: 'Softmax' bottom: 'scores9' top: 'prob9' }
layer { name: 'probs9' type: 'Reshape' bottom: 'prob9' top: 'probs9' reshape_param { shape { dim: 0 dim: 4 dim: -1 dim: 0 } } }
layer { name: 'proposal9' type: 'Proposal' bottom: 'probs9' bottom: 'shift9' bottom: 'info9' top: 'found9' proposal_param {
  feat_stride: 2 base_size: 4 ratio: 1 scale: 1 scale: 2 min_size: 0 post_nms_topn: 12 } }
layer { name: 'sample9' type: 'ProposalTarget' bottom: 'found9' bottom: 'boxes9'
  top: 'rois9' top: 'classes9' top: 'moves9' top: 'in9' top: 'out9' proposal_target_param { num_classes: 6 batch_size: 6 fg_fraction: 0.5 } }
layer { name: 'roi9' type: 'ROIPooling' bottom: 'bn1' bottom: 'rois9' top: 'roi9' roi_pooling_param { pooled_h: 2 pooled_w: 2 } }
layer { name: 'class_score9' type: 'InnerProduct' bottom: 'roi9' top: 'class_score9' inner_product_param { num_output: 6 weight_filler { type: 'xavier' } } }
layer { name: 'move9' type: 'InnerProduct' bottom: 'roi9' top: 'move9' inner_product_param { num_output: 24 weight_filler { type: 'gaussian' std: 0.05 } } }
layer { name: 'class_loss9' type: 'SoftmaxWithLoss' bottom: 'class_score9' bottom: 'classes9' top: 'class_loss9' }
layer { name: 'move_loss9' type: 'SmoothL1Loss' bottom: 'move9' bottom: 'moves9' bottom: 'in9' bottom: 'out9' top: 'move_loss9' }
)";

/// Some of the samples, and some of these, go through layers of their own.
inline const char* const kFiltered = R"(
layer { name: 'chosen7' type: 'Threshold' bottom: 'label' top: 'chosen7' threshold_param { threshold: 1.5 } }
layer { name: 'filter7' type: 'Filter' bottom: 'bn1' bottom: 'label' bottom: 'chosen7' top: 'maps7' top: 'label7' }
layer { name: 'conv7' type: 'Convolution' bottom: 'maps7' top: 'conv7'
  convolution_param { num_output: 8 kernel_size: 3 stride: 2 bias_term: false weight_filler { type: 'msra' } } }
layer { name: 'bn7' type: 'BatchNorm' bottom: 'conv7' top: 'bn7' batch_norm_param { sync: true eps: 0.01 } }
layer { name: 'scale7' type: 'Scale' bottom: 'bn7' top: 'bn7' scale_param { bias_term: true } }
layer { name: 'relu7' type: 'ReLU' bottom: 'bn7' top: 'bn7' }
layer { name: 'ip7' type: 'InnerProduct' bottom: 'bn7' top: 'ip7' inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'loss7' type: 'SoftmaxWithLoss' bottom: 'ip7' bottom: 'label7' top: 'loss7' loss_weight: 0.5 }
layer { name: 'last7' type: 'Threshold' bottom: 'label7' top: 'last7' threshold_param { threshold: 3.5 } }
layer { name: 'again7' type: 'Filter' bottom: 'ip7' bottom: 'label7' bottom: 'last7' top: 'scores7' top: 'four7' }
layer { name: 'one7' type: 'InnerProduct' bottom: 'scores7' top: 'one7' inner_product_param { num_output: 1 weight_filler { type: 'xavier' } } }
layer { name: 'distance7' type: 'EuclideanLoss' bottom: 'one7' bottom: 'four7' top: 'distance7' loss_weight: 0.02 }
)";

/// One way of training in which N devices equal one device.
struct Variant {
  std::string name;
  TrainingCase what;
};
inline void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

inline std::vector<Variant> variants() {
  const std::string solver = kSolver, body = data_layer() + kBody;
  return {
      {"Plain", {solver, body + classifier()}},
      {"IterSize2", {solver + "iter_size: 2", body + classifier()}},
      {"Clipped", {solver + "clip_gradients: 0.5", body + classifier()}},
      {"ClippedIterSize2", {solver + "clip_gradients: 0.5 iter_size: 2", body + classifier()}},
      {"IgnoreLabel", {solver, body + classifier("ignore_label: 2 normalization: VALID")}},
      {"Full", {solver, body + classifier("ignore_label: 2 normalization: FULL")}},
      {"BatchSize", {solver, body + classifier("normalization: BATCH_SIZE")}},
      {"None", {solver + "clip_gradients: 1", body + classifier("normalization: NONE")}},
      {"TwoLossesSharedWeights", {solver, body + classifier() + kSecondLoss}},
      {"PartialEpochs", {solver, data_layer("epoch_end: PARTIAL") + kBody + classifier()}},
      {"PartialEpochsTwoLosses",
       {solver, data_layer("epoch_end: PARTIAL") + kBody + classifier("ignore_label: 0") + kSecondLoss}},
      {"Nesterov", {solver + "type: 'Nesterov'", body + classifier()}},
      {"OtherLayers", {solver, body + kOtherLayers + classifier()}},
      {"Recurrent", {solver, data_layer() + kRecurrentBody + classifier()}},
      {"RecurrentPartialEpochs",
       {solver + "iter_size: 2", data_layer("epoch_end: PARTIAL") + kRecurrentBody + classifier()}},
      {"Faces", {solver + "iter_size: 2", body + kFaces + classifier()}},
      {"Detector", {solver, body + kDetector + classifier()}},
      {"Filtered", {solver, body + kFiltered + classifier()}},
      {"FilteredPartialEpochs",
       {solver + "iter_size: 2", data_layer("epoch_end: PARTIAL") + kBody + kFiltered + classifier()}},
      {"Larc", {solver + "larc: true larc_eta: 0.02", body + classifier()}},
      {"LarcClipped",
       {solver + "larc: true larc_policy: 'clip' larc_eta: 0.02 clip_gradients: 0.5 iter_size: 2",
        body + classifier()}},
      {"LarcTurbo",
       {solver + "larc: true larc_turbo: true larc_policy: 'clip' larc_eta: 0.02", body + classifier()}},
      {"SagTurbo",
       {solver +
            "type: 'SAG' regularization_type: 'WD' larc: true larc_turbo: true larc_eta: 0.02 iter_size: 2",
        body + classifier()}},
      {"LocalRateAuto", {solver + "local_lr_auto: true local_gw_ratio: 0.02", body + classifier()}},
      {"Policies",
       {solver +
            "momentum_policy: 'poly' max_momentum: 0.95 weight_decay_policy: 'poly' max_weight_decay: 0.02",
        body + classifier()}},
      {"Adam", {solver + "type: 'Adam' momentum2: 0.99 delta: 1e-4", body + classifier()}},
      {"AdamW", {solver + "type: 'AdamW' momentum2: 0.99 delta: 1e-4", body + classifier()}},
      {"Lamb", {solver + "type: 'LAMB' momentum2: 0.99 delta: 1e-4 iter_size: 2", body + classifier()}},
  };
}

/// The first iteration in f32: with rate 1 and neither momentum nor decay, the parameters move by the
/// gradient.
struct StepInF32 {
  TrainingCase what;
  Trained one;  ///< by one CPU device
  double largest_gradient = 0;
};
inline StepInF32 first_step_in_f32(const TrainingCase& of) {
  StepInF32 step{of, {}, 0};
  step.what.precision = RunPrecision::f32;
  step.what.iterations = 1;
  step.what.solver = "base_lr: 1 lr_policy: 'fixed' random_seed: 3 average_loss: 1";
  if (of.solver.find("iter_size") != std::string::npos) step.what.solver += " iter_size: 2";
  TrainingCase still = step.what;
  still.solver.replace(still.solver.find("base_lr: 1"), 10, "base_lr: 0");
  const std::vector<double> start = train_case(still, 1).values();
  step.one = train_case(step.what, 1);
  const std::vector<double> end = step.one.values();
  for (std::size_t i = 0; i < start.size(); ++i)
    step.largest_gradient = std::max(step.largest_gradient, std::abs(end[i] - start[i]));
  return step;
}

/// These devices match one CPU device: loss and gradients to `tolerance`, relative to the loss and to the
/// largest gradient; subtracting a gradient from a weight costs another ulp or two (6e-8 each).
inline void expect_the_same_step(const StepInF32& step, const std::vector<DeviceChoice>& devices,
                                 double tolerance) {
  const Trained several = train_case(step.what, devices);
  const std::vector<double> expected = step.one.values(), found = several.values();
  EXPECT_NEAR(several.losses()[0], step.one.losses()[0], tolerance * std::abs(step.one.losses()[0]));
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], tolerance * step.largest_gradient + 1.2e-7)
        << devices.size() << " devices";
}

/// f64: 20 iterations amplify rounding (1e-16) by less than 1e6 on these nets. Adam's delta is large enough
/// not to amplify gradients that are zero up to rounding, those of a bias before a batch normalization.
inline void expect_the_same_run(const Trained& one, TrainingCase what,
                                const std::vector<DeviceChoice>& devices, const std::string& tree = "auto") {
  what.tree = tree;
  const Trained several = train_case(what, devices);
  EXPECT_LE(largest_difference(one.values(), several.values()), 1e-10)
      << devices.size() << " devices, " << tree;
  EXPECT_LE(largest_difference(one.losses(), several.losses()), 1e-10)
      << devices.size() << " devices, " << tree;
}

/// f32 after 20 iterations: how far one CPU device with permuted batches is from one without, the worst of
/// eight permutations.
struct PermutedDrift {
  TrainingCase what;
  TrainingFolder folder;  ///< without permutation
  std::vector<double> one;
  double drift = 0;
  /// At most 3 times as far.
  void expect(const std::vector<double>& values) const {
    EXPECT_LE(relative_distance(one, values), 3 * drift);
  }
};
/// No dropout or augmentation here: they depend on a sample's place in the batch.
inline void measure(PermutedDrift& measured) {
  TrainingCase& what = measured.what;
  what =
      TrainingCase{kSolver,
                   "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'DATA' "
                   "backend: LMDB batch_size: 24 "
                   "batch_size_is_total: true } transform_param { scale: 0.01 mean_value: 60 } } " +
                       std::string(kBody) + classifier()};
  what.net.replace(what.net.find("dropout_ratio: 0.3"), 18, "dropout_ratio: 0.0");
  what.precision = RunPrecision::f32;
  const auto permuted = [](int turn) {
    std::vector<int> order;
    for (int i = 0; i < 48; ++i) order.push_back(i / 24 * 24 + (i % 24 * 7 + turn) % 24);
    return order;
  };
  measured.one = train_case(what, 1, measured.folder).values();
  // It depends on whether a ReLU or a pooling maximum flips, and not every permutation has one that does.
  for (int turn = 0; turn < 24; turn += 3) {
    const TrainingFolder folder(permuted(turn));
    measured.drift =
        std::max(measured.drift, relative_distance(measured.one, train_case(what, 1, folder).values()));
  }
  EXPECT_GT(measured.drift, 0);
}

/// Each of these teams is within it.
inline void expect_the_drift_of_a_permuted_batch(const std::vector<std::vector<DeviceChoice>>& teams) {
  PermutedDrift drift;
  measure(drift);
  for (const std::vector<DeviceChoice>& team : teams) {
    SCOPED_TRACE(cat(team.size(), " devices"));
    drift.expect(train_case(drift.what, team, drift.folder).values());
  }
}

}  // namespace banyan
