#include "banyan/train/snapshot_files.hpp"

#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <tuple>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/binary_proto.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/train/log_lines.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_model.hpp"

namespace banyan {

namespace fs = std::filesystem;

namespace {

const std::string kModelSuffix = ".caffemodel";
const std::string kStateSuffix = ".solverstate";
/// After both suffixes, by SnapshotFormat.
const std::array<std::string, 2> kFormSuffixes = {"", ".h5"};
/// After a model's name: the model of the state that is about to be replaced.
constexpr const char* kPreviousSuffix = ".previous";

/// The iteration in `<stem>_iter_<i><suffix>`, or -1.
std::int64_t iteration_in(const std::string& file, const std::string& stem, const std::string& suffix) {
  const std::string before = stem + "_iter_";
  if (!file.starts_with(before) || !file.ends_with(suffix) || file.size() <= before.size() + suffix.size())
    return -1;
  const std::size_t digits = file.size() - before.size() - suffix.size();
  const std::string number = file.substr(before.size(), digits);
  if (number.empty() || number.size() > 18 ||
      !std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return -1;
  return std::stoll(number);
}

/// Calls visit(name) for the files in the prefix's folder.
template <class Visit>
void for_each_file_beside(const std::string& prefix, Visit&& visit) {
  const fs::path folder = fs::path(prefix).parent_path();
  std::error_code error;
  fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error))
    visit(entry->path().filename().string());
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

void remove_file(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) runtime_failure("cannot remove ", quoted(path, 4096), ": ", error.message());
}

bool belongs(const std::string& model, const caffe::SolverState& state) {
  return !state.banyan().has_model_checksum() ||
         io::checksum_of_file(model) == state.banyan().model_checksum();
}

/// Keeps the model of the existing state, so that the state still finds it after another model has taken its
/// name. If that is impossible, removes the state.
void keep_previous(const SnapshotPaths& paths) {
  if (!exists(paths.state)) return;
  std::string why = "it names no checksum of its model";
  try {
    const SolverSnapshot earlier = read_snapshot(paths.state);
    if (earlier.state.banyan().has_model_checksum()) {
      std::error_code error;
      if (!fs::equivalent(earlier.model_path, paths.model, error)) return;  // kept already, or elsewhere
      remove_file(paths.model + kPreviousSuffix);
      fs::create_hard_link(paths.model, paths.model + kPreviousSuffix, error);
      if (!error) return;
      why = "its model cannot be kept: " + error.message();
    }
  } catch (const Error& unreadable) {
    why = unreadable.message();
  }
  LOG(WARNING) << "Removing " << paths.state << " before a new model takes the place of the one beside it ("
               << why << ")";
  remove_file(paths.state);
}

void write_all(io::AtomicFile& file, const std::string& bytes) {
  file.write(bytes);
  file.complete();
}

/// Whether the existing state has the model that was kept for it, and no other.
bool needs_previous(const SnapshotPaths& paths) try {
  return exists(paths.state) && read_snapshot(paths.state).model_path.ends_with(kPreviousSuffix);
} catch (const Error&) {
  return false;
}

}  // namespace

std::string snapshot_prefix_of(const SnapshotSettings& settings, const std::string& solver_path) {
  const fs::path path(solver_path);
  if (!settings.prefix) return (path.parent_path() / path.stem()).string();
  std::error_code ignored;
  if (fs::is_directory(*settings.prefix, ignored)) return (fs::path(*settings.prefix) / path.stem()).string();
  return *settings.prefix;
}

SnapshotPaths snapshot_paths(const std::string& prefix, std::int64_t iteration, SnapshotFormat format) {
  const std::string base = cat(prefix, "_iter_", iteration);
  const std::string& form = kFormSuffixes[static_cast<std::size_t>(format)];
  return {base + kModelSuffix + form, base + kStateSuffix + form};
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

void remove_snapshot_leftovers(const std::string& prefix) {
  const std::string stem = fs::path(prefix).filename().string();
  const std::string folder = prefix.substr(0, prefix.size() - stem.size());
  for_each_file_beside(prefix, [&](const std::string& name) {
    const std::string target = io::name_of_temporary(name);
    bool removed = false;
    for (const SnapshotFormat format : {SnapshotFormat::binary, SnapshotFormat::hdf5}) {
      const std::string& form = kFormSuffixes[static_cast<std::size_t>(format)];
      const std::int64_t previous = iteration_in(name, stem, kModelSuffix + form + kPreviousSuffix);
      if (iteration_in(target, stem, kModelSuffix + form) >= 0 ||
          iteration_in(target, stem, kStateSuffix + form) >= 0)
        removed = io::remove_abandoned(folder + name);
      else if (previous >= 0 && !needs_previous(snapshot_paths(prefix, previous, format)))
        removed = ::unlink((folder + name).c_str()) == 0;
    }
    LOG_IF(INFO, removed) << "Removed " << folder << name << ", left behind by a run that was killed";
  });
}

SnapshotPaths write_snapshot(const std::string& prefix, std::int64_t iteration, caffe::NetParameter model,
                             caffe::SolverState state, const std::function<void()>& beat,
                             SnapshotFormat format) {
  const SnapshotPaths paths = snapshot_paths(prefix, iteration, format);
  const bool hdf5 = format == SnapshotFormat::hdf5;
  LOG(INFO) << log_lines::snapshot_model(paths.model, hdf5);
  io::AtomicFile model_file(paths.model, beat);
  if (hdf5)
    write_all(model_file, io::hdf5_model(std::move(model), paths.model));
  else
    io::write_binary_proto(model_file, model);
  state.set_iter(static_cast<int>(iteration));
  state.set_learned_net(paths.model);
  state.mutable_banyan()->set_model_checksum(model_file.checksum());
  LOG(INFO) << log_lines::snapshot_state(paths.state, hdf5);
  io::AtomicFile state_file(paths.state, beat);
  if (hdf5)
    write_all(state_file, io::hdf5_state(std::move(state), paths.state));
  else
    io::write_binary_proto(state_file, state);
  keep_previous(paths);
  model_file.commit();
  state_file.commit();
  remove_file(paths.model + kPreviousSuffix);
  return paths;
}

SolverSnapshot read_snapshot(const std::string& state_path) {
  SolverSnapshot snapshot;
  snapshot.state_path = state_path;
  if (io::looks_like_hdf5(state_path))
    snapshot.state = io::read_hdf5_state(state_path);
  else
    io::read_binary_proto(state_path, snapshot.state);
  const std::string& written = snapshot.state.learned_net();
  if (!snapshot.state.has_iter() || written.empty())
    bad_input(state_path, ": not a solver state (it names no iteration or no model)");
  if (snapshot.state.iter() < 0) bad_input(state_path, ": damaged (iteration ", snapshot.state.iter(), ")");
  const std::string beside = (fs::path(state_path).parent_path() / fs::path(written).filename()).string();
  std::vector<std::string> places = {written, beside};
  if (snapshot.state.banyan().has_model_checksum())
    places.insert(places.end(), {written + kPreviousSuffix, beside + kPreviousSuffix});
  std::string another;
  for (const std::string& model : places) {
    if (!exists(model)) continue;
    snapshot.model_path = model;
    if (belongs(model, snapshot.state)) return snapshot;
    if (another.empty()) another = model;
  }
  if (!another.empty())
    bad_input(state_path, ": its model is missing: ", another,
              " is another one, or was changed since (its checksum is not the one that the state names)");
  bad_input(state_path, ": its model is missing: neither ", written, " nor ", beside, " exists");
}

std::optional<std::string> find_latest_snapshot(const std::string& prefix) {
  struct Found {
    std::int64_t iteration;
    fs::file_time_type written;  // decides where both forms exist
    std::string state;
  };
  std::vector<Found> found;
  for_each_file_beside(prefix, [&](const std::string& name) {
    for (const SnapshotFormat format : {SnapshotFormat::binary, SnapshotFormat::hdf5}) {
      const std::string suffix = kStateSuffix + kFormSuffixes[static_cast<std::size_t>(format)];
      const std::int64_t iteration = iteration_in(name, fs::path(prefix).filename().string(), suffix);
      if (iteration < 0) continue;
      std::error_code ignored;
      const std::string state = snapshot_paths(prefix, iteration, format).state;
      found.push_back({iteration, fs::last_write_time(state, ignored), state});
    }
  });
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(b.iteration, b.written) < std::tie(a.iteration, a.written);
  });
  for (const auto& [iteration, written, state] : found) try {
      io::read_weights(read_snapshot(state).model_path);
      return state;
    } catch (const Error& unreadable) {
      LOG(WARNING) << "Skipping a snapshot: " << unreadable.message();
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
