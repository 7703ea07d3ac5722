// Rewrites nets and solvers of earlier Caffe formats into the current one. Each step is a function from
// message to message and leaves a file that does not need it unchanged; upgrade_net applies them in Caffe's
// order and logs what it did. `origin` (a file name) begins every message. What cannot be rewritten throws
// bad_input; a setting that the layer never had is logged and dropped, as in Caffe.
#pragma once

#include <string>

#include "proto/banyan.pb.h"

namespace banyan::io {

/// All steps, in order. Settings that Caffe silently ignores are logged as warnings.
void upgrade_net(caffe::NetParameter& net, const std::string& origin);
/// `solver_type: ADAM` becomes `type: "Adam"`; giving both is bad_input.
void upgrade_solver(caffe::SolverParameter& solver, const std::string& origin);

/// V0 (flat settings in layers.layer) to V1. `padding` layers are merged into the layers that read them. Of
/// the net's own fields only name, layers, input, bottom, input_dim and force_backward survive, as in Caffe.
caffe::NetParameter upgrade_v0(caffe::NetParameter net, const std::string& origin);
/// scale, mean_file, crop_size, mirror and a transform_param in the settings of V1 data layers move into
/// theirs.
caffe::NetParameter upgrade_data_transform(caffe::NetParameter net);
/// Throws bad_input if the net has `layers` and `layer`.
void refuse_mixed_formats(const caffe::NetParameter& net, const std::string& origin);
/// V1 (`layers`, enum types, blobs_lr) to the current `layer`. Refuses mixed formats.
caffe::NetParameter upgrade_v1(caffe::NetParameter net, const std::string& origin);
/// `type: "SOFTMAX"` in a `layer` becomes "Softmax".
caffe::NetParameter upgrade_type_names(caffe::NetParameter net);
/// convolution3d_param and pooling3d_param (C3D), pooling_3d_param and pooling_nd_param become
/// convolution_param and pooling_param, and a softmaxloss_param (DeepLab) with an ignore_label becomes a
/// loss_param with it; var_sz_img_* (NVIDIA) become img_rand_resize_* and crop_size, bnhk_param (CaffeMex)
/// bn_param, lrn_map_param lrn_param, and new_dim (caffe-pro) a resize_param.
caffe::NetParameter upgrade_messages(caffe::NetParameter net, const std::string& origin);
/// What 3-D branches call lengths on the first of three spatial axes (kernel_depth, temporal_stride,
/// kernel_d; kernel_shape { dim: 3 dim: 3 dim: 3 }) becomes kernel_size: [3, 3, 3] and so on, and their types
/// Convolution3D, NdConvolution, Deconvolution3D, Pooling3D, NdPooling, PoolingND become Convolution,
/// Deconvolution and Pooling.
caffe::NetParameter upgrade_depth(caffe::NetParameter net, const std::string& origin);
/// hole, hole_h and hole_w (DeepLab) become dilation, dilation_h and dilation_w.
caffe::NetParameter upgrade_holes(caffe::NetParameter net, const std::string& origin);
/// Throws bad_input for layers that BVLC's opencl branch writes into the settings of others (fuse_type),
/// except a ReLU in those of a Convolution and a Pooling in those of an LRN.
void refuse_fusions(const caffe::NetParameter& net, const std::string& origin);
/// `relu: true` of a Convolution, Eltwise or BatchNorm (Intel; in BVLC's opencl branch fused_relu, and
/// fuse_type: FUSED_CONV_RELU of a Convolution) becomes an in-place ReLU layer after it.
caffe::NetParameter upgrade_fused_relu(caffe::NetParameter net);
/// Types of branches that compute what a layer here computes become it: PriorBoxClustered (OpenVINO) a
/// PriorBox, CoSData (CaffeOnSpark) an Input, a SoftmaxWithLoss with three inputs a WeightedSoftmaxWithLoss,
/// both with a warning, ConvolutionData and InnerProductAll the plain layers, ReLU6 a Clip, BNHK (CaffeMex) a
/// BN, LRNMap (LRN_MAP of 2014) an LRN with norm_region: WITHIN_CHANNEL, CuDNNConvolution and
/// CuDNNDeconvolution (makefile/frcnn), Norm and L2Normalize a Normalize, AutoCrop (RCF) a Crop with
/// automatic_offset, SimpleCrop one without offset, RandVec a DummyData, an Eltwise with one input a Power,
/// MultiLabelImageData an ImageData with label_dim, EltwiseAccuracy (DeconvNet) an Accuracy, MatWrite
/// (DeepLab) a Silence, with a warning, and HED's ImageLabelmapData an ImageSegData, whose
/// SigmoidCrossEntropyLoss layers get their class_balance; SigmoidCrossEntropyBalanceLoss (OSVOS) is one with
/// it; Sum (RstarCNN) an Eltwise, MultiFrameData (Hidden-Two-Stream) a VideoData; K1_EuclideanLoss and
/// K2_EuclideanLoss read a blob that is given twice once.
caffe::NetParameter upgrade_branch_types(caffe::NetParameter net, const std::string& origin);
/// The filler of a BatchNorm becomes that of the Scale layer after it, if that has none: Intel's engines take
/// both for one layer.
caffe::NetParameter upgrade_scale_fillers(caffe::NetParameter net);
/// ConvolutionReLU and ReLUPooling (SkimCaffe) become two layers, an LRN with fuse_type: FUSED_POOL_MAX
/// (BVLC's opencl branch) one and a Pooling, a Pooling with pool: MIN one with MAX of negated values, a
/// DenseBlock (caffe_ocr) all that it stands for; XCLProgram (fpga_caffe) is left out, with a warning;
/// Ristretto's types become BVLC's, LocalWeightedConvolution and LocallyConnected a Local. FaceBoxes'
/// PriorBox layers get dense_faces, with a warning; in a net with a Grid (LiteFlowNet) a Warp gets
/// coordinates, and what reads the Grid full storage. The second output of a ReLU (DecoupledNet) becomes that
/// of a Threshold after it.
caffe::NetParameter upgrade_dialects(caffe::NetParameter net, const std::string& origin);
/// The last `param_bottoms` bottoms of a layer (BVLC's multi-GPU branch), which Parameter layers make, become
/// its parameters, shared by the blob's name; a `device` is left out, with a warning.
caffe::NetParameter upgrade_param_bottoms(caffe::NetParameter net, const std::string& origin);
/// FrcnnAnchorTarget, FrcnnProposal and FrcnnProposalTarget (makefile/frcnn) become AnchorTarget, Proposal
/// and ProposalTarget with the settings of the JSON file that FrcnnRoiData names, or with a warning those of
/// that project's voc_config.json; FrcnnRoiData gets its own.
caffe::NetParameter upgrade_frcnn(caffe::NetParameter net, const std::string& origin);
/// TRT (NVIDIA) becomes the layers of the net that it names, and Accuracy layers; reads that net's file.
caffe::NetParameter upgrade_trt(const caffe::NetParameter& net, const std::string& origin);
/// The net's bn_stats_batch_size (Intel) becomes stats_batch_size of the BatchNorm layers that do not give
/// it.
caffe::NetParameter upgrade_bn_stats(caffe::NetParameter net);
/// input (bottom in the first months) + input_shape or input_dim become a first layer "input" of type Input.
/// Without shapes it has those that no layer makes, and a program, or --shape, gives their shapes.
caffe::NetParameter upgrade_inputs(caffe::NetParameter net, const std::string& origin);
/// BatchNorm layers with exactly three `param` entries get lr_mult 0 and decay_mult 0 in each.
caffe::NetParameter upgrade_batch_norm(caffe::NetParameter net);

bool needs_v0_upgrade(const caffe::NetParameter& net);
bool needs_data_transform_upgrade(const caffe::NetParameter& net);
bool needs_v1_upgrade(const caffe::NetParameter& net);
bool needs_type_name_upgrade(const caffe::NetParameter& net);
bool needs_message_upgrade(const caffe::NetParameter& net);
bool needs_depth_upgrade(const caffe::NetParameter& net);
bool needs_hole_upgrade(const caffe::NetParameter& net);
bool needs_fused_relu_upgrade(const caffe::NetParameter& net);
bool needs_branch_type_upgrade(const caffe::NetParameter& net);
bool needs_scale_filler_upgrade(const caffe::NetParameter& net);
bool needs_dialect_upgrade(const caffe::NetParameter& net);
bool needs_param_bottoms_upgrade(const caffe::NetParameter& net);
bool needs_frcnn_upgrade(const caffe::NetParameter& net);
bool needs_trt_upgrade(const caffe::NetParameter& net);
/// A type of a branch of which upgrade_net makes others, whatever its settings.
bool is_read_as_another(const std::string& type);
bool needs_bn_stats_upgrade(const caffe::NetParameter& net);
bool needs_input_upgrade(const caffe::NetParameter& net);
bool needs_batch_norm_upgrade(const caffe::NetParameter& net);

/// "Convolution" for CONVOLUTION; "" for NONE.
std::string current_type_name(caffe::V1LayerParameter::LayerType type);
/// "Softmax" for "SOFTMAX"; any other name stays.
std::string current_type_name(const std::string& name);
/// CONVOLUTION for "conv". False if V0 had no such type.
bool v0_layer_type(const std::string& v0_type, caffe::V1LayerParameter::LayerType& type);

}  // namespace banyan::io
