// The nets that a solver names: read, upgraded and with their state composed as in Caffe (later ones override
// field by field, stages are appended): the solver's phase < `state` in the net < train_state or test_state
// of the solver.
#pragma once

#include <string>
#include <vector>

#include "banyan/train/solver_settings.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

struct SolverNet {
  caffe::NetParameter net;  ///< upgraded, not filtered; net.state() holds phase, level and stages
  std::string origin;       ///< the file, or `train_net_param in solver.prototxt`
};

/// File names are taken as they are written, relative to the working directory, as in Caffe.
SolverNet train_net_of(const SolverSettings& solver, const std::string& solver_path);
/// By Caffe's rules: test_net_param and test_net, then as many copies of the common net as entries of
/// test_iter remain. Entry k belongs to test_iter(k) and to `Testing net (#k)`.
std::vector<SolverNet> test_nets_of(const SolverSettings& solver, const std::string& solver_path);

}  // namespace banyan
