// What a net's settings say of data that do not exist.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "banyan/layers/layer.hpp"
#include "banyan/tensor/shape.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

/// The field of the layer's settings that names a data source (`source`; of several, the first one that does
/// not exist), and the message that it is in; "" if there is none.
std::string source_of(const caffe::LayerParameter& layer, const google::protobuf::Message*& settings);

/// The path of the layer's source, if it names one that does not exist, or a camera, else "".
std::string missing_source(const caffe::LayerParameter& layer);
/// Why there is none: that it does not exist, for what follows `here`; that it is a camera.
std::string why_no_source(const caffe::LayerParameter& layer, const std::string& source,
                          const std::string& here = "");

/// Of the first blob of a layer with such a source: batch_size x channels x crop_size x crop_size
/// (AnnotatedData, Data: or resize_param's lengths; DocData: those of image_transform_param; lists of files:
/// or new_height x new_width; DataHeatmap: outsize x outsize; clips with labels: 16 frames; FrcnnRoiData:
/// one image of scale x max_size), three channels unless the settings say otherwise. No axes: they do not
/// tell.
Shape shape_of_missing(const caffe::LayerParameter& layer);

/// Of a DataHeatmap: those that labelinds chooses, else the maps that the net compares with its own; 0:
/// neither tells (`net` may be null).
std::int64_t joints_of_missing(const caffe::LayerParameter& layer, const caffe::NetParameter* net);

/// Of the blobs of a layer that no pass goes through before a program has filled them (MemoryData, Python
/// layers that read data); none for any other layer, and for one with settings that it refuses.
std::vector<Shape> shapes_to_fill(const caffe::LayerParameter& layer, Phase phase);

/// Told of a file that a layer names and that does not exist; an error code says so of one that cannot be
/// looked at.
using MissingFile =
    std::function<void(const caffe::LayerParameter&, const std::string&, const std::error_code&)>;
/// Takes files with the names and sizes of images and classes that do not exist, and what needs them, out of
/// the settings of layers that save or compare detections.
void drop_missing_files(caffe::NetParameter& net, const MissingFile& tell);
/// The same with a warning for each that a layer of `state` names.
void drop_missing_files(caffe::NetParameter& net, const caffe::NetState& state);

/// Adds to `shapes` those of the layers of `state` (upgraded net) that have no shape in it and miss their
/// sources, or, if passes follow, a program (shapes_to_fill); logs a warning for each.
void add_missing_data(const caffe::NetParameter& net, const caffe::NetState& state, bool passes,
                      std::map<std::string, Shape>& shapes);

}  // namespace banyan
