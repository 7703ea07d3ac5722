#include "banyan/train/solver_nets.hpp"

#include <array>
#include <set>
#include <string_view>

#include "banyan/base/contains.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/net/filter.hpp"

namespace banyan {

namespace {

SolverNet read(const NamedNet& named, io::UnknownFields unknown) {
  SolverNet found{named.inner != nullptr ? *named.inner : io::read_net_text(named.origin, unknown),
                  named.origin};
  io::upgrade_net(found.net, found.origin);
  *found.net.mutable_state() = state_of(named, found.net);
  return found;
}

/// sparse_mode: SPARSE_UPDATE. Of layers with common weights the first one says it.
void keep_zeros(caffe::NetParameter& net) {
  constexpr std::array<std::string_view, 5> kTypes{"Convolution", "ConvolutionDepthwise", "Deconvolution",
                                                   "DepthwiseConvolution", "InnerProduct"};
  std::set<std::string> shared;
  for (caffe::LayerParameter& layer : *net.mutable_layer()) {
    const std::string name = layer.param_size() > 0 ? layer.param(0).name() : "";
    const bool first = name.empty() || shared.insert(name).second;
    if (first && contains(kTypes, layer.type()) && !layer.has_connectivity_mode())
      layer.set_connectivity_mode(caffe::LayerParameter::DISCONNECTED_ELTWISE);
  }
}

/// What may differ between machines that compute the same.
constexpr std::string_view kOfTheMachine[] = {
    "source",     "mean_file",      "root_folder", "root_dir",         "prefetch",
    "threads",    "parser_threads", "file_name",   "output_directory", "label_map_file",
    "video_file", "name_size_file", "cache",       "precache",         "backend"};

void clear_what_is_of_the_machine(google::protobuf::Message& message) {
  const google::protobuf::Reflection& access = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  access.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      if (contains(kOfTheMachine, field->name())) access.ClearField(&message, field);
    } else if (field->is_repeated()) {
      for (int k = 0; k < access.FieldSize(message, field); ++k)
        clear_what_is_of_the_machine(*access.MutableRepeatedMessage(&message, field, k));
    } else {
      clear_what_is_of_the_machine(*access.MutableMessage(&message, field));
    }
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> facts_of(const SolverNet& net, const std::string& what) {
  caffe::NetParameter kept = filter_net(net.net, net.net.state());
  clear_what_is_of_the_machine(kept);
  std::vector<std::pair<std::string, std::string>> facts{
      {cat("number of layers in ", what), cat(kept.layer_size())}};
  for (const caffe::LayerParameter& layer : kept.layer())
    facts.emplace_back(cat("layer ", quoted(layer.name()), " of ", what),
                       cat(io::checksum_of(layer.SerializeAsString())));
  kept.clear_layer();
  kept.clear_name();
  facts.emplace_back(cat("set of settings of ", what), cat(io::checksum_of(kept.SerializeAsString())));
  return facts;
}

NamedNets named_nets(const caffe::SolverParameter& solver, std::size_t tests,
                     const std::string& solver_path) {
  const auto inner = [&](const char* field, const caffe::NetParameter& net) {
    return NamedNet{.origin = cat(field, " in ", solver_path), .inner = &net};
  };
  std::optional<NamedNet> common;
  if (solver.has_net_param())
    common = inner("net_param", solver.net_param());
  else if (solver.has_net())
    common = NamedNet{.origin = solver.net()};

  NamedNets nets{common, {}};
  if (solver.has_train_net_param())
    nets.train = inner("train_net_param", solver.train_net_param());
  else if (solver.has_train_net())
    nets.train = NamedNet{.origin = solver.train_net()};
  if (nets.train) nets.train->of_solver = solver.train_state();

  for (const auto& net : solver.test_net_param()) nets.tests.push_back(inner("test_net_param", net));
  for (const auto& path : solver.test_net()) nets.tests.push_back({.origin = path});
  while (common && nets.tests.size() < tests) nets.tests.push_back(*common);
  for (int k = 0; k < static_cast<int>(nets.tests.size()); ++k) {
    nets.tests[k].phase = caffe::TEST;
    if (k < solver.test_state_size()) nets.tests[k].of_solver = solver.test_state(k);
  }
  return nets;
}

caffe::NetState state_of(const NamedNet& named, const caffe::NetParameter& net) {
  caffe::NetState state;
  state.set_phase(named.phase);
  state.MergeFrom(net.state());
  state.MergeFrom(named.of_solver);
  return state;
}

caffe::NetState state_of(const caffe::NetParameter& net, caffe::Phase phase, std::optional<int> level,
                         const std::vector<std::string>& stages) {
  caffe::NetState state = net.state();
  state.set_phase(phase);
  add_to_state(state, level, stages);
  return state;
}

SolverNet train_net_of(const SolverSettings& solver, const std::string& solver_path) {
  SolverNet found = read(named_nets(solver.nets, 0, solver_path).train.value(), solver.unknown_fields);
  if (solver.nets.sparse_mode() == caffe::SolverParameter::SPARSE_UPDATE) {
    found.net = filter_net(found.net, found.net.state());  // layers of tests say nothing
    keep_zeros(found.net);
  }
  return found;
}

std::vector<SolverNet> test_nets_of(const SolverSettings& solver, const std::string& solver_path) {
  std::vector<SolverNet> found;
  for (const NamedNet& named : named_nets(solver.nets, solver.test.batches.size(), solver_path).tests)
    found.push_back(read(named, solver.unknown_fields));
  return found;
}

}  // namespace banyan
