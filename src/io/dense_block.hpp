// DenseBlock (caffe_ocr), which is read as the layers that it stands for: their names, and their weights.
#pragma once

#include <string>

#include "banyan/io/weights.hpp"
#include "proto/banyan.pb.h"

namespace banyan::io {

/// Of a layer that block `block` stands for: `what` of convolution `number`, from 1 on.
std::string dense_layer_name(const std::string& block, const char* what, int number);

/// A DenseBlock, whose output is x for x the input and then, numTransition times, x joined by what a 3 x 3
/// convolution makes of it after batch normalization with slopes and biases and a ReLU; with use_BC, after
/// these, a 1 x 1 convolution to four times as many channels, batch normalization and a ReLU. Throws
/// bad_input.
void write_out_dense_block(const caffe::LayerParameter& block, const std::string& origin,
                           google::protobuf::RepeatedPtrField<caffe::LayerParameter>& layers);

/// The blobs of DenseBlocks without use_BC become those of their layers. A block has all filters, then all
/// slopes, biases, sums of means, sums of variances, and what these are divided by.
void split_dense_blocks(ModelWeights& weights);

}  // namespace banyan::io
