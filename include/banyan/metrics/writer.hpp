// Writer: a thread of its own that passes records to sinks, so that neither a slow disk nor making a record
// out of what was measured holds up a run.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "banyan/metrics/sink.hpp"

namespace banyan::metrics {

class Writer {
 public:
  /// What the thread calls to make records of what was measured; its Error is reported, others are not
  /// expected.
  using Maker = std::function<std::vector<Record>()>;
  /// Records that wait. If a disk does not keep up at all, later ones are dropped, which is reported.
  static constexpr std::size_t kMostWaiting = 4096;

  /// A sink that fails is reported once, in a warning, and again only after it has worked in between.
  explicit Writer(std::vector<std::shared_ptr<Sink>> sinks);
  /// close(kPatience)
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // May be called by several threads at once; they return at once.
  void write(Record record);
  void write(Maker maker);

  /// Waits until what was given so far is written (not synced). False: that took longer than this many
  /// seconds.
  bool catch_up(double seconds);

  static constexpr double kPatience = 10;
  /// Writes and syncs what waits, then ends. False: that took longer than this many seconds (a disk that does
  /// not answer); what still waited is lost, which is reported, and the thread is left behind with its sinks.
  /// Nothing given to the writer is used any more, except by a maker that does not return.
  bool close(double seconds);

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace banyan::metrics
