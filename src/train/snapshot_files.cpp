#include "banyan/train/snapshot_files.hpp"

#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/binary_proto.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/train/log_lines.hpp"

namespace banyan {

namespace fs = std::filesystem;

namespace {

constexpr const char* kStateSuffix = ".solverstate";

/// The iteration in `<stem>_iter_<i>.solverstate`, or -1.
std::int64_t iteration_in(const std::string& file, const std::string& stem) {
  const std::string before = stem + "_iter_";
  if (!file.starts_with(before) || !file.ends_with(kStateSuffix)) return -1;
  const std::size_t digits = file.size() - before.size() - std::string(kStateSuffix).size();
  const std::string number = file.substr(before.size(), digits);
  if (number.empty() || number.size() > 18 ||
      !std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return -1;
  return std::stoll(number);
}

}  // namespace

std::string snapshot_prefix_of(const caffe::SolverParameter& solver, const std::string& solver_path) {
  const fs::path path(solver_path);
  if (!solver.has_snapshot_prefix()) return (path.parent_path() / path.stem()).string();
  std::error_code ignored;
  if (fs::is_directory(solver.snapshot_prefix(), ignored))
    return (fs::path(solver.snapshot_prefix()) / path.stem()).string();
  return solver.snapshot_prefix();
}

SnapshotPaths snapshot_paths(const std::string& prefix, std::int64_t iteration) {
  const std::string base = cat(prefix, "_iter_", iteration);
  return {base + ".caffemodel", base + kStateSuffix};
}

void check_snapshot_prefix(const std::string& prefix) {
  const fs::path folder = fs::path(prefix).parent_path();
  std::error_code error;
  if (!folder.empty() && !fs::exists(folder)) {
    fs::create_directories(folder, error);
    if (error)
      bad_input("cannot make the folder ", folder.string(), " of snapshot_prefix ", quoted(prefix), ": ",
                error.message());
    LOG(INFO) << "Made the folder " << folder.string() << " for snapshots";
  }
  const std::string probe = cat(prefix, "_iter_", ::getpid(), ".tempfile");
  if (!std::ofstream(probe))
    bad_input("cannot write to snapshot_prefix ", quoted(prefix), " (tried ", probe,
              "); check that the folder exists and is writable");
  fs::remove(probe, error);
}

SnapshotPaths write_snapshot(const std::string& prefix, std::int64_t iteration,
                             const caffe::NetParameter& model, caffe::SolverState state,
                             const std::function<void()>& beat) {
  const SnapshotPaths paths = snapshot_paths(prefix, iteration);
  LOG(INFO) << log_lines::snapshot_model(paths.model);
  io::write_binary_proto(paths.model, model, beat);
  state.set_iter(static_cast<int>(iteration));
  state.set_learned_net(paths.model);
  LOG(INFO) << log_lines::snapshot_state(paths.state);
  io::write_binary_proto(paths.state, state, beat);
  return paths;
}

SolverSnapshot read_snapshot(const std::string& state_path) {
  if (state_path.ends_with(".h5")) bad_input(state_path, ": solver states in HDF5 form are not supported");
  SolverSnapshot snapshot;
  snapshot.state_path = state_path;
  io::read_binary_proto(state_path, snapshot.state);
  const std::string& written = snapshot.state.learned_net();
  if (!snapshot.state.has_iter() || written.empty())
    bad_input(state_path, ": not a solver state (it names no iteration or no model)");
  if (snapshot.state.iter() < 0) bad_input(state_path, ": damaged (iteration ", snapshot.state.iter(), ")");
  const fs::path beside = fs::path(state_path).parent_path() / fs::path(written).filename();
  std::error_code ignored;
  if (fs::exists(written, ignored))
    snapshot.model_path = written;
  else if (fs::exists(beside, ignored))
    snapshot.model_path = beside.string();
  else
    bad_input(state_path, ": its model is missing: neither ", written, " nor ", beside.string(), " exists");
  return snapshot;
}

std::optional<std::string> find_latest_snapshot(const std::string& prefix) {
  const fs::path path(prefix);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::int64_t iteration = iteration_in(entry->path().filename().string(), path.filename().string());
    if (iteration >= 0) found.emplace_back(iteration, snapshot_paths(prefix, iteration).state);
  }
  std::sort(found.rbegin(), found.rend());
  for (const auto& [iteration, state] : found) try {
      io::read_weights(read_snapshot(state).model_path);
      return state;
    } catch (const Error& unreadable) {
      LOG(WARNING) << "Passing over a snapshot: " << unreadable.message();
    }
  return std::nullopt;
}

std::vector<std::string> resume_differences(const caffe::SolverState& state, const caffe::BanyanState& now) {
  if (!state.has_banyan())
    return {
        "the state was not written by Banyan: it holds no seed and no positions of the data, so every source "
        "starts "
        "from its beginning and random numbers differ from those of the earlier run"};
  const auto& was = state.banyan();
  std::vector<std::string> sentences;
  const auto compare = [&](bool set, const auto& before, const auto& after, const char* what) {
    if (set && before != after) sentences.push_back(cat(what, " was ", before, ", is ", after));
  };
  compare(now.has_devices(), was.devices(), now.devices(), "the number of devices");
  compare(now.has_device_kind(), was.device_kind(), now.device_kind(), "the kind of device");
  compare(now.has_threads_per_device(), was.threads_per_device(), now.threads_per_device(),
          "the number of threads per device");
  compare(now.has_tree(), was.tree(), now.tree(), "the device tree");
  compare(now.has_precision(), was.precision(), now.precision(), "the precision");
  compare(now.has_seed(), was.seed(), now.seed(), "the seed");
  compare(now.has_version(), was.version(), now.version(), "the program's version");
  return sentences;
}

}  // namespace banyan
