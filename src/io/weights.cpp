#include "banyan/io/weights.hpp"

#include <algorithm>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/binary_proto.hpp"
#include "banyan/io/upgrade.hpp"
#include "blob_reader.hpp"
#include "dense_block.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_model.hpp"
#include "wire_reader.hpp"

namespace banyan::io {
namespace {

// More than any real net has; keeps a file that consists of empty layers from filling the memory.
constexpr std::size_t kMostLayers = 1'000'000;

/// Field numbers of what is read from a layer.
struct LayerFields {
  std::uint64_t name, type, blobs;
};
constexpr LayerFields kCurrentFields = {1, 2, 7};
constexpr LayerFields kV1Fields = {4, 5, 6};
constexpr LayerFields kV0Fields = {1, 2, 50};
constexpr std::uint64_t kV0InsideV1 = 1;

/// A layer before its blobs are decoded: the name may come after them, and messages about them need it.
struct RawLayer {
  std::string name;
  std::string type;
  std::vector<std::string_view> blobs;
  std::string_view v0;
};

std::string v1_type_text(std::uint64_t value) {
  using Layer = caffe::V1LayerParameter;
  const auto number = static_cast<int>(value);
  if (value > static_cast<std::uint64_t>(Layer::LayerType_MAX) || !Layer::LayerType_IsValid(number)) {
    return cat("type ", value);
  }
  return current_type_name(static_cast<Layer::LayerType>(number));
}

std::string v0_type_text(const std::string& v0_type) {
  caffe::V1LayerParameter::LayerType type;
  return v0_layer_type(v0_type, type) ? current_type_name(type) : v0_type;
}

class ModelReader {
 public:
  ModelReader(std::string_view bytes, const std::string& origin)
      : bytes_(bytes), origin_{bytes.data(), origin, ""} {}

  ModelWeights read() {
    refuse_other_kinds();
    WireReader net(bytes_, origin_);
    while (!net.done()) {
      net.read_tag();
      if (net.is(1, WireType::bytes)) {
        model_.name = net.read_bytes();
      } else if (net.is(1, WireType::varint) && model_.layers.empty()) {
        // Field 1 is the name of a net; solver states and means begin with a number there.
        net.fail(
            "expected a net with weights (.caffemodel), found what may be a .solverstate or a .binaryproto");
      } else if (net.is(100, WireType::bytes)) {
        add_layer(net.read_bytes(), kCurrentFields);
      } else if (net.is(2, WireType::bytes)) {
        add_layer(net.read_bytes(), kV1Fields);
      } else {
        net.skip();
      }
    }
    if (model_.layers.empty()) {
      bad_input(origin_.name, ": expected a net with weights (.caffemodel), found no layer in ",
                bytes_.size(), " bytes");
    }
    split_dense_blocks(model_);
    return std::move(model_);
  }

 private:
  void refuse_other_kinds() const {
    if (bytes_.empty())
      bad_input(origin_.name, ": expected a net with weights (.caffemodel), found an empty file");
    if (bytes_.substr(0, 8) == "\x89HDF\r\n\x1a\n") {
      bad_input(origin_.name, ": weights in HDF5 form cannot be read from memory, only from a file");
    }
    const std::string_view head = bytes_.substr(0, 512);
    const bool text = std::all_of(head.begin(), head.end(), [](char c) {
      return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\r' || c == '\t';
    });
    if (text && head.find_first_of(":{#") != std::string_view::npos) {
      bad_input(origin_.name, ": expected a net with weights (.caffemodel), found text");
    }
  }

  void add_layer(std::string_view message, const LayerFields& fields) {
    origin_.place = cat("layer number ", model_.layers.size());
    if (model_.layers.size() == kMostLayers) {
      origin_.fail(message.data(), cat("the net has more than ", kMostLayers, " layers"));
    }
    const bool v1 = fields.name == kV1Fields.name;
    RawLayer raw = find_parts(message, fields, v1);
    if (!raw.v0.empty()) {
      raw = find_parts(raw.v0, kV0Fields, false);
      raw.type = v0_type_text(raw.type);
    }
    LayerWeights layer{std::move(raw.name), std::move(raw.type), {}};
    blobs_ += raw.blobs.size();
    if (blobs_ > kMostLayers)
      origin_.fail(message.data(), cat("the net has more than ", kMostLayers, " blobs"));
    for (const std::string_view blob : raw.blobs) {
      origin_.place = cat("layer ", quoted(layer.name), " blob ", layer.blobs.size());
      layer.blobs.push_back(read_blob(blob, origin_));
    }
    origin_.place.clear();
    model_.layers.push_back(std::move(layer));
  }

  RawLayer find_parts(std::string_view message, const LayerFields& fields, bool v1) const {
    RawLayer raw;
    WireReader reader(message, origin_);
    while (!reader.done()) {
      reader.read_tag();
      if (reader.is(fields.name, WireType::bytes)) {
        raw.name = reader.read_bytes();
      } else if (v1 && reader.is(fields.type, WireType::varint)) {
        raw.type = v1_type_text(reader.read_varint());
      } else if (!v1 && reader.is(fields.type, WireType::bytes)) {
        raw.type = reader.read_bytes();
      } else if (reader.is(fields.blobs, WireType::bytes)) {
        raw.blobs.push_back(reader.read_bytes());
      } else if (v1 && reader.is(kV0InsideV1, WireType::bytes)) {
        raw.v0 = reader.read_bytes();
      } else {
        reader.skip();
      }
    }
    return raw;
  }

  std::string_view bytes_;
  WireOrigin origin_;
  ModelWeights model_;
  std::size_t blobs_ = 0;
};

std::vector<std::int64_t> without_ones(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> rest;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(rest),
               [](std::int64_t axis) { return axis != 1; });
  return rest;
}

std::uint64_t checked_count(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 0;
  if (!element_count(shape, count)) runtime_failure("cannot store a blob of shape ", shape_text(shape));
  return count;
}

}  // namespace

const LayerWeights* ModelWeights::find(const std::string& layer_name) const {
  const auto found = std::find_if(layers.begin(), layers.end(),
                                  [&](const LayerWeights& layer) { return layer.name == layer_name; });
  return found == layers.end() ? nullptr : &*found;
}

ModelWeights parse_weights(std::string_view bytes, const std::string& origin) {
  return ModelReader(bytes, origin).read();
}

ModelWeights read_weights(const std::string& path) {
  if (looks_like_hdf5(path)) return read_hdf5_model(path);
  return parse_weights(read_file(path, kLargestMessage), path);
}

BlobData decode_blob(const caffe::BlobProto& blob, const std::string& where) {
  // Only the wire reader knows all encodings; going through it costs one copy.
  const std::string bytes = blob.SerializeAsString();
  const WireOrigin origin{bytes.data(), where, ""};
  return read_blob(bytes, origin);
}

namespace {

/// A single value without axes has no shape in a file, as Caffe writes it: OpenCV refuses an empty one.
void set_shape(const std::vector<std::int64_t>& shape, caffe::BlobProto& blob) {
  if (!shape.empty()) blob.mutable_shape()->mutable_dim()->Add(shape.begin(), shape.end());
}

}  // namespace

caffe::BlobProto encode_blob(const std::vector<std::int64_t>& shape, const float* values) {
  caffe::BlobProto blob;
  blob.mutable_data()->Add(values, values + checked_count(shape));
  set_shape(shape, blob);
  return blob;
}

caffe::BlobProto encode_blob(const std::vector<std::int64_t>& shape, const double* values) {
  caffe::BlobProto blob;
  blob.mutable_double_data()->Add(values, values + checked_count(shape));
  set_shape(shape, blob);
  return blob;
}

caffe::NetParameter to_proto(const ModelWeights& weights) {
  caffe::NetParameter net;
  if (!weights.name.empty()) net.set_name(weights.name);
  for (const LayerWeights& layer : weights.layers) {
    caffe::LayerParameter& to = *net.add_layer();
    to.set_name(layer.name);
    if (!layer.type.empty()) to.set_type(layer.type);
    for (const BlobData& blob : layer.blobs)
      *to.add_blobs() = blob.is_double() ? encode_blob(blob.shape, blob.doubles.data())
                                         : encode_blob(blob.shape, blob.floats.data());
  }
  return net;
}

bool shapes_compatible(const BlobData& blob, const std::vector<std::int64_t>& target) {
  return without_ones(blob.shape) == without_ones(target);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> axes;
  for (const std::int64_t axis : shape) axes.push_back(std::to_string(axis));
  return cat("(", join(axes, ", "), ")");
}

}  // namespace banyan::io
