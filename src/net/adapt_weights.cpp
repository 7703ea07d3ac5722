#include "banyan/net/adapt_weights.hpp"

#include <glog/logging.h>

#include <algorithm>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan {
namespace {

using Matched = std::vector<const io::BlobData*>;

std::string described(const Layer& layer) {
  return cat("layer ", quoted(layer.name()), " (", layer.type(), ")");
}

bool all_are(const io::BlobData& blob, double value) {
  for (std::size_t i = 0; i < blob.count(); ++i)
    if (blob.at(i) != value) return false;
  return true;
}

const io::BlobData& one() {
  static const io::BlobData blob = [] {
    io::BlobData made;
    made.shape = {1};
    made.floats = {1};
    return made;
  }();
  return blob;
}

/// mean, variance, factor, scale, bias; the last two are null in a file of three blobs. Empty if the file's
/// blobs are no known form.
Matched batch_norm_blobs(const io::LayerWeights& source) {
  const auto& b = source.blobs;
  if (b.size() == 3) return {&b[0], &b[1], &b[2], nullptr, nullptr};
  if (b.size() != 5) return {};
  if (b[2].count() == 1) return {&b[0], &b[1], &b[2], &b[3], &b[4]};
  if (b[4].count() == 1) return {&b[2], &b[3], &one(), &b[0], &b[1]};
  return {};
}

Matched match_batch_norm(const io::LayerWeights& source, const Layer& target) {
  Matched blobs = batch_norm_blobs(source);
  const std::size_t wanted = target.parameters().size();
  if (blobs.empty())
    bad_input(described(target), ": the file has ", source.blobs.size(),
              " blobs in no known form of BatchNorm (3: mean, variance, factor; 5: with scale and bias)");
  if (wanted == 3) {
    if (blobs[3] != nullptr && !(all_are(*blobs[3], 1) && all_are(*blobs[4], 0)))
      bad_input(described(target), ": the file's BatchNorm has a scale and a bias, the net's has none; ",
                "set batch_norm_param { scale_bias: true }");
    blobs.resize(3);
  } else if (wanted == 5 && blobs[3] == nullptr) {
    LOG(INFO) << described(target) << ": the file has statistics only; scale and bias keep their values";
  } else if (wanted != 5) {
    bad_input(described(target), " has ", wanted, " blobs; the file has ", source.blobs.size());
  }
  return blobs;
}

void check_shapes(const Matched& blobs, const Layer& target) {
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    const std::vector<std::int64_t>& wanted = target.parameters()[i].shape.dims();
    if (blobs[i] != nullptr && !io::shapes_compatible(*blobs[i], wanted))
      bad_input(described(target), ", blob ", i, ": the net needs shape ", io::shape_text(wanted),
                ", the file has shape ", io::shape_text(blobs[i]->shape));
  }
}

}  // namespace

std::vector<const io::BlobData*> match_blobs(const io::LayerWeights& source, const Layer& target) {
  Matched blobs;
  const std::size_t wanted = target.parameters().size();
  const bool is_bn = target.type() == "BN" || target.type() == "SyncBN";
  if (target.type() == "BatchNorm" && !source.blobs.empty()) {
    blobs = match_batch_norm(source, target);
  } else {
    for (const io::BlobData& blob : source.blobs) blobs.push_back(&blob);
    if (is_bn && wanted == 4 && blobs.size() == 2) {
      LOG(WARNING) << described(target)
                   << ": the file has slope and bias only; running statistics keep their values";
      blobs.resize(4, nullptr);
    }
    if (blobs.size() != wanted)
      bad_input(described(target), ": the net needs ", wanted, " blobs, the file has ", blobs.size());
  }
  check_shapes(blobs, target);
  return blobs;
}

}  // namespace banyan
