// Snapshots on disk: `<prefix>_iter_<i>.caffemodel` (what Caffe's tools read) and
// `<prefix>_iter_<i>.solverstate`, Caffe's state with Banyan's extension for bit-for-bit resumption; or the
// same in HDF5 form, with `.h5` after the names. Which form a file has is told by its beginning. A state
// holds the checksum of its model. Whenever the writer is killed, each state on disk has its model: both
// files are complete before either appears, the model appears before the state, and if they replace an
// earlier pair, its model is kept as `<prefix>_iter_<i>.caffemodel.previous` until the new state has
// appeared. (A state without a checksum, such as Caffe's, could not tell the models apart: it is removed
// instead.)
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "banyan/train/solver_settings.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

/// Caffe's rule: snapshot_prefix as written; unset, the solver's path without extension; a folder gets the
/// solver's stem appended.
std::string snapshot_prefix_of(const SnapshotSettings& settings, const std::string& solver_path);

struct SnapshotPaths {
  std::string model, state;
};
SnapshotPaths snapshot_paths(const std::string& prefix, std::int64_t iteration,
                             SnapshotFormat format = SnapshotFormat::binary);

/// Makes the prefix's folder if it is missing, then creates and removes a probe file. Throws bad_input if
/// that fails.
void check_snapshot_prefix(const std::string& prefix);

/// Removes what killed runs left behind under this prefix: temporary files whose writer is gone, and models
/// kept for a state that has been replaced.
void remove_snapshot_leftovers(const std::string& prefix);

/// Logs Caffe's two lines, writes the model, then the state with iter and learned_net filled in. Returns the
/// paths. Throws runtime_failure and then leaves earlier snapshots untouched. `beat`: as io::AtomicFile's.
SnapshotPaths write_snapshot(const std::string& prefix, std::int64_t iteration, caffe::NetParameter model,
                             caffe::SolverState state, const std::function<void()>& beat = {},
                             SnapshotFormat format = SnapshotFormat::binary);

struct SolverSnapshot {
  caffe::SolverState state;
  std::string state_path;
  std::string
      model_path;  ///< learned_net: as written, else the same name beside the state file, else `.previous`
};
/// Throws bad_input if either file is missing, the state is not one, or no model has the checksum in the
/// state.
SolverSnapshot read_snapshot(const std::string& state_path);

/// The state of the highest iteration of this prefix whose state and model can both be read, in the form that
/// was written last if both exist; damaged ones are logged and skipped. None: nullopt.
std::optional<std::string> find_latest_snapshot(const std::string& prefix);

/// One sentence for each thing that keeps a run resumed under `now` from being bit-identical to the one that
/// wrote `state`; empty if nothing does. Only settings that are set in `now` are compared.
std::vector<std::string> resume_differences(const caffe::SolverState& state, const caffe::BanyanState& now);

}  // namespace banyan
