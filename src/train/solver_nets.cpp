#include "banyan/train/solver_nets.hpp"

#include "banyan/base/text.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"

namespace banyan {

namespace {

SolverNet read(const NamedNet& named, io::UnknownFields unknown) {
  SolverNet found{named.inner != nullptr ? *named.inner : io::read_net_text(named.origin, unknown),
                  named.origin};
  io::upgrade_net(found.net, found.origin);
  *found.net.mutable_state() = state_of(named, found.net);
  return found;
}

}  // namespace

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

SolverNet train_net_of(const SolverSettings& solver, const std::string& solver_path) {
  return read(named_nets(solver.nets, 0, solver_path).train.value(), solver.unknown_fields);
}

std::vector<SolverNet> test_nets_of(const SolverSettings& solver, const std::string& solver_path) {
  std::vector<SolverNet> found;
  for (const NamedNet& named : named_nets(solver.nets, solver.test.batches.size(), solver_path).tests)
    found.push_back(read(named, solver.unknown_fields));
  return found;
}

}  // namespace banyan
