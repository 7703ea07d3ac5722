// Weights of a .caffemodel, whichever branch of the Caffe family wrote it, or of a .caffemodel.h5.
//
// The branches use the same field numbers for different settings, so a layer is never decoded as a whole:
// names, types and blobs are read from the wire and everything else is skipped. Supported are
//   current layers (100), V1 layers (2) and V0 layers inside V1 ones;
//   shapes as `shape` or as num/channels/height/width; values as packed or single floats or doubles, or as
//   NVIDIA's raw bytes (half, single, double).
// The reader never reads outside the bytes it was given and allocates in proportion to them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/banyan.pb.h"

namespace banyan::io {

/// One array in row-major order. The number of values equals the product of the shape (1 for no axis at all).
struct BlobData {
  std::vector<std::int64_t> shape;
  bool legacy_shape = false;    ///< the shape came as num, channels, height, width
  std::vector<float> floats;    ///< the values, unless the file had doubles
  std::vector<double> doubles;  ///< the values, if the file had doubles
  bool missing = false;         ///< the file does not hold it (ModelWeights::shared_once)

  bool is_double() const { return !doubles.empty(); }
  std::size_t count() const { return is_double() ? doubles.size() : floats.size(); }
  double at(std::size_t i) const { return is_double() ? doubles[i] : static_cast<double>(floats[i]); }
  /// Writes count() values, rounded to T.
  template <class T>
  void copy_to(T* out) const {
    for (std::size_t i = 0; i < doubles.size(); ++i) out[i] = static_cast<T>(doubles[i]);
    for (std::size_t i = 0; i < floats.size(); ++i) out[i] = static_cast<T>(floats[i]);
  }
};

struct LayerWeights {
  std::string name;
  std::string type;  ///< current name, such as "Convolution"; as written if no format knows it
  std::vector<BlobData> blobs;
};

struct ModelWeights {
  std::string name;
  std::vector<LayerWeights> layers;  ///< in the order of the file, layers without blobs included
  bool shared_once = false;  ///< HDF5: a shared parameter is with its owner only; elsewhere it is missing

  /// The first layer of that name, which is the one Caffe takes, or null.
  const LayerWeights* find(const std::string& layer_name) const;
};

/// Recognizes HDF5 by the file's beginning. Throws bad_input with the file, the byte offset (HDF5: the
/// dataset) and the layer if the file is missing, damaged, not a net, or if a blob's number of values does
/// not match its shape. (A file truncated exactly between two layers cannot be distinguished from a shorter
/// net.)
ModelWeights read_weights(const std::string& path);
/// The same from memory (no HDF5); `origin` takes the place of the file name in messages.
ModelWeights parse_weights(std::string_view bytes, const std::string& origin);

/// One decoded BlobProto (a mean file, an entry of a solver's history); `where` begins the message of
/// bad_input.
BlobData decode_blob(const caffe::BlobProto& blob, const std::string& where);
/// The BlobProto that Caffe writes: `shape` and packed values.
caffe::BlobProto encode_blob(const std::vector<std::int64_t>& shape, const float* values);
caffe::BlobProto encode_blob(const std::vector<std::int64_t>& shape, const double* values);

/// The contents of a .caffemodel: the name, and every layer's name, type and blobs.
caffe::NetParameter to_proto(const ModelWeights& weights);

/// Whether a blob of the file can fill a parameter: the same axes, or axes that differ only by ones. That
/// covers Caffe's rule for legacy shapes (left padded with ones to four axes) and the branches' different
/// shapes of one batch norm blob.
bool shapes_compatible(const BlobData& blob, const std::vector<std::int64_t>& target);

/// `(64, 3, 7, 7)`
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace banyan::io
