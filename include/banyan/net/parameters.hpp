// Parameters of a net: sharing by name, and the flat buffers that devices exchange.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/tiles.hpp"

namespace banyan {

/// Structured sparsity (SSL): groups of a parameter's values that decay, or stay 0, together.
struct Sparsity {
  enum class Kind : std::uint8_t { breadth, kernel_shape, block };  ///< by which of the solver's decays
  struct Decay {
    Kind kind;
    double mult;
    ops::Tiling tiling;
  };
  std::vector<Decay> decays;
  std::vector<ops::Tiling> held;  ///< connectivity_mode: tiles of zeros stay as they are
};

/// One parameter of the net. Only owners are listed, in the order of layers and blobs, which is the order of
/// Caffe's history.
struct LearnableParameter {
  std::string layer;
  int slot = 0;  ///< index in the layer's blobs
  double lr_mult = 1, decay_mult = 1;
  std::optional<bool> l1;  ///< its own regularization_type
  Sparsity sparsity;
  Tensor value;  ///< a view into the flat buffer; separate if frozen
  /// Undefined for frozen parameters (lr_mult 0), statistics, and nets without backward. Its memory may
  /// change with the shapes of activations (bind_gradients).
  Tensor grad;
  int ready_layer = 0;  ///< the backward pass of this layer is the last that touches the gradient
  std::int64_t offset =
      -1;  ///< in elements of the flat buffers; -1 if frozen; in statistics() for statistics
  std::int64_t count = 0;
  bool is_statistic = false;
  const Tensor* used = nullptr;  ///< Parameter::used of an adjusted parameter

  /// Does it have a gradient, in nets with backward?
  bool learns() const { return !is_statistic && lr_mult != 0; }
};

struct ParameterStore {
  std::vector<LearnableParameter> parameters;
  Tensor flat_values, flat_gradients, statistics;
  /// owner[l][s]: index in `parameters` of slot s of layer l.
  std::vector<std::vector<int>> owner;
  /// Of the same: does the layer add to the parameter's gradient (param_propagate_down)?
  std::vector<std::vector<bool>> adds;
  /// Has the layer a gradient of this slot, in nets with backward?
  bool learns(int layer, std::size_t slot) const {
    return parameters[owner[layer][slot]].learns() && adds[layer][slot];
  }
  LearnableParameter& owner_of(int layer, std::size_t slot) { return parameters[owner[layer][slot]]; }
};

/// Sizes of the flat buffers. Pure.
struct FlatLayout {
  std::int64_t exchanged = 0, statistics = 0;  ///< elements, padding included
};
/// Sets `offset` of every parameter: exchanged ones in descending order of ready_layer, statistics in order;
/// each starts at a multiple of `alignment` elements.
FlatLayout place_parameters(std::vector<LearnableParameter>& parameters, std::int64_t alignment);

/// Applies Caffe's rules to the declared parameters of `layers`: sharing by name (the first layer owns; equal
/// shape, or equal count if permissive; multipliers agree where both are given), number of `param` entries,
/// multipliers fixed by a layer's type. A parameter to whose gradient no layer adds is frozen. No storage is
/// bound. Throws bad_input naming layers and shapes.
ParameterStore collect_parameters(const std::vector<std::unique_ptr<Layer>>& layers);

enum class FlatGradients : std::uint8_t {
  none,
  kept,
  copied,  ///< by other processes: in huge pages where host memory has them, which makes copies up to twice
           ///< as fast
};

/// Allocates the flat buffers (zeros), that of gradients if there is to be one, and binds values and
/// gradients of all layers.
void bind_parameters(Context& context, DType dtype, FlatGradients gradients,
                     const std::vector<std::unique_ptr<Layer>>& layers, ParameterStore& store);

/// Without flat gradients: those of all layers are in `memory`, at the byte offsets `places` (-1: none).
/// Undefined memory: for now they are nowhere.
void bind_gradients(const Tensor& memory, const std::vector<std::int64_t>& places,
                    const std::vector<std::unique_ptr<Layer>>& layers, ParameterStore& store);

}  // namespace banyan
