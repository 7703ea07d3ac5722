// Which algorithm of cuDNN's (legacy) interface computes what, and with how much workspace.
#pragma once

#include <string>
#include <vector>

#include "dnn_problem.hpp"

namespace emulated::dnn {

enum class Direction { forward, backward_data, backward_filter };

/// cuDNN's function that computes it.
const char* name_of(Direction direction);
/// The end of its enumerator: "IMPLICIT_GEMM", "1".
std::string name_of(Direction direction, int algorithm);
/// Number of enumerators.
int algorithms_of(Direction direction);
bool is_deterministic(Direction direction, int algorithm);

/// As documented for each algorithm, and as set by cudnn=...
cudnnStatus_t check_support(Direction direction, int algorithm, const Problem& problem);
std::size_t workspace_bytes(Direction direction, int algorithm, const Problem& problem);

struct Ranked {
  int algorithm;
  cudnnStatus_t status;
  cudnnMathType_t math;
};
/// What the heuristics answer, best first: those that can be used (but in double with and without tensor
/// cores), then the others.
std::vector<Ranked> rank(Direction direction, const Problem& problem);

/// Does the setting cudnn=last or cudnn=refuse make it fail when it runs?
bool is_refused_when_run(Direction direction, int algorithm, const Problem& problem);

}  // namespace emulated::dnn
