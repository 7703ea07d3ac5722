#include "net/sparsity.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/tensor/values.hpp"

namespace banyan {
namespace {

/// From here on a weight counts as one that is connected.
constexpr double kConnected = 1e-4;

template <class... Parts>
[[noreturn]] void refuse_param(const Layer& layer, int slot, const Parts&... parts) {
  bad_input("layer ", quoted(layer.name()), " (", layer.type(), "), `param` entry ", slot, ": ", parts...);
}

const caffe::ParamSpec& spec_of(const Layer& layer, int slot) {
  return slot < layer.parameter().param_size() ? layer.parameter().param(slot)
                                               : caffe::ParamSpec::default_instance();
}

/// The tiles of one value: the matrix of a parameter has a row for each output.
ops::Tiling matrix_of(const Shape& shape) {
  const std::int64_t rows = shape.axes() == 0 ? 1 : shape[0];
  return {rows, rows == 0 ? 0 : shape.count() / rows, 1, 1};
}

ops::Tiling row_tiles(ops::Tiling matrix) {
  matrix.tile_columns = matrix.columns;
  return matrix;
}

/// Within each group of a convolution.
ops::Tiling column_tiles(ops::Tiling matrix, const Layer& layer) {
  const auto groups = static_cast<std::int64_t>(layer.parameter().convolution_param().group());
  matrix.tile_rows = groups > 0 && matrix.rows % groups == 0 ? matrix.rows / groups : matrix.rows;
  return matrix;
}

ops::Tiling block_tiles(ops::Tiling matrix, const caffe::BlockGroupLassoSpec& block, const Layer& layer,
                        int slot) {
  if (block.xdimen() == 0 || block.ydimen() == 0 || matrix.columns % block.xdimen() != 0 ||
      matrix.rows % block.ydimen() != 0)
    refuse_param(layer, slot, "block_group_lasso has blocks of ydimen ", block.ydimen(), " x xdimen ",
                 block.xdimen(), ", which do not divide the ", matrix.rows, " x ", matrix.columns, " values");
  matrix.tile_rows = block.ydimen();
  matrix.tile_columns = block.xdimen();
  return matrix;
}

caffe::LayerParameter::ConnectivityMode mode_of(const Layer& layer, int slot) {
  return slot == 0 ? layer.parameter().connectivity_mode() : caffe::LayerParameter::CONNECTED;
}

}  // namespace

Sparsity sparsity_of(const Layer& layer, int slot) {
  using Kind = Sparsity::Kind;
  const caffe::ParamSpec& spec = spec_of(layer, slot);
  if (!spec.decay_proto().empty())
    refuse_param(layer, slot, "decay_proto (SSL) is not supported; decay_mult is that of all values");
  for (const auto& [field, mult] : {std::pair{"breadth_decay_mult", spec.breadth_decay_mult()},
                                    std::pair{"kernel_shape_decay_mult", spec.kernel_shape_decay_mult()}})
    if (!std::isfinite(mult)) refuse_param(layer, slot, field, " must be a finite number, not ", mult);
  const ops::Tiling matrix = matrix_of(layer.parameters()[static_cast<std::size_t>(slot)].shape);
  Sparsity found;
  if (spec.breadth_decay_mult() != 0)
    found.decays.push_back({Kind::breadth, spec.breadth_decay_mult(), row_tiles(matrix)});
  if (spec.kernel_shape_decay_mult() != 0)
    found.decays.push_back({Kind::kernel_shape, spec.kernel_shape_decay_mult(), column_tiles(matrix, layer)});
  for (const caffe::BlockGroupLassoSpec& block : spec.block_group_lasso()) {
    if (!std::isfinite(block.block_decay_mult()))
      refuse_param(layer, slot, "block_decay_mult must be a finite number, not ", block.block_decay_mult());
    found.decays.push_back({Kind::block, block.block_decay_mult(), block_tiles(matrix, block, layer, slot)});
  }
  if (mode_of(layer, slot) == caffe::LayerParameter::DISCONNECTED_ELTWISE) found.held = {matrix};
  if (mode_of(layer, slot) == caffe::LayerParameter::DISCONNECTED_GRPWISE)
    found.held = {row_tiles(matrix), column_tiles(matrix, layer)};
  return found;
}

std::optional<bool> own_l1(const Layer& layer, int slot) {
  const std::string& type = spec_of(layer, slot).regularization_type();
  if (type.empty()) return std::nullopt;
  if (type != "L1" && type != "L2")
    refuse_param(layer, slot, "unknown regularization_type ", quoted(type), "; known: L1, L2");
  return type == "L1";
}

std::string sparsity_text(const Layer& layer, int slot) {
  caffe::ParamSpec spec = spec_of(layer, slot);
  spec.clear_name();
  spec.clear_share_mode();
  spec.clear_lr_mult();
  spec.clear_decay_mult();
  spec.clear_param_propagate_down();
  std::string text = spec.ShortDebugString();
  const auto mode = mode_of(layer, slot);
  if (mode != caffe::LayerParameter::CONNECTED)
    text += cat(text.empty() ? "" : " ",
                "connectivity_mode: ", caffe::LayerParameter::ConnectivityMode_Name(mode));
  return text;
}

void disconnect(ParameterStore& store, const std::set<int>& loaded, Context& context) {
  for (const int index : loaded) {
    LearnableParameter& parameter = store.parameters[static_cast<std::size_t>(index)];
    if (parameter.sparsity.held.empty()) continue;
    std::vector<double> values = values_of(context, parameter.value).values;
    std::vector<bool> cleared(values.size());
    for (const ops::Tiling& tiling : parameter.sparsity.held) {
      const auto tile_of = [&](std::int64_t i) {
        return i / tiling.columns / tiling.tile_rows * (tiling.columns / tiling.tile_columns) +
               i % tiling.columns / tiling.tile_columns;
      };
      std::vector<bool> connected(static_cast<std::size_t>(tiling.tiles()));
      for (std::int64_t i = 0; i < std::ssize(values); ++i)
        if (!(std::abs(values[i]) < kConnected)) connected[tile_of(i)] = true;
      for (std::int64_t i = 0; i < std::ssize(values); ++i)
        if (!connected[tile_of(i)]) cleared[i] = true;
    }
    const auto zeros = std::count(cleared.begin(), cleared.end(), true);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (cleared[i]) values[i] = 0;
    set_values(context, values, parameter.value);
    log_info(cat("layer ", quoted(parameter.layer), ": connectivity_mode keeps ", zeros, " of ",
                 values.size(), " weights at 0"));
  }
}

}  // namespace banyan
