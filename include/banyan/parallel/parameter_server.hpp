// A parameter server: process 0 holds the parameters, the others (workers) compute differences. With several
// servers each holds some pieces of the parameters (further_server.hpp); the first one decides for all. In a
// tree inner servers are between: towards process 0 each is a ServerWorker whose difference is the sum of
// what its own workers sent it, to which it is a ParameterServer.
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
// heard of, or whose data do not arrive, is taken out: nobody waits for it and it gets no task until that is
// over. One that has ended (WireProtocol::lost) is taken out for good, and others get its tasks. Spares are
// workers without tasks: one takes the place of a worker that is taken out. A worker that comes back when its
// place is taken is a spare.
//
// Both sides are state machines on the wire of a WireUplink (wire_protocol.hpp), one for all workers, and are
// tested on a simulated one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "banyan/parallel/difference_coding.hpp"
#include "banyan/parallel/server_layout.hpp"
#include "banyan/parallel/uplink.hpp"
#include "banyan/parallel/wire_protocol.hpp"

namespace banyan::parallel {

struct ServerHeader;
class ServerPost;

struct ServerRules {
  static constexpr double kForEver = std::numeric_limits<double>::infinity();
  double wait_seconds =
      kForEver;                 ///< from a round's first difference on; then the round ends without the rest
  int staleness = 0;            ///< a difference may be so many versions old
  double silent_seconds = 5;    ///< a worker of which nothing comes for so long (Absence) is taken out
  double lost_seconds = 0;      ///< nothing of anybody for so long is a failure; 0: never
  std::int64_t first_task = 0;  ///< number of the first task
  double report_seconds = 0;    ///< from one line in the log to the next; 0: none
  bool squares = false;         ///< further servers say how large each round's gradient is
  int spares = 0;               ///< of the workers, the last ones, as it begins
  std::vector<std::string> names;  ///< of all processes
  int process = 0;                 ///< this one
  std::vector<int> below = {};     ///< in a tree, the root's: workers below each inner server
  bool inner =
      false;  ///< in a tree: tasks come from above, by give_tasks(), and nothing of anybody is no failure
};

/// What a server has counted.
struct ServerCounts {
  std::int64_t updates = 0, applied = 0, dropped = 0, tasks = 0;  ///< `applied`, `dropped`: differences
  std::vector<std::int64_t> ages;                                 ///< applied differences of each age
  std::int64_t taken_out = 0, taken_back = 0, joined = 0;  ///< workers; `joined`: spares that got a place
  std::uint64_t received = 0, saved = 0;                   ///< bytes of differences; saved by compression
};
/// `ages: 0: 12, 1: 3`, and so on.
std::string describe(const ServerCounts& counts);

/// What a server keeps for each of its pieces, besides what workers see.
enum class ServerState : std::uint8_t { values, gradient, history, history2, cosines };

class ParameterServer : public WireProtocol {
 public:
  using Check = std::function<void()>;  ///< called now and then while something waits; throws to end the wait
  /// A worker's difference, which stays until publish().
  struct Difference {
    int worker = 0;  ///< process
    int count = 1;   ///< of an inner server: workers' differences that it is the sum of; the loss is, too
    std::int64_t task = 0, age = 0;
    std::int64_t version = 0;  ///< of the parameters; the oldest ones, if there are several
    double loss = 0;
    const char* values = nullptr;      ///< of the layout's type: the pieces held here, one after the other
    const char* statistics = nullptr;  ///< nullptr: there are none
  };

  /// For these processes: workers, or inner servers. The layout's other holders are further servers.
  ParameterServer(ServerLayout layout, ServerRules rules, const std::vector<int>& workers);
  ~ParameterServer() override;

  // On the thread of the solver.

  /// The flat parameters of `version`: the differences of the last round have been used. Only the first time
  /// those that are held elsewhere are read, too, and sent there. `make_rest`, called if it is needed, gives
  /// what workers get with their first task.
  void publish(std::int64_t version, const char* values, const std::function<std::vector<char>()>& make_rest);
  /// The differences of the round, by process, once it is complete; nothing before. The further servers begin
  /// to average theirs.
  std::optional<std::vector<Difference>> try_round();
  /// Nothing, if end() was called meanwhile.
  std::vector<Difference> wait_for_round(const Check& check);
  /// With ServerRules::inner: the numbers of so many tasks from this one on.
  void give_tasks(std::int64_t first, int count);
  /// With ServerRules::squares, after a round: fills in those of the pieces that are held elsewhere.
  void wait_for_squares(std::vector<double>& by_piece, const Check& check);
  /// The further servers make their step of the solver, before publish().
  void update_further(std::int64_t iteration, double rate, double factor);
  /// Every piece that is held elsewhere is taken, as it is after the last step.
  using TakePiece = std::function<void(ServerState, std::size_t piece, const char* data, std::size_t bytes)>;
  void fetch(const std::vector<ServerState>& what, const TakePiece& take, const Check& check);
  /// Every worker is told that there is nothing more to do.
  void end();
  /// The same for the further servers, when nothing will be fetched any more.
  void end_further();
  ServerCounts counts() const;
  /// Workers with a place that are not out.
  int workers_in() const;
  /// None of the workers is heard of. On the thread of the wire.
  bool forsaken() const;

  void join(Wire& wire, std::function<void()> wake) override;
  bool step(Clock::time_point now, const Silence& silence) override;
  void lost(int process, const std::string& how) override;
  bool waits() const override { return true; }
  bool quiet() const override;

 private:
  class State;
  std::unique_ptr<State> state_;
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

  /// What a worker knows of those that serve it.
  struct Serving {
    int first = 0;                        ///< the server that hands out its tasks
    double lost_seconds = 0;              ///< another not heard of for longer is a failure; 0: never
    std::vector<std::string> names = {};  ///< of all processes
  };

  /// Messages of `devices` devices; `host`: allocates where values arrive.
  ServerWorker(ServerLayout layout, Serving serving, const Compression& compression, int devices,
               Device& host);
  ~ServerWorker() override;

  // On the threads of devices.

  /// There are devices that compute: asks for the first task. On one of them.
  void begin_work();
  /// The task whose values are there; waits for the first one. `check`: see ParameterServer.
  Task wait_for_first(const std::function<void()>& check);
  /// The task whose values came with the last bucket.
  Task task() const;
  /// The values of task() are there, or it is the end.
  bool has_task() const;
  /// Values of a piece, in host memory: valid until the piece is begun again.
  const char* values(int piece) const;
  /// What came with the first task.
  const std::vector<char>& rest() const { return rest_; }
  /// Every device's part of the task's loss, before its last bucket is waited for; and the running
  /// statistics, by one of them.
  void note_loss(double loss, std::vector<char> statistics = {});
  /// What an inner server has gathered for its task.
  struct Sum {
    int count = 1;             ///< differences
    int dropped = 0;           ///< meanwhile
    std::int64_t version = 0;  ///< the oldest one
  };
  /// The same of an inner server: sums of losses and statistics.
  void note_sum(const Sum& sum, double loss, std::vector<char> statistics);

  /// An inner server says whether none of its workers is heard of. On the thread of the wire.
  void tell_forsaken(bool forsaken);

  /// No device calls it any more: gives back what belongs to devices.
  void release();

  const UplinkPlace& place() const override { return place_; }
  void begin(int slot, Tensor& message, UplinkMerge merge, const Meeting& meeting, ProcessRange among,
             Context& context, Doorbell& bell) override;
  bool done(int slot, Context& context) override;
  bool needs_all() const override { return true; }

  void join(Wire& wire, std::function<void()> wake) override;
  bool step(Clock::time_point now, const Silence& silence) override;
  int server() const override { return serving_.first; }
  bool waits() const override;
  bool quiet() const override;

 private:
  struct Piece;
  void listen(int server);
  void handle(int server, std::size_t bytes);
  void take_values(const ServerHeader& header, const char* data, std::size_t bytes);
  void note_arrival();
  bool is_there() const { return said_ready_ && !awaiting_; }  ///< task_, or the end
  bool send_pieces();
  bool send_done();
  void miss_servers(const Silence& silence) const;

  const ServerLayout layout_;
  const Serving serving_;
  const int devices_;
  const UplinkPlace place_;
  const std::unique_ptr<ServerPost> post_;
  Wire* wire_ = nullptr;
  std::function<void()> wake_;
  std::map<int, std::vector<char>> in_;  ///< by server
  std::shared_ptr<void> values_;         ///< all pieces
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex:
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::vector<char> rest_, statistics_;
  Task task_, arriving_;
  bool working_ = false, said_ready_ = false, awaiting_ = false;
  bool forsaken_ = false;    ///< as told
  std::size_t missing_ = 0;  ///< of the next task: itself and its values
  int pieces_to_send_ = 0, losses_ = 0;
  double loss_ = 0;
  std::optional<Sum> sum_;
};

}  // namespace banyan::parallel
