// A parameter server: process 0 holds the parameters, the others (workers) compute differences.
//
//        worker                                server
//          ready                    ──────>     queue of idle workers
//                                   <──────     task: number, version of the parameters, the next task's number
//                                   <──────     values, piece by piece
//   forward
//   backward: piece of difference   ──────>
//             ...                   ──────>     when all expected differences are there, or the time is over:
//             done: loss, statistics ─────>     mean of the differences, one step of the solver, version + 1
//                                   <──────     task ...
//
// A task's number says which batches it takes, so that no two workers ever take the same. The next task of a
// worker is told along with its task: it reads that batch while it computes and waits. Every round ends with
// an update and makes a version. A difference was computed with the parameters of some version; how many
// versions have been made since is its age. One that is too old is dropped and counted. A worker that is not
// heard of is taken out: nobody waits for it and it gets no task until it is heard of again.
//
// Both sides are state machines on the wire of a WireUplink (wire_protocol.hpp), one for all workers, and are
// tested on a simulated one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "banyan/parallel/difference_coding.hpp"
#include "banyan/parallel/uplink.hpp"
#include "banyan/parallel/wire_protocol.hpp"

namespace banyan::parallel {

/// What server and workers know alike.
struct ServerLayout {
  DType type = DType::f32;
  std::vector<std::int64_t> pieces;  ///< values in each, in the order of the flat parameters
  std::size_t rest_bytes = 0;        ///< parameters that are not learned, running statistics included
  std::size_t statistics_bytes = 0;  ///< running statistics
  std::uint64_t checksum = 0;        ///< of all that must be alike

  std::int64_t count() const;
  std::size_t piece_bytes(std::size_t piece) const;
  std::size_t largest_piece() const;  ///< bytes
};

struct ServerRules {
  static constexpr double kForEver = std::numeric_limits<double>::infinity();
  double wait_seconds =
      kForEver;                 ///< from a round's first difference on; then the round ends without the rest
  int staleness = 0;            ///< a difference may be so many versions old
  double silent_seconds = 5;    ///< a worker that is not heard of for so long is taken out
  double lost_seconds = 0;      ///< nobody heard of for so long is a failure; 0: never
  std::int64_t first_task = 0;  ///< number of the first task
  double report_seconds = 0;    ///< from one line in the log to the next; 0: none
  std::vector<std::string> names;  ///< of the processes; [0] is the server
};

/// What a server has counted.
struct ServerCounts {
  std::int64_t updates = 0, applied = 0, dropped = 0, tasks = 0;  ///< `applied`, `dropped`: differences
  std::vector<std::int64_t> ages;                                 ///< applied differences of each age
  std::int64_t taken_out = 0, taken_back = 0;                     ///< workers
  std::uint64_t received = 0, saved = 0;  ///< bytes of differences; saved by compression
};
/// `ages: 0: 12, 1: 3`, and so on.
std::string describe(const ServerCounts& counts);

class ParameterServer : public WireProtocol {
 public:
  /// A worker's difference, which stays until publish().
  struct Difference {
    int worker = 0;  ///< process
    std::int64_t task = 0, age = 0;
    double loss = 0;
    const char* values = nullptr;      ///< of the layout's type
    const char* statistics = nullptr;  ///< nullptr: there are none
  };

  /// `workers` are processes 1 to that number.
  ParameterServer(ServerLayout layout, ServerRules rules, int workers);
  ~ParameterServer() override;

  // On the thread of the solver.

  /// The parameters of `version`: the differences of the last round have been used. `make_rest`, called if it
  /// is needed, gives what workers get with their first task.
  void publish(std::int64_t version, const char* values, const std::function<std::vector<char>()>& make_rest);
  /// The differences of the round, by process, once it is complete; nothing before.
  std::optional<std::vector<Difference>> try_round();
  /// Waits for it; `check` is called now and then, and throws to end the wait.
  std::vector<Difference> wait_for_round(const std::function<void()>& check);
  /// Every worker is told that there is nothing more to do.
  void end();
  ServerCounts counts() const;
  /// Workers that are not out.
  int workers_in() const;

  void join(Wire& wire, std::function<void()> wake) override;
  bool step(Clock::time_point now, const Silence& silence) override;
  bool waits() const override { return true; }
  bool quiet() const override;

 private:
  enum class State : std::uint8_t { absent, idle, busy, full, taken };
  struct Worker;
  struct Version;
  void listen(int process);
  void handle(int process, std::size_t bytes);
  void take_piece(Worker& worker, int piece, const char* data, std::size_t bytes);
  void look(int process, double silence);
  void settle(Clock::time_point now);
  void hand_out();
  void send_task(int process);
  void tell_end();
  bool round_is_complete(Clock::time_point now) const;
  void send(int process, std::shared_ptr<const std::vector<char>> message);
  void report(Clock::time_point now);
  const std::string& name_of(int process) const { return rules_.names[static_cast<std::size_t>(process)]; }

  const ServerLayout layout_;
  const ServerRules rules_;
  Wire* wire_ = nullptr;
  std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex:
  std::vector<std::unique_ptr<Worker>> workers_;  ///< by process; [0] is nullptr
  std::shared_ptr<const Version> version_;        ///< nullptr: none yet
  bool computing_ = true;                         ///< the solver has the round
  bool complete_ = false;                         ///< the round, for try_round()
  bool ending_ = false, started_ = false;
  std::int64_t next_task_;
  std::optional<Clock::time_point> first_arrived_;  ///< in this round
  int sending_ = 0;
  ServerCounts counts_;
  // Of the thread of the wire:
  Clock::time_point reported_;
  std::optional<ServerCounts> reported_counts_;
};

/// The worker's end, and what is above its device tree: a bucket begun here goes to the server, and is done
/// when the parameters of the next task are there.
class ServerWorker : public WireProtocol, public RootParent {
 public:
  struct Task {
    std::int64_t number = 0, next = 0, version = 0;
    std::int64_t first = 0;  ///< number of the first task of the run
    bool end = false;        ///< there are none any more
  };

  /// Messages of `devices` devices; `host`: allocates where values arrive.
  ServerWorker(ServerLayout layout, const Compression& compression, int devices, Device& host);
  ~ServerWorker() override;

  // On the threads of devices.

  /// There are devices that compute: asks for the first task. On one of them.
  void begin_work();
  /// The task whose values are there; waits for the first one. `check`: see ParameterServer.
  Task wait_for_first(const std::function<void()>& check);
  /// The task whose values came with the last bucket.
  Task task() const;
  /// Values of a piece, in host memory: valid until the piece is begun again.
  const char* values(int piece) const;
  /// What came with the first task.
  const std::vector<char>& rest() const { return rest_; }
  /// Every device's part of the task's loss, before its last bucket is waited for; and the running
  /// statistics, by one of them.
  void note_loss(double loss, std::vector<char> statistics = {});

  /// No device calls it any more: gives back what belongs to devices.
  void release();

  const UplinkPlace& place() const override { return place_; }
  void begin(int slot, Tensor& message, UplinkMerge merge, const Meeting& meeting, ProcessRange among,
             Context& context, Doorbell& bell) override;
  bool done(int slot, Context& context) override;
  bool needs_all() const override { return true; }

  void join(Wire& wire, std::function<void()> wake) override;
  bool step(Clock::time_point now, const Silence& silence) override;
  bool waits() const override;
  bool quiet() const override;

 private:
  struct Piece;
  void listen();
  void handle(std::size_t bytes);
  bool send_pieces();
  bool send_done();
  void send(std::vector<char> message);

  const ServerLayout layout_;
  const int devices_;
  const UplinkPlace place_;
  Wire* wire_ = nullptr;
  std::function<void()> wake_;
  std::vector<char> in_;
  std::shared_ptr<void> values_;  ///< all pieces
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex:
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::vector<char> rest_, statistics_;
  Task task_, arriving_;
  bool working_ = false, said_ready_ = false, awaiting_ = false;
  int values_missing_ = 0, pieces_to_send_ = 0, losses_ = 0, sending_ = 0;
  double loss_ = 0;
};

}  // namespace banyan::parallel
