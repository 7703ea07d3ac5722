// A solver's settings, judged before anything is built: what Caffe refuses, what its forks mean that is not
// supported here, and what could only be a mistake. Everything refused is bad_input beginning with `origin`,
// the solver's file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proto/banyan.pb.h"

namespace banyan {

/// Reads, upgrades and checks a solver file.
caffe::SolverParameter load_solver(const std::string& path);

/// Needs an upgraded solver (type instead of solver_type). A setting that another program honours and that
/// cannot change the result is accepted silently; one that probably does not do what was meant is logged as a
/// warning.
void check_solver(const caffe::SolverParameter& solver, const std::string& origin);

/// SGD, Nesterov, AdaGrad, RMSProp, AdaDelta, Adam.
std::vector<std::string> solver_types();
/// Blobs of history for each parameter: 2 for Adam and AdaDelta, else 1.
int histories_of(const std::string& solver_type);

/// Number of test nets by Caffe's rules: test_net_param and test_net, then as many copies of the common net
/// as test_iter entries remain.
int test_net_count(const caffe::SolverParameter& solver);

/// Level and stages of the command line, which belong to the train net only, as in Caffe. Without a level the
/// solver's own stays (Caffe overwrites it with 0).
void apply_command_line_state(caffe::SolverParameter& solver, std::optional<int> level,
                              const std::vector<std::string>& stages);

}  // namespace banyan
