#include "banyan/train/solver_nets.hpp"

#include "banyan/base/error.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"

namespace banyan {

namespace {

SolverNet from_file(const std::string& path, io::UnknownFields unknown) {
  return {io::read_net_text(path, unknown), path};
}

SolverNet finished(SolverNet net, caffe::Phase phase, const caffe::NetState& of_solver) {
  io::upgrade_net(net.net, net.origin);
  caffe::NetState state;
  state.set_phase(phase);
  state.MergeFrom(net.net.state());
  state.MergeFrom(of_solver);
  *net.net.mutable_state() = state;
  return net;
}

SolverNet common_net(const SolverSettings& solver, const std::string& solver_path) {
  const caffe::SolverParameter& nets = solver.nets;
  if (nets.has_net_param()) return {nets.net_param(), cat("net_param in ", solver_path)};
  return from_file(nets.net(), solver.unknown_fields);
}

}  // namespace

SolverNet train_net_of(const SolverSettings& solver, const std::string& solver_path) {
  const caffe::SolverParameter& nets = solver.nets;
  SolverNet net;
  if (nets.has_train_net_param())
    net = {nets.train_net_param(), cat("train_net_param in ", solver_path)};
  else if (nets.has_train_net())
    net = from_file(nets.train_net(), solver.unknown_fields);
  else
    net = common_net(solver, solver_path);
  return finished(std::move(net), caffe::TRAIN, nets.train_state());
}

std::vector<SolverNet> test_nets_of(const SolverSettings& solver, const std::string& solver_path) {
  const caffe::SolverParameter& nets = solver.nets;
  std::vector<SolverNet> found;
  for (const auto& net : nets.test_net_param())
    found.push_back({net, cat("test_net_param in ", solver_path)});
  for (const auto& path : nets.test_net()) found.push_back(from_file(path, solver.unknown_fields));
  while (found.size() < solver.test.batches.size()) found.push_back(common_net(solver, solver_path));
  for (int k = 0; k < static_cast<int>(found.size()); ++k) {
    const auto state = k < nets.test_state_size() ? nets.test_state(k) : caffe::NetState();
    found[k] = finished(std::move(found[k]), caffe::TEST, state);
  }
  return found;
}

}  // namespace banyan
