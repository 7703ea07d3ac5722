#include "banyan/train/solver_nets.hpp"

#include "banyan/base/error.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/train/solver_check.hpp"

namespace banyan {

namespace {

SolverNet from_file(const std::string& path) { return {io::read_net_text(path), path}; }

SolverNet finished(SolverNet net, caffe::Phase phase, const caffe::NetState& of_solver) {
  io::upgrade_net(net.net, net.origin);
  caffe::NetState state;
  state.set_phase(phase);
  state.MergeFrom(net.net.state());
  state.MergeFrom(of_solver);
  *net.net.mutable_state() = state;
  return net;
}

SolverNet common_net(const caffe::SolverParameter& solver, const std::string& solver_path) {
  if (solver.has_net_param()) return {solver.net_param(), cat("net_param in ", solver_path)};
  return from_file(solver.net());
}

}  // namespace

SolverNet train_net_of(const caffe::SolverParameter& solver, const std::string& solver_path) {
  SolverNet net;
  if (solver.has_train_net_param())
    net = {solver.train_net_param(), cat("train_net_param in ", solver_path)};
  else if (solver.has_train_net())
    net = from_file(solver.train_net());
  else
    net = common_net(solver, solver_path);
  return finished(std::move(net), caffe::TRAIN, solver.train_state());
}

std::vector<SolverNet> test_nets_of(const caffe::SolverParameter& solver, const std::string& solver_path) {
  std::vector<SolverNet> nets;
  for (const auto& net : solver.test_net_param())
    nets.push_back({net, cat("test_net_param in ", solver_path)});
  for (const auto& path : solver.test_net()) nets.push_back(from_file(path));
  for (int k = static_cast<int>(nets.size()); k < test_net_count(solver); ++k)
    nets.push_back(common_net(solver, solver_path));
  for (int k = 0; k < static_cast<int>(nets.size()); ++k) {
    const auto state = k < solver.test_state_size() ? solver.test_state(k) : caffe::NetState();
    nets[k] = finished(std::move(nets[k]), caffe::TEST, state);
  }
  return nets;
}

}  // namespace banyan
