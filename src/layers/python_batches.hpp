// Batches that a program in Python makes, one after the other, for all devices of this process that train
// together: batch n goes to the device whose turn it is, whoever asks first. Internal to the room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/error.hpp"
#include "layers/python_program.hpp"

namespace banyan {

class PythonBatches {
 public:
  struct Array {
    Shape shape;
    std::vector<std::byte> values;
  };
  using Batch = std::vector<Array>;

  PythonBatches(const PythonProgramOptions& options, int devices);
  /// The one of all who give the same key at the same time.
  static std::shared_ptr<PythonBatches> shared(const std::string& key, const PythonProgramOptions& options,
                                               int devices);

  /// Batches of devices that have not joined are made, since the program goes on by them, and dropped. All
  /// join before the first batch is taken.
  void join(int rank);
  /// The shapes that the program gives its outputs before the first batch.
  std::vector<Shape> first_shapes();
  /// From batch `first` on, turns begin with rank 0 again.
  void begin_turns(std::uint64_t first);
  /// Of this rank, batches below `end` are not needed.
  void skip(int rank, std::uint64_t end);
  /// To be called once for each number, by the rank whose turn it is.
  Batch take(std::uint64_t number);

 private:
  int turn_of(std::uint64_t number) const;
  template <class Work>
  auto noting_failures(const Work& work);
  PythonProgram& program();
  Batch make();

  PythonProgramOptions options_;
  int devices_;
  std::mutex mutex_;
  std::unique_ptr<PythonProgram> program_;
  std::map<int, std::uint64_t> joined_;     ///< rank: the first batch that it needs
  std::vector<std::uint64_t> turns_ = {0};  ///< where they begin, ascending
  std::map<std::uint64_t, Batch> made_;     ///< and not yet taken
  std::uint64_t next_ = 0;
  std::optional<Error> failure_;  ///< each device throws a copy, to which it adds its place
};

}  // namespace banyan
