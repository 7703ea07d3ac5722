// One layer on its way to ONNX, and the table of functions that do it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "banyan/net/net.hpp"
#include "graph_writer.hpp"

namespace banyan::onnx {

struct LayerExport {
  const Layer& layer;
  Blobs inputs, outputs;
  Names in, out;  ///< names of their values
  GraphWriter& graph;
  Context& context;
  /// Names of values that name no position of a plane twice.
  std::set<std::string>& distinct_positions;

  const caffe::LayerParameter& settings() const { return layer.parameter(); }
  /// Of the first input, from 0.
  std::int64_t axis(int axis) const { return inputs[0]->shape.canonical_axis(axis); }
  bool has(std::size_t slot) const { return slot < layer.parameters().size(); }
  const Shape& shape(std::size_t slot) const { return layer.parameters()[slot].shape; }
  std::vector<double> values(std::size_t slot) const;
  /// Name for something inside the layer.
  std::string inner(const std::string& what) const { return layer.name() + "/" + what; }
  /// Parameter `slot` as a constant of that shape; "" if there is none, which stands for an absent input.
  std::string parameter(std::size_t slot, const Shape& shape) const;
  std::string parameter(std::size_t slot) const { return has(slot) ? parameter(slot, shape(slot)) : ""; }
  void node(const std::string& type, const Names& from, const Attributes& attributes = {}) const {
    graph.node(type, from, {out[0]}, attributes);
  }
  std::string step(const std::string& type, const Names& from, const std::string& what,
                   const Attributes& attributes = {}) const {
    return graph.step(type, from, inner(what), attributes);
  }
  /// A node `type` of `from` and a number.
  std::string with_number(const std::string& type, const std::string& from, double number,
                          const std::string& what) const {
    return step(type, {from, graph.scalar(inner(what + "_by"), number)}, what);
  }
  /// Pieces of length 1 along the first axis.
  Names rows_of(const std::string& from, std::int64_t rows, const std::string& what) const {
    return graph.steps(
        "Split",
        {from, graph.integers(inner(what + "_lengths"), Integers(static_cast<std::size_t>(rows), 1))},
        inner(what), static_cast<std::size_t>(rows), {{"axis", std::int64_t{0}}});
  }
  std::string reshaped(const std::string& from, const Integers& lengths, const std::string& what) const {
    return step("Reshape", {from, graph.integers(inner(what + "_shape"), lengths)}, what);
  }
  /// output = `from`, which has the input's batch axis, with the output's shape.
  void reshape(const std::string& from) const;

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    bad_input("layer ", quoted(layer.name()), " (", layer.type(), "): ", parts...,
              "; ONNX cannot express it");
  }
};

using ExportFunction = void (*)(const LayerExport&);
struct ExportRow {
  const char* type;
  ExportFunction function;
};

/// Convolutions, pooling, its reversal, Interp.
const std::vector<ExportRow>& window_exports();
/// Layers that only move values.
const std::vector<ExportRow>& move_exports();
/// Functions of values, products, sums.
const std::vector<ExportRow>& math_exports();
/// Normalizations by what the input holds, Softmax.
const std::vector<ExportRow>& norm_exports();
/// LSTM, LSTMUnit, RNN and the marks that they read.
const std::vector<ExportRow>& recurrent_exports();

/// A batch normalization by stored statistics, followed by the Scale `affine` unless that is null, whose
/// output is then the output.
void export_batch_norm(const LayerExport& layer, const Layer* affine);

}  // namespace banyan::onnx
