// The nets that a solver names: read, upgraded and with their state composed as in Caffe (later ones override
// field by field, stages are appended): the solver's phase < `state` in the net < train_state or test_state
// of the solver.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/train/solver_settings.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

struct SolverNet {
  caffe::NetParameter net;  ///< upgraded, not filtered; net.state() holds phase, level and stages
  std::string origin;       ///< the file, or `train_net_param in solver.prototxt`
};

/// Where a solver has one of its nets.
struct NamedNet {
  std::string origin;                          ///< as SolverNet's
  const caffe::NetParameter* inner = nullptr;  ///< within the solver; nullptr: in a file
  caffe::Phase phase = caffe::TRAIN;           ///< unless a state says another
  caffe::NetState of_solver = {};              ///< train_state or test_state
};
struct NamedNets {
  std::optional<NamedNet> train;
  std::vector<NamedNet> tests;
};
/// The nets by Caffe's rules, as far as the solver names them: tests are test_net_param and test_net, then as
/// many copies of the common net as remain of `tests` (entries of test_iter). Points into `solver`.
NamedNets named_nets(const caffe::SolverParameter& solver, std::size_t tests, const std::string& solver_path);
/// The state in which the (upgraded) net is used.
caffe::NetState state_of(const NamedNet& named, const caffe::NetParameter& net);
/// That of a net's file that a command is given: the file's own with the command's phase, its level, if one
/// is given, and its stages in addition.
caffe::NetState state_of(const caffe::NetParameter& net, caffe::Phase phase, std::optional<int> level,
                         const std::vector<std::string>& stages);

/// What several processes of a run compare of a net: the number of layers, for each layer that the net's
/// state keeps, "layer NAME of WHAT" and a checksum of its settings, but for where files are and how they are
/// read; then the rest of the net.
std::vector<std::pair<std::string, std::string>> facts_of(const SolverNet& net, const std::string& what);

/// File names are taken as they are written, relative to the working directory, as in Caffe.
SolverNet train_net_of(const SolverSettings& solver, const std::string& solver_path);
/// Entry k belongs to test_iter(k) and to `Testing net (#k)`.
std::vector<SolverNet> test_nets_of(const SolverSettings& solver, const std::string& solver_path);

}  // namespace banyan
