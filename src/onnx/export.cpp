#include "banyan/onnx/export.hpp"

#include <map>
#include <set>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/tensor/values.hpp"
#include "layer_export.hpp"

namespace banyan::onnx {

std::vector<double> LayerExport::values(std::size_t slot) const {
  return values_of(context, layer.parameters()[slot].value).values;
}

std::string LayerExport::parameter(std::size_t slot, const Shape& shape) const {
  return has(slot) ? graph.constant(inner(std::to_string(slot)), shape, values(slot)) : "";
}

void LayerExport::reshape(const std::string& from) const {
  Integers lengths = outputs[0]->shape.dims();
  // 0 copies the length, so that another batch size stays possible.
  if (!lengths.empty() && inputs[0]->shape.axes() > 0 && lengths[0] == inputs[0]->shape[0]) lengths[0] = 0;
  node("Reshape", {from, graph.integers(inner("shape"), lengths)});
}

namespace {

std::map<std::string, ExportFunction> all_exports() {
  std::map<std::string, ExportFunction> all;
  for (const auto* rows :
       {&window_exports(), &move_exports(), &math_exports(), &norm_exports(), &recurrent_exports()})
    for (const ExportRow& row : *rows) all[row.type] = row.function;
  for (const char* type : {"BatchNorm", "BN", "SyncBN"})
    all[type] = [](const LayerExport& layer) { export_batch_norm(layer, nullptr); };
  for (const char* type : {"Silence", "Split", "Input"}) all[type] = nullptr;  // no nodes
  return all;
}

class NetExport {
 public:
  explicit NetExport(Net& net) : net_(net), graph_(net.name()), exports_(all_exports()) {}

  std::string run() {
    if (net_.options().phase != Phase::test) bad_input("only nets of the TEST phase can become ONNX");
    name_values();
    // Before those that layers add: states after the last step.
    for (const Blob* blob : net_.outputs()) graph_.output(names_.at(blob), blob->shape);
    for (std::size_t i = 0; i < net_.layers().size(); ++i)
      if (merged_ != static_cast<int>(i)) add_layer(static_cast<int>(i));
    return graph_.serialize();
  }

 private:
  /// The last value of a blob has its name, earlier ones (of layers in place) that of their layer too.
  void name_values() {
    for (std::size_t i = 0; i < net_.layers().size(); ++i) {
      const Layer& layer = *net_.layers()[i];
      for (const Blob* blob : net_.outputs_of(static_cast<int>(i))) {
        const bool last = net_.find_blob(blob->name) == blob;
        names_[blob] = last ? blob->name : blob->name + "/" + layer.name();
        graph_.reserve(names_[blob]);
      }
      // A Split's outputs are its input.
      if (layer.type() == "Split")
        for (const Blob* blob : net_.outputs_of(static_cast<int>(i)))
          names_[blob] = names_.at(net_.inputs_of(static_cast<int>(i))[0]);
    }
  }

  Names names_of(const Blobs& blobs) const {
    Names names;
    for (const Blob* blob : blobs) names.push_back(names_.at(blob));
    return names;
  }

  void add_layer(int index) {
    const Layer& layer = *net_.layers()[index];
    const auto found = exports_.find(layer.type());
    if (found == exports_.end())
      bad_input("layer ", quoted(layer.name()), " (", layer.type(),
                ") cannot become ONNX; the types that can: ", join(exported_types(), ", "));
    if (layer.parameter().has_phase() && layer.parameter().phase() == caffe::TRAIN)
      bad_input("layer ", quoted(layer.name()), " (", layer.type(), ") has phase: TRAIN; ONNX is for tests");
    const Blobs inputs = net_.inputs_of(index), outputs = net_.outputs_of(index);
    if (layer.type() == "Input")
      for (const Blob* blob : outputs) graph_.input(names_.at(blob), blob->shape);
    if (found->second == nullptr) return;
    LayerExport each{layer,
                     inputs,
                     outputs,
                     names_of(inputs),
                     names_of(outputs),
                     graph_,
                     net_.context(),
                     distinct_positions_};
    const int scale = scale_after(index);
    if (scale < 0) {
      found->second(each);
      return;
    }
    merged_ = scale;
    each.out = names_of(net_.outputs_of(scale));
    export_batch_norm(each, net_.layers()[scale].get());
  }

  /// The Scale layer, next in the file, that can become a part of this batch normalization; -1: none.
  int scale_after(int index) const {
    if (!net_.layers()[index]->traits().fuses_affine) return -1;
    const Graph& graph = net_.graph();
    const int reader = graph.only_reader(graph.layers[index].outputs[0]);
    if (reader != index + 1 || net_.layers()[reader]->type() != "Scale") return -1;
    return net_.layers()[reader]->traits().channel_slope == 0 ? reader : -1;
  }

  Net& net_;
  GraphWriter graph_;
  std::map<std::string, ExportFunction> exports_;
  std::map<const Blob*, std::string> names_;
  std::set<std::string> distinct_positions_;
  int merged_ = -1;  ///< layer that became a part of the one before it
};

}  // namespace

std::string export_net(Net& net) { return NetExport(net).run(); }

void write_net(Net& net, const std::string& path) { io::write_file(path, export_net(net)); }

std::vector<std::string> exported_types() {
  std::vector<std::string> types;
  for (const auto& [type, function] : all_exports()) types.push_back(type);
  return types;
}

}  // namespace banyan::onnx
