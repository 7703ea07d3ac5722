// Graph: a net as layers and blobs, before it has shapes. Pure.
//
// A blob is written by one layer only: a layer that works in place in the file (`top: "x"` over `bottom:
// "x"`) reads one blob and writes another of the same name. Whether the two share memory is decided by the
// plan (plan.hpp), as for all other layers.
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
  std::optional<DType> storage;      ///< of 16 bits, as Precision::storage_of has it
  std::vector<int> inputs, outputs;  ///< blobs
  std::vector<double> loss_weights;  ///< one per output
  std::vector<int> propagate_down;   ///< the file's wish: empty, or 0 or 1 for each input
  bool learns = false;               ///< has a parameter with lr_mult != 0
  // Set by mark_backward.
  bool needs_backward = false;
  std::vector<bool> propagate;  ///< per input: backward() makes its gradient

  bool weighted() const {
    return std::any_of(loss_weights.begin(), loss_weights.end(), [](double weight) { return weight != 0; });
  }
};

struct GraphBlob {
  std::string name;
  int producer = 0, output = 0;  ///< output `output` of layer `producer`
  std::vector<int> readers;      ///< layers, in order; one that reads it twice stands here twice
};

struct Graph {
  std::vector<GraphLayer> layers;
  std::vector<GraphBlob> blobs;
  std::map<std::string, int> by_name;  ///< the last blob of each name
  bool trains = false;                 ///< gradients exist

  const GraphLayer& producer_of(int blob) const;
  double loss_weight(int blob) const;
  /// Does a source make it? Its data is filled from outside and outlives a pass.
  bool from_source(int blob) const { return producer_of(blob).traits.source; }
  /// The layer that alone reads it; -1: there is none, or several.
  int only_reader(int blob) const;
  /// Does the backward pass of a reader make its gradient?
  bool receives_gradient(int blob) const;
  bool has_gradient(int blob) const;
  /// Blobs with a name that no layer reads, in alphabetical order.
  std::vector<int> outputs() const;
};

/// Adds a layer and its outputs; a loss without a top gets a blob that nothing can refer to. The bottoms must
/// be there (check_connections). Throws bad_input if the layer's type does not take so many bottoms or tops.
void add_layer(Graph& graph, const caffe::LayerParameter& parameter, const LayerTraits& traits);

/// Decides which layers have a backward pass, and for which inputs. Caffe's rule: a layer needs backward if
/// some input needs it or it learns, and only if it contributes to a loss through inputs that propagate.
/// `force_backward`: as if every blob needed its gradient.
void mark_backward(Graph& graph, bool force_backward);

}  // namespace banyan
