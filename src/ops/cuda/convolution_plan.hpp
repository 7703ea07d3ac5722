// cuDNN's descriptors and choice of algorithm for one convolution and one pair of shapes.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "banyan/ops/convolution.hpp"
#include "ops/cuda/convolution_columns.hpp"

namespace banyan::ops {

/// A cuDNN descriptor, destroyed with its owner.
template <class Handle, cudnnStatus_t (*kDestroy)(Handle)>
struct DestroyDescriptor {
  using pointer = Handle;
  void operator()(Handle descriptor) const { static_cast<void>(kDestroy(descriptor)); }
};
using TensorDescriptor =
    std::unique_ptr<std::remove_pointer_t<cudnnTensorDescriptor_t>,
                    DestroyDescriptor<cudnnTensorDescriptor_t, &cudnnDestroyTensorDescriptor>>;
using FilterDescriptor =
    std::unique_ptr<std::remove_pointer_t<cudnnFilterDescriptor_t>,
                    DestroyDescriptor<cudnnFilterDescriptor_t, &cudnnDestroyFilterDescriptor>>;
using ConvolutionDescriptor =
    std::unique_ptr<std::remove_pointer_t<cudnnConvolutionDescriptor_t>,
                    DestroyDescriptor<cudnnConvolutionDescriptor_t, &cudnnDestroyConvolutionDescriptor>>;

/// What cuDNN needs to know about input, output and weights stored in one memory order.
struct ConvolutionFormat {
  bool channels_last = false;
  TensorDescriptor input, output;
  FilterDescriptor weight;
};

/// Instead of a cuDNN algorithm: convolution_columns.hpp, in a channels-last format without descriptors.
inline constexpr int kColumnsAlgorithm = -1;

/// One algorithm in one format. `algorithm` is the direction's cuDNN enumerator or kColumnsAlgorithm.
struct ConvolutionAttempt {
  const ConvolutionFormat* format;
  int algorithm;
  std::size_t workspace_bytes;
};

/// The attempts of one direction, best first: a list determined by shapes, types, the GPU model and cuDNN's
/// version, never by measuring: another run would find other times and choose otherwise. If cuDNN refuses at
/// run time, as not supported, what its heuristics offered, the next one is used from then on.
struct ConvolutionAttempts {
  std::vector<ConvolutionAttempt> list;
  std::size_t current = 0;
  bool settled = false;   ///< the current one has run; no other will, as it would not be bit-identical
  bool reported = false;  ///< that cuDNN has no algorithm; set, too, where it is not asked
};

class ConvolutionPlan {
 public:
  enum class Columns : std::uint8_t { by_rules, last };
  /// `prefer_channels_last`: a tensor is stored in that order only, or both in either. `columns`: where
  /// kColumnsAlgorithm stands in the lists.
  ConvolutionPlan(const Device& device, const ConvolutionGeometry& geometry, DType dtype, const Shape& input,
                  const Shape& output, bool prefer_channels_last, Columns columns = Columns::by_rules);

  cudnnConvolutionDescriptor_t convolution() const { return convolution_.get(); }
  /// Only reproducible algorithms; the list is made when the direction is first used. It always has
  /// kColumnsAlgorithm, after which nothing else is tried.
  ConvolutionAttempts& attempts(cudnnHandle_t handle, ConvolutionDirection direction);
  /// What has run, by direction.
  const ConvolutionAttempt* settled(ConvolutionDirection direction) const {
    const auto& attempts = attempts_[static_cast<std::size_t>(direction)];
    return attempts && attempts->settled ? &attempts->list[attempts->current] : nullptr;
  }

 private:
  const Device* device_;
  ConvolutionDescriptor convolution_;
  bool tensor_cores_;
  std::vector<std::unique_ptr<ConvolutionFormat>> formats_;  ///< the preferred one first
  ConvolutionFormat columns_format_;
  std::size_t columns_bytes_[3];  ///< by direction
  bool columns_first_[3];
  std::optional<ConvolutionAttempts> attempts_[3];
};

}  // namespace banyan::ops
