#include "banyan/net/splits.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "banyan/base/error.hpp"

namespace banyan {
namespace {

using TopIndex = std::pair<int, int>;  // layer, top

struct TopUse {
  int count = 0;      // readers, plus one for a loss weight
  float weight = 0;   // explicit loss weight
  int next_name = 0;  // k of the next reader
};

struct Uses {
  std::map<TopIndex, TopUse> of_top;
  std::map<std::pair<int, int>, TopIndex> source;  // (layer, bottom) -> the top it reads
};

Uses count_uses(const caffe::NetParameter& net) {
  Uses uses;
  std::map<std::string, TopIndex> last_writer;
  for (int i = 0; i < net.layer_size(); ++i) {
    const caffe::LayerParameter& layer = net.layer(i);
    for (int j = 0; j < layer.bottom_size(); ++j) {
      const auto writer = last_writer.find(layer.bottom(j));
      if (writer == last_writer.end())
        bad_input("layer \"", layer.name(), "\" reads blob \"", layer.bottom(j),
                  "\", which nothing above it produces");
      uses.source[{i, j}] = writer->second;
      ++uses.of_top[writer->second].count;
    }
    for (int j = 0; j < layer.top_size(); ++j) {
      last_writer[layer.top(j)] = {i, j};
      TopUse& use = uses.of_top[{i, j}];
      if (j < layer.loss_weight_size() && layer.loss_weight(j) != 0) {
        use.weight = layer.loss_weight(j);
        ++use.count;
      }
    }
  }
  return uses;
}

std::string split_name(const std::string& blob, const std::string& producer, int top) {
  return blob + "_" + producer + "_" + std::to_string(top) + "_split";
}

void add_split(const std::string& blob, const std::string& producer, int top, const TopUse& use,
               caffe::NetParameter& net) {
  caffe::LayerParameter* split = net.add_layer();
  const std::string name = split_name(blob, producer, top);
  split->set_name(name);
  split->set_type("Split");
  split->add_bottom(blob);
  for (int k = 0; k < use.count; ++k) {
    split->add_top(name + "_" + std::to_string(k));
    if (use.weight != 0) split->add_loss_weight(k == 0 ? use.weight : 0);
  }
}

}  // namespace

caffe::NetParameter insert_splits(const caffe::NetParameter& net) {
  Uses uses = count_uses(net);
  caffe::NetParameter result = net;
  result.clear_layer();
  for (int i = 0; i < net.layer_size(); ++i) {
    caffe::LayerParameter& layer = *result.add_layer();
    layer = net.layer(i);
    for (int j = 0; j < layer.bottom_size(); ++j) {
      const TopIndex source = uses.source.at({i, j});
      TopUse& use = uses.of_top.at(source);
      if (use.count < 2) continue;
      const std::string& producer = net.layer(source.first).name();
      layer.set_bottom(
          j, split_name(layer.bottom(j), producer, source.second) + "_" + std::to_string(use.next_name++));
    }
    // `layer` may move when splits are added: use the original's names.
    const int position = result.layer_size() - 1;
    for (int j = 0; j < net.layer(i).top_size(); ++j) {
      TopUse& use = uses.of_top.at({i, j});
      if (use.count < 2) continue;
      add_split(net.layer(i).top(j), net.layer(i).name(), j, use, result);
      if (use.weight == 0) continue;
      // Caffe clears the producer's whole list, which loses its other weights and lets a loss layer fall back
      // to 1. Here only the weight moves.
      result.mutable_layer(position)->set_loss_weight(j, 0);
      use.next_name = 1;
    }
  }
  return result;
}

}  // namespace banyan
