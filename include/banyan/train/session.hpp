// Session: devices, nets and solver of one training run, for programs that train. For a net on one device
// without a solver, see Model (model.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/tensor/values.hpp"
#include "banyan/train/train.hpp"

namespace banyan {

/// Where a run stands.
struct Metrics {
  std::int64_t iteration = 0;  ///< iterations done
  double loss = 0;             ///< mean of the last average_loss losses, over all devices
  double rate = 0;             ///< of the last iteration; 0 before the first one
};

/// Means over the batches of a test pass; of an output with detections the mean average precision.
struct TestResult {
  double loss = 0;
  struct Output {
    std::string blob;
    std::vector<double> values;
  };
  std::vector<Output> outputs;
  int net = 0;  ///< its number
  double seconds = 0;
};

/// To be used by one thread at a time. Every call returns when all devices have done what it asks for:
/// nothing is under way between calls. Where a device fails, the call throws the first Error of any device
/// (see WorkerGroup); the session is then at its end, and every later call throws the same error. What a call
/// refuses before the devices begin (a wrong name, a file that cannot be read) leaves the session as it was;
/// a run over multiple processes ends there too, because the others wait. Such processes make the same calls
/// in the same order; with a parameter server they only call step() or train().
class Session {
 public:
  /// Makes devices, tree and nets, fills, loads or resumes the parameters. Throws bad_input for anything
  /// wrong in the options and in what they name.
  explicit Session(const TrainOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::int64_t iteration() const;              ///< iterations done, including those before a resumed snapshot
  std::int64_t samples_per_iteration() const;  ///< of all devices
  int devices() const;                         ///< of this process
  std::vector<MemoryUse> memory() const;       ///< of each of them

  /// Trains up to `count` iterations, not beyond the solver's max_iter, with the tests, log lines and
  /// snapshots that fall due. False: SignalFlags requested a stop.
  bool step(std::int64_t count);
  /// step() to max_iter, then what Caffe does at the end: a snapshot, a last loss, a last test.
  TrainOutcome train();
  /// Tests all test nets (test_iter batches each) and logs the results, in the order of the solver.
  std::vector<TestResult> test();
  /// Writes a snapshot (snapshot_files.hpp) under the solver's prefix and returns the path of its state. A
  /// process that is not the first one writes nothing.
  std::string snapshot();
  /// Continues from a snapshot.
  void restore(const std::string& state_path);

  Metrics metrics();
  /// What the last iteration left in a blob of the train net on one device (0 is the first). Throws bad_input
  /// for a blob that does not exist or shares its memory with others (TrainOptions::keep_blobs).
  Values blob(const std::string& name, int device = 0);
  /// Puts values, in logical order, into an output of a layer that the program fills (Input, MemoryData), on
  /// one device, in the train net or in a test net by its number; they stay until the next call. Throws
  /// bad_input for any other blob, and for another number of values than its shape says.
  void set_input(const std::string& blob, const std::vector<double>& values, int device = 0,
                 int test_net = -1);
  /// Parameter `index` of a layer of the train net, the same on all devices (running statistics: the first
  /// one's). Throws bad_input for one that does not exist.
  Values parameter(const std::string& layer, int index);
  /// Overwrites it on all devices. Throws bad_input for a different number of values.
  void set_parameter(const std::string& layer, int index, const std::vector<double>& values);

 private:
  struct State;
  void begin(std::int64_t count);
  std::unique_ptr<State> state_;
};

}  // namespace banyan
