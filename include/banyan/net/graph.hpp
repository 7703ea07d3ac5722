// Graph: a net as layers and blobs, without shapes. Pure.
//
// A blob is written by one layer only: a layer that works in place in the file (`top: "x"` over `bottom:
// "x"`) reads one blob and writes another of the same name. The plan (plan.hpp) decides whether the two share
// memory, as for all layers.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "banyan/layers/layer.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

struct GraphLayer {
  std::string name, type;
  LayerTraits traits;
  std::optional<DType> storage;      ///< 16-bit type, see Precision::storage_of
  std::vector<int> inputs, outputs;  ///< blobs
  std::vector<double> loss_weights;  ///< one per output
  std::vector<int> propagate_down;   ///< from the file: empty, or 0 or 1 per input
  bool learns = false;               ///< has a parameter with lr_mult != 0
  // Set by mark_backward.
  bool needs_backward = false;
  std::vector<bool> propagate;  ///< per input: backward() computes its gradient

  bool weighted() const {
    return std::any_of(loss_weights.begin(), loss_weights.end(), [](double weight) { return weight != 0; });
  }
};

struct GraphBlob {
  std::string name;
  int producer = 0, output = 0;  ///< output `output` of layer `producer`
  std::vector<int> readers;      ///< layers, in order; one that reads it twice is listed twice
};

struct Graph {
  std::vector<GraphLayer> layers;
  std::vector<GraphBlob> blobs;
  std::map<std::string, int> by_name;  ///< the last blob of each name
  bool trains = false;                 ///< gradients exist

  const GraphLayer& producer_of(int blob) const;
  double loss_weight(int blob) const;
  /// Is it made by a source? Its data is filled from outside and outlives a pass.
  bool from_source(int blob) const { return producer_of(blob).traits.source; }
  /// The only layer that reads it; -1: none or several.
  int only_reader(int blob) const;
  /// Does the layer that makes it use its gradient?
  bool is_differentiable(int blob) const;
  /// Does some reader's backward pass compute its gradient?
  bool receives_gradient(int blob) const;
  bool has_gradient(int blob) const;
  /// Named blobs that no layer reads, in alphabetical order.
  std::vector<int> outputs() const;
};

/// Adds a layer and its outputs; a loss without a top gets a blob that nothing can refer to. The bottoms must
/// exist (check_connections). Throws bad_input if the layer's type does not take that many bottoms or tops.
void add_layer(Graph& graph, const caffe::LayerParameter& parameter, const LayerTraits& traits);

/// Decides which layers have a backward pass, and for which inputs. Caffe's rule: a layer needs backward if
/// it learns or some input needs it, but only if it contributes to a loss through inputs that propagate.
/// `force_backward`: treats every blob as needing its gradient.
void mark_backward(Graph& graph, bool force_backward);

/// The layers that read the layer's outputs, directly or through others; ascending.
std::vector<int> layers_after(const Graph& graph, int layer);

/// For training on several devices. An output that is a device's share of a value for the whole batch, but no
/// loss (a Reduction of the batch), must come from the batch and can only be shown or be a loss itself: what
/// another layer made of the shares would not add up to what it makes of the whole. Nor can an input with
/// which all samples are compared come from the batch. Throws bad_input.
void check_shares(const Graph& graph);

}  // namespace banyan
