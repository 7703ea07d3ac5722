#include "banyan/net/precision.hpp"

#include <algorithm>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan {

std::optional<DType> Precision::storage_of(const caffe::LayerParameter& layer,
                                           const LayerTraits& traits) const {
  if (layer.has_storage()) {
    if (layer.storage() == caffe::NetParameter::FULL) return std::nullopt;
    if (traits.storage == StorageRule::full)
      bad_input("storage: BF16 is not supported by layers of type ", quoted(layer.type()));
    return DType::bf16;
  }
  if (storage != DType::bf16 || contains(exceptions, layer.type())) return std::nullopt;
  return storage;
}

Precision read_precision(const caffe::NetParameter& net, DType dtype, Math math) {
  Precision precision;
  precision.master = precision.storage = dtype;
  const bool brief = math == Math::bf16 || math == Math::bf16_in_f32;
  precision.compute = brief ? DType::bf16 : dtype;
  const bool follows_compute = dtype == DType::f32 && brief && !net.in_place_abn();
  const bool everywhere = net.has_storage() ? net.storage() == caffe::NetParameter::BF16 : follows_compute;
  const bool somewhere =
      everywhere || std::any_of(net.layer().begin(), net.layer().end(), [](const auto& layer) {
        return layer.storage() == caffe::NetParameter::BF16;
      });
  const std::vector<std::string> known = registered_layer_types();
  for (const std::string& type : net.storage_exception()) {
    if (!contains(known, type))
      bad_input("storage_exception: no layer type is called ", quoted(type), did_you_mean(type, known));
    if (net.has_storage() && !everywhere)
      bad_input("storage_exception ", quoted(type), " excepts from nothing: the net says storage: FULL");
    precision.exceptions.push_back(type);
  }
  if (!somewhere) return precision;
  if (dtype != DType::f32)
    bad_input("storage: BF16 is for runs in f32 or bf16; this one is in ", name_of(dtype));
  if (net.in_place_abn()) bad_input("storage: BF16 and in_place_abn: true exclude each other so far");
  if (everywhere) precision.storage = DType::bf16;
  return precision;
}

}  // namespace banyan
