// `trainer doctor`: the order of the examination.
#include "banyan/train/doctor.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/device/cores.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/observe/console.hpp"
#include "banyan/train/commands.hpp"
#include "banyan/train/snapshot_files.hpp"
#include "data.hpp"
#include "diagnosis.hpp"
#include "disk.hpp"
#include "gpus.hpp"
#include "machine.hpp"
#include "nets.hpp"
#include "trial.hpp"

namespace banyan {
namespace doctor {
namespace {

/// Threads of the process that belong to no device.
constexpr int kOtherThreads = 4;
/// Where nothing says how large snapshots are.
constexpr std::uint64_t kProbeBytes = std::uint64_t{64} << 20;
/// Part of a device's memory that a run may take: libraries need some that nobody counts.
constexpr double kUsableShare = 0.95;

class Examination {
 public:
  explicit Examination(const DoctorOptions& options)
      : options_(options), run_(options.run), findings_([this](const Finding& finding) {
          show("");
          if (options_.found) options_.found(finding);
        }) {}

  Diagnosis run() {
    load_solver_file();
    choose_devices_of_run();
    examine_machine();
    if (on_gpus()) {
      show("looking at the GPUs and their links");
      stalled_ = examine_gpus(run_.devices, run_.tree, findings_);
    }
    if (!stalled_) examine_disk();
    if (solver_ && !run_.devices.empty() && !stalled_)
      findings_.attempt("run", "trainer check and trainer summary may tell more", [&] { examine_run(); });
    if (stopped()) findings_.warn("doctor", "stopped before everything was looked at", "start it again");
    report_log();
    show("");
    return {findings_.all(), stalled_};
  }

 private:
  void show(const std::string& what) const {
    if (run_.console != nullptr) run_.console->set_status(what);
  }
  bool stopped() const { return run_.signals != nullptr && run_.signals->stop.load(); }
  bool on_gpus() const { return !run_.devices.empty() && run_.devices[0].kind == DeviceKind::cuda; }
  int devices() const { return static_cast<int>(run_.devices.size()); }
  int threads_of_device() const {
    if (on_gpus()) return 1;
    if (run_.threads_per_device > 0) return run_.threads_per_device;
    return std::max(1, static_cast<int>(allowed_cores().size()) / std::max(1, devices()));
  }

  /// As `trainer check` does, then as training would.
  void load_solver_file() {
    if (options_.solver.empty()) return;
    CheckOptions check;
    check.files = {options_.solver};
    check.level = options_.level;
    check.stages = options_.stages;
    check.unknown_fields = options_.unknown_fields;
    check.max_iter = options_.max_iter;
    const CheckReport report = check_files(check);
    const std::string remedy = cat("correct it; trainer check ", options_.solver, " shows the same");
    for (const CheckedFile& file : report.files)
      for (const std::string& problem : file.problems) findings_.fail("solver", problem, remedy);
    if (report.problems > 0) return;
    findings_.attempt("solver", remedy, [&] {
      run_.solver_path = options_.solver;
      run_.solver = load_solver(options_.solver, options_.unknown_fields, options_.max_iter);
      add_to_state(*run_.solver.nets.mutable_train_state(), options_.level, options_.stages);
      resolve_start(run_);
      findings_.ok("solver", cat(options_.solver, ": ", name_of(run_.solver.update.rule), ", ",
                                 name_of(run_.solver.rate.policy), ", ",
                                 count_text(static_cast<std::uint64_t>(run_.solver.max_iter), "iteration")));
      solver_ = true;
    });
  }

  void choose_devices_of_run() {
    findings_.attempt(
        "devices", "choose devices that are there: --gpu, --cpu, or solver_mode and device_id of the solver",
        [&] {
          DeviceFlags flags = options_.devices;
          if (options_.solver.empty() && !flags.gpu && !flags.cpu && count_gpus().count > 0)
            flags.gpu = "all";
          const ChosenDevices chosen = choose_devices(flags, run_.solver.devices);
          check_precision(run_.precision, chosen.devices.at(0).kind);
          run_.devices = chosen.devices;
          std::vector<std::string> names;
          for (const DeviceChoice& device : run_.devices)
            names.push_back(cat(device.kind == DeviceKind::cpu ? "cpu:" : "gpu:", device.ordinal));
          std::string text = join(names, ", ");
          if (!on_gpus())
            text +=
                cat(" with ", count_text(static_cast<std::uint64_t>(threads_of_device()), "thread"), " each");
          // A solver that asks for a GPU and gets none is a surprise.
          if (run_.solver.devices.gpu && !on_gpus() && !flags.cpu)
            findings_.warn("devices", chosen.note, "install the driver and CUDA, or write solver_mode: CPU");
          else
            findings_.ok("devices", text);
        });
  }

  void examine_machine() {
    machine_ = read_machine();
    MachineNeeds needs;
    needs.cores = static_cast<int>(allowed_cores().size());
    needs.threads = std::max(1, devices()) * (threads_of_device() + 2) + kOtherThreads;
    needs.gpus = on_gpus();
    judge_machine(machine_, needs, findings_);
    if (on_gpus() || run_.devices.empty()) return;
    const int threads = devices() * threads_of_device();
    if (threads > needs.cores)
      findings_.warn(
          "devices",
          cat(threads, " threads of ", count_text(static_cast<std::uint64_t>(devices()), "device"), " share ",
              count_text(static_cast<std::uint64_t>(needs.cores), "core")),
          "--threads_per_device=1 or fewer devices: a thread without a core makes all others wait");
  }

  void examine_disk() {
    snapshot_folder_ = existing_folder(
        solver_ ? std::filesystem::path(snapshot_prefix_of(run_.solver.snapshot, run_.solver_path))
                      .parent_path()
                      .string()
                : std::string("."));
    show("measuring the disk");
    disk_works_ = findings_.attempt("disk", "choose another snapshot_prefix, or allow writing there", [&] {
      disk_ = measure_disk(snapshot_folder_, kProbeBytes);
      judge_disk(disk_, findings_);
    });
  }

  void examine_run() {
    show("building the nets");
    const Nets nets(run_, findings_);
    if (nets.all().empty() || stopped()) return;
    const std::size_t before = findings_.all().size();
    examine_data(nets,
                 {options_.all_records, static_cast<int>(allowed_cores().size()), machine_.usable_memory(),
                  run_.solver.test.batches, [this] { return stopped(); },
                  [this](const std::string& what) { show(what); }},
                 findings_);
    const bool good_data =
        std::none_of(findings_.all().begin() + static_cast<std::ptrdiff_t>(before), findings_.all().end(),
                     [](const Finding& finding) { return finding.kind == FindingKind::error; });
    if (!nets.complete() || stopped()) return;
    show("planning the memory");
    available_ = available_bytes();
    if (!planned_fits(nets)) return;
    // A run with such data would end with the same message.
    if (!good_data || !disk_works_) {
      findings_.warn("time",
                     cat("no iteration was timed, because ",
                         good_data ? "snapshots cannot be written" : "the data cannot be used"),
                     "correct what is found above");
      return;
    }
    show("timing iterations, a test and a snapshot");
    findings_.attempt("run", "this is how the run would end", [&] {
      const Trial trial = run_trial({run_, options_.iterations, snapshot_folder_});
      if (stopped() && trial.iterations == 0) return;
      judge_memory_of(nets, trial);
      judge_trial(trial, run_.solver, devices(), disk_.free, snapshot_folder_, findings_);
    });
  }

  /// Of the device that has least.
  std::int64_t available_bytes() const {
    if (!on_gpus()) return static_cast<std::int64_t>(machine_.usable_memory()) / devices();
    std::map<int, int> replicas;
    for (const DeviceChoice& device : run_.devices) ++replicas[device.ordinal];
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const auto& [ordinal, count] : replicas)
      least = std::min(least, static_cast<std::int64_t>(query_cuda_gpu(ordinal).free) / count);
    return least;
  }
  std::int64_t usable() const {
    return static_cast<std::int64_t>(kUsableShare * static_cast<double>(available_));
  }

  std::string batch_text(const Nets& nets, double more) const {
    std::string why;
    const auto largest = nets.largest_batch(usable(), more, why);
    if (!largest) return cat("the largest batch is not known (", why, ")");
    return *largest == 0 ? std::string("no batch fits")
                         : cat("the largest batch that fits is about ", *largest, " per device");
  }

  /// Before anything of the size is allocated: a process that takes too much is killed without a word.
  bool planned_fits(const Nets& nets) {
    const std::int64_t needed = nets.fixed_bytes() + nets.activation_bytes();
    if (needed <= usable()) return true;
    findings_.fail(
        "memory of a device",
        cat("the nets need at least ", bytes_text(static_cast<double>(needed)), " on each device, ",
            bytes_text(static_cast<double>(available_)), " are free; ", batch_text(nets, 0)),
        "a smaller batch_size, checkpoint: \"auto\" in the net, in_place_abn, or more devices",
        {{"needed_bytes", cat(needed)}, {"available_bytes", cat(available_)}});
    return false;
  }

  void judge_memory_of(const Nets& nets, const Trial& trial) {
    std::size_t peak = 0;
    for (const MemoryUse& use : trial.memory) peak = std::max(peak, use.peak);
    // On CPU devices what libraries and readers take counts too.
    const std::uint64_t taken =
        on_gpus() ? peak
                  : std::max<std::uint64_t>(peak, trial.host_bytes / static_cast<std::uint64_t>(devices()));
    const std::int64_t planned = nets.fixed_bytes() + nets.activation_bytes();
    const double more =
        static_cast<double>(std::max<std::int64_t>(0, static_cast<std::int64_t>(taken) - planned)) /
        static_cast<double>(std::max<std::int64_t>(1, nets.train().batch));
    std::string why;
    const auto largest = nets.largest_batch(usable(), more, why);
    const Figures figures = {{"peak_bytes", cat(taken)},
                             {"planned_bytes", cat(planned)},
                             {"available_bytes", cat(available_)},
                             {"batch", cat(nets.train().batch)},
                             {"largest_batch", largest ? cat(*largest) : "null"}};
    const std::string text = cat("a device takes ", bytes_text(static_cast<double>(taken)), " of ",
                                 bytes_text(static_cast<double>(available_)), "; ", batch_text(nets, more));
    if (static_cast<std::int64_t>(taken) > usable())
      findings_.warn("memory of a device", text,
                     "a smaller batch_size, checkpoint: \"auto\" in the net, in_place_abn, or more devices",
                     figures);
    else
      findings_.ok("memory of a device", text, figures);
  }

  void report_log() {
    for (const std::string& line : log_.take()) findings_.warn("log", line, "the run will log the same");
  }

  const DoctorOptions& options_;
  TrainOptions run_;
  Findings findings_;
  LogCapture log_;
  MachineState machine_;
  DiskState disk_;
  std::string snapshot_folder_;
  std::int64_t available_ = 0;  ///< bytes of a device
  bool solver_ = false, stalled_ = false, disk_works_ = false;
};

}  // namespace
}  // namespace doctor

Diagnosis diagnose(const DoctorOptions& options) { return doctor::Examination(options).run(); }

}  // namespace banyan
