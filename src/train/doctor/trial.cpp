#include "trial.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/train/session.hpp"
#include "base/clock.hpp"
#include "train/commands/time_report.hpp"
#include "train/early_warnings.hpp"

namespace banyan::doctor {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kBudget = 5;  ///< seconds of iterations, unless a number of them is asked for
constexpr int kWarmUp = 3;     ///< in these memory is allocated and libraries choose their algorithms

/// Memory of the process that is no copy of a file, as mapped databases are.
std::uint64_t own_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, resident = 0, of_files = 0;
  file >> all >> resident >> of_files;
  return (resident - std::min(resident, of_files)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Holds the trial's snapshot, and vanishes with it.
class SnapshotFolder {
 public:
  explicit SnapshotFolder(const std::string& folder) : path_(cat(folder, "/.banyan_doctor_", ::getpid())) {}
  ~SnapshotFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  SnapshotFolder(const SnapshotFolder&) = delete;
  SnapshotFolder& operator=(const SnapshotFolder&) = delete;
  std::string prefix() const { return path_ + "/trial"; }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(path_, ignored)) sum += entry.file_size();
    return sum;
  }

 private:
  std::string path_;
};

bool stop_asked(const TrainOptions& options) {
  return options.signals != nullptr && options.signals->stop.load();
}

/// The same run, but nothing in it happens by itself.
TrainOptions quiet(TrainOptions options, const SnapshotFolder& snapshots) {
  SolverSettings& solver = options.solver;
  solver.max_iter = std::numeric_limits<int>::max();
  solver.display = 0;
  solver.debug_info = false;
  solver.metrics = {};
  solver.test.interval = 0;
  solver.test.initialization = false;
  solver.snapshot.interval = 0;
  solver.snapshot.before_train = false;
  solver.snapshot.after_train = false;
  solver.snapshot.prefix = snapshots.prefix();
  const int most = 2 * static_cast<int>(options.devices.size());
  for (int& batches : solver.test.batches) batches = std::min(batches, most);
  options.console = nullptr;
  options.check_nan = false;
  options.warnings = false;
  return options;
}

void warm_up(Session& session) {
  const auto start = Clock::now();
  for (int done = 0; done < kWarmUp && (done == 0 || seconds_since(start) < kBudget); ++done)
    if (!session.step(1)) return;
}

void time_iterations(Session& session, const TrialOptions& options, Trial& trial) {
  const auto start = Clock::now();
  const auto enough = [&] {
    if (options.iterations > 0) return trial.iterations >= options.iterations;
    return trial.iterations > 0 && seconds_since(start) >= kBudget;
  };
  // Each call waits for the devices, so that short iterations are better done several at a time.
  for (int count = 1; !enough() && !stop_asked(options.run);) {
    const double before = seconds_since(start);
    if (options.iterations > 0) count = std::min(count, options.iterations - trial.iterations);
    session.step(count);
    trial.iterations += count;
    if (seconds_since(start) - before < kBudget / 20) count *= 2;
  }
  trial.iteration = seconds_since(start) / std::max(trial.iterations, 1);
}

/// Of whole tests, from a pass of a few batches.
double time_tests(Session& session, const SolverSettings& real, const SolverSettings& asked) {
  const auto start = Clock::now();
  session.test();
  const double seconds = seconds_since(start);
  double all = 0, done = 0;
  for (std::size_t k = 0; k < asked.test.batches.size(); ++k) {
    all += real.test.batches[k];
    done += asked.test.batches[k];
  }
  return done > 0 ? seconds * all / done : 0;
}

std::string share_text(double part, double whole) {
  return cat(std::lround(100 * part / std::max(whole, 1e-12)), " %");
}

void judge_time(const Trial& trial, const SolverSettings& solver, Findings& findings) {
  const std::int64_t left = std::max<std::int64_t>(0, solver.max_iter - trial.start);
  const double training = static_cast<double>(left) * trial.iteration;
  const double tests = static_cast<double>(tests_of(solver, trial.start)) * trial.test;
  const double snapshots = static_cast<double>(snapshots_of(solver, trial.start)) * trial.snapshot;
  const double all = training + tests + snapshots;
  const double rate = trial.iteration > 0 ? static_cast<double>(trial.samples) / trial.iteration : 0;
  std::string text =
      cat("about ", seconds_text(all), " for ", count_text(static_cast<std::uint64_t>(left), "iteration"),
          ": ", seconds_text(trial.iteration), " each (", std::lround(rate), " samples/s");
  if (trial.start > 0) text += cat(", from iteration ", trial.start);
  text += ")";
  if (tests > 0) text += cat(", tests ", seconds_text(tests));
  if (snapshots > 0) text += cat(", snapshots ", seconds_text(snapshots));
  const Figures figures = {{"seconds", json_number(all)},
                           {"iteration_seconds", json_number(trial.iteration)},
                           {"iterations_left", cat(left)},
                           {"iterations_timed", cat(trial.iterations)},
                           {"samples_per_second", json_number(rate)},
                           {"test_seconds", json_number(tests)},
                           {"snapshot_seconds", json_number(snapshots)}};
  if (left == 0)
    findings.warn("time",
                  cat("nothing is left to do: the snapshot is of iteration ", trial.start, ", max_iter is ",
                      solver.max_iter),
                  "a larger max_iter, or another snapshot", figures);
  else if (tests > training)
    findings.warn("time", text + ": tests take more than the training",
                  "a larger test_interval, or a smaller test_iter", figures);
  else
    findings.ok("time", text, figures);
  if (!std::isfinite(trial.loss))
    findings.fail("loss", cat("not finite after ", trial.iterations + kWarmUp, " iterations"),
                  cat(kGentler, "; --check_nan names the layer"));
}

void judge_shares(const Trial& trial, int devices, Findings& findings) {
  const IterationShares& shares = trial.shares;
  if (shares.total <= 0) return;
  constexpr double kStarved = 0.05, kExposed = 0.25, kSkewed = 0.15;
  const Figures data = {{"share", json_number(shares.data / shares.total)}};
  if (shares.data > kStarved * shares.total)
    findings.warn(
        "input", cat("devices wait for data for ", share_text(shares.data, shares.total), " of an iteration"),
        "more `threads` in the data layer while there are free cores, an LMDB instead of files, or smaller "
        "images; trainer time --data measures the parts",
        data);
  else
    findings.ok("input",
                cat("devices wait for data for ", share_text(shares.data, shares.total), " of an iteration"),
                data);
  if (devices < 2) return;
  const double exposed = shares.statistics + shares.divisors + shares.gradients - shares.skew;
  const std::string text =
      cat("exposed communication ", share_text(exposed, shares.total),
          " of an iteration, devices out of step ", share_text(shares.skew, shares.total));
  const Figures figures = {{"exposed", json_number(exposed / shares.total)},
                           {"skew", json_number(shares.skew / shares.total)}};
  if (exposed > kExposed * shares.total)
    findings.warn("devices", text,
                  "a larger batch per device; trainer time shows the parts, trainer topology the links",
                  figures);
  else if (shares.skew > kSkewed * shares.total)
    findings.warn(
        "devices", text,
        "devices of unequal speed, or other programs: each iteration takes as long as the slowest device",
        figures);
  else
    findings.ok("devices", text, figures);
}

void judge_snapshots(const Trial& trial, const SolverSettings& solver, std::uint64_t free,
                     const std::string& folder, Findings& findings) {
  const std::int64_t count = snapshots_of(solver, trial.start);
  if (count == 0) {
    if (solver.max_iter > trial.start)
      findings.warn("snapshots", "the run writes none: what it learns is lost",
                    "snapshot: N, or snapshot_after_train: true");
    return;
  }
  if (trial.snapshot_bytes == 0) return;
  const double all = static_cast<double>(count) * static_cast<double>(trial.snapshot_bytes);
  const std::string text =
      cat(count_text(static_cast<std::uint64_t>(count), "snapshot"), " of ",
          bytes_text(static_cast<double>(trial.snapshot_bytes)), " in ", folder, ": ", bytes_text(all),
          " of ", bytes_text(static_cast<double>(free)), " free; each takes ", seconds_text(trial.snapshot));
  const Figures figures = {{"snapshots", cat(count)},
                           {"snapshot_bytes", cat(trial.snapshot_bytes)},
                           {"bytes", json_number(all)},
                           {"free_bytes", cat(free)},
                           {"seconds_each", json_number(trial.snapshot)}};
  const double training = static_cast<double>(solver.max_iter - trial.start) * trial.iteration;
  if (all > static_cast<double>(free))
    findings.fail("snapshots", text + ": they do not fit",
                  "a larger `snapshot`, more room, or another snapshot_prefix", figures);
  else if (all > 0.8 * static_cast<double>(free))
    findings.warn("snapshots", text, "a larger `snapshot`, more room, or another snapshot_prefix", figures);
  else if (static_cast<double>(count) * trial.snapshot > 0.05 * training)
    findings.warn("snapshots",
                  text + cat(", ", share_text(static_cast<double>(count) * trial.snapshot, training),
                             " of the training"),
                  "a larger `snapshot`, or a faster disk", figures);
  else
    findings.ok("snapshots", text, figures);
}

}  // namespace

std::int64_t tests_of(const SolverSettings& solver, std::int64_t start) {
  if (solver.test.interval <= 0 || solver.test.batches.empty()) return 0;
  // Before the iterations `start` to max_iter that are multiples; the last after all of them.
  const auto up_to = [&](std::int64_t last) { return last < 0 ? 0 : last / solver.test.interval + 1; };
  const std::int64_t count = up_to(solver.max_iter) - up_to(start - 1);
  return std::max<std::int64_t>(0, count - (start == 0 && !solver.test.initialization ? 1 : 0));
}

std::int64_t snapshots_of(const SolverSettings& solver, std::int64_t start) {
  if (start >= solver.max_iter) return 0;
  const int interval = solver.snapshot.interval;
  const std::int64_t regular = interval > 0 ? solver.max_iter / interval - start / interval : 0;
  const bool at_end = solver.snapshot.after_train && !is_turn(solver.max_iter, interval);
  return regular + (solver.snapshot.before_train ? 1 : 0) + (at_end ? 1 : 0);
}

Trial run_trial(const TrialOptions& options) {
  Trial trial;
  const SnapshotFolder folder(options.folder);
  TrainOptions run = quiet(options.run, folder);
  run.timeline = std::make_shared<Timeline>();
  const std::uint64_t before = own_bytes();
  Session session(run);
  trial.start = session.iteration();
  trial.samples = session.samples_per_iteration();
  warm_up(session);
  if (!run.solver.test.batches.empty()) session.test();
  // Before the timeline grows.
  trial.host_bytes = own_bytes() - std::min(before, own_bytes());
  const int first = static_cast<int>(session.iteration());
  time_iterations(session, options, trial);
  trial.loss = session.metrics().loss;
  if (!run.solver.test.batches.empty() && !stop_asked(options.run))
    trial.test = time_tests(session, options.run.solver, run.solver);
  if (snapshots_of(options.run.solver, trial.start) > 0 && !stop_asked(options.run)) {
    const auto start = Clock::now();
    session.snapshot();
    trial.snapshot = seconds_since(start);
    trial.snapshot_bytes = folder.bytes();
  }
  trial.memory = session.memory();
  // The first few may live on batches that were prepared during the test.
  trial.shares = mean_shares(report_times(*run.timeline, first + std::min(4, trial.iterations / 2)));
  return trial;
}

void judge_trial(const Trial& trial, const SolverSettings& solver, int devices, std::uint64_t free,
                 const std::string& folder, Findings& findings) {
  judge_shares(trial, devices, findings);
  judge_snapshots(trial, solver, free, folder, findings);
  judge_time(trial, solver, findings);
}

}  // namespace banyan::doctor
