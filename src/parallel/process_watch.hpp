// ProcessWatch: what a process of a run knows of the others. Every one tells all others several times a
// second what it is doing; one that fails says so; one that says nothing is missed.
//
// Two threads share it. That of the wire sends and listens; another one judges, so that a library that does
// not return from a call, as some do when a connection breaks, keeps nobody from saying what has happened.
// (Where the call returns with an error instead, the first one judges too: it may be the quicker one.)
//
// How a process comes to its end, and what the others hear of it:
//
//   here ──────> leaving ──────> ready ──────> gone         failed: from any of them
//       begin_to_leave()  quiet       all are ready
//
// Reports and failures travel in both directions until it is gone: until then it is heard, and judged. Its
// goodbye is the last that it says, and says it when all are ready: nobody needs it any more then.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/parallel/wire.hpp"
#include "banyan/parallel/wire_protocol.hpp"
#include "banyan/parallel/worker_group.hpp"

namespace banyan::parallel {

/// Who a process is, as it tells the others in the beginning.
struct ProcessIdentity {
  std::string host;
  std::string machine;  ///< processes with the same one see each other's process IDs; "": unknown
  int pid = 0;

  /// The same for processes of one host, which is told by its name and by when it started: names such as
  /// "localhost" are those of many.
  std::string site() const;
  std::string pack() const;
  static ProcessIdentity unpack(const std::string& packed);
};
/// This one.
ProcessIdentity identify(const std::string& host);

/// What a process tells the others now and then.
struct ProcessReport {
  bool any_waits = false, all_wait = false;
  bool shares = false;      ///< texts with all others, none of whom can be done without
  std::uint64_t moves = 0;  ///< messages of exchanges that have come or left
  double stuck = 0;         ///< seconds for which one of its devices has got nothing from its data
  std::string doing;        ///< of the device that the others are most likely to wait for
};

/// The failure of a process.
struct ProcessFailure {
  int process = 0;
  Error error{ErrorKind::runtime, ""};
  bool told = false;  ///< by itself, or by others before this process could notice
};

struct WatchOptions {
  double beat_seconds = 0.1;
  double silence_seconds = 0;  ///< nothing heard for so long while others wait is a failure; 0: never
  /// True: this process was told to end from outside, which is what becomes of those whose sibling died.
  std::function<bool()> told_to_end = {};
  /// Process 0 serves the others. They judge nobody's silence but its, and it judges theirs at the end only,
  /// except while all share something. When it is ready to go everybody judges everybody, a little later:
  /// links may be cut that it does not see.
  bool served_by_first = false;
  /// The run can do without the processes from this one on, and the wire outlives them (lose()); nothing: it
  /// needs all.
  std::optional<int> dispensable_from = {};
};

class ProcessWatch {
 public:
  using Clock = std::chrono::steady_clock;
  ProcessWatch(Wire& wire, int tag, std::vector<ProcessIdentity> processes, WatchOptions options);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // On the thread of the wire.
  /// Sends what is due. `report` is called if a report is.
  void tick(const std::function<ProcessReport()>& report);
  /// Tells all others that `process`, this one or one that cannot tell it itself, has failed.
  void tell(int process, const Error& error);
  /// This process would go. Until all others are ready too it still reports, listens and judges.
  void begin_to_leave();
  /// The next step to the end, `quiet` if nothing else of this process is under way. True: everybody has said
  /// the last word, so that the wire may go.
  bool leave(bool quiet);
  /// The wire has lost this process. One that is needed has failed then, unless it has told a failure or its
  /// goodbye, or nobody needs anybody any more. Without another one the run goes on: what is known of its end
  /// is returned.
  std::optional<std::string> lose(int process);
  /// What was told has left for those who can still hear it.
  bool all_sent() const;

  // On any thread.
  /// Looks for processes that are missing. `deaf`: nothing will be heard of any of them any more.
  void judge(bool deaf = false);
  /// Process `server` is between this one and process 0, which serves all: where it is heard of, process 0
  /// need not be.
  void set_server(int server);
  /// A message from this process has come that is not the watch's: it lives, however long its report is on
  /// the way behind such messages.
  void note_message(int from);
  /// Failures that became known since the last call.
  std::vector<ProcessFailure> take_failures();
  OtherDevices others() const;
  /// Does another process, as far as it is heard of, wait for a text of this one?
  bool others_share() const;
  /// Seconds since another process was last heard of; those in which this one did not listen do not count.
  double silence_of(int process) const;
  Absence absence_of(int process) const;
  /// Known for processes of this machine only; false: it has not, or is elsewhere.
  bool has_ended(int process) const;
  /// "process 2 on host b"
  std::string name_of(int process) const;
  const std::vector<ProcessIdentity>& processes() const { return processes_; }

 private:
  static constexpr std::size_t kMostText = 4000;
  enum class NewsKind : std::uint8_t { report, failure, ready, goodbye };
  struct News {
    NewsKind kind = NewsKind::report;
    int process = 0;  ///< that has failed
    ErrorKind error = ErrorKind::runtime;
    bool any_waits = false, all_wait = false, shares = false;
    std::uint64_t moves = 0;
    double stuck = 0;
    char text[kMostText] = "";
  };
  struct Peer {
    // The wire's thread's:
    News in;                     ///< being received
    std::array<News, 2> out;     ///< all but failures; failures
    std::array<bool, 2> busy{};  ///< out is being sent
    bool owes_ready = false, owes_goodbye = false;
    // Under the mutex:
    std::string doing;
    bool any_waits = false, all_wait = false, shares = false;
    std::uint64_t moves = 0;
    double stuck = 0;
    std::optional<Clock::time_point> ready;  ///< since when
    bool gone = false, failed = false;
    bool lost = false;  ///< and not missed
    bool told = false;  ///< its failure itself: it is there to hear of others'
    Clock::time_point heard;
    std::optional<Clock::time_point> ended;
    bool ended_before = false;  ///< while this process was stopped: the others have told it long ago
    // Constant:
    int pid_descriptor = -1;  ///< readable when the process has ended
    bool over() const { return gone || failed || lost; }
  };
  void listen(int process);
  void heard_from(int process);
  void send(int process, std::size_t channel, NewsKind kind, std::size_t text_bytes);
  void send_report(int process, const ProcessReport& report);
  // Under the mutex:
  /// Processes that are missed, and why.
  struct Missed {
    std::vector<int> processes;
    bool at_the_end = false;  ///< this process was told to end
  };
  void look(int process, Clock::time_point now, bool told_to_end, bool deaf, Missed& missed);
  void look_at_wire(Clock::time_point now, bool told_to_end);
  bool words_are_heard(const Peer& peer) const;
  bool is_dispensable(int process) const;
  void give_up(const std::vector<int>& processes, const std::string& why);
  void give_up(const Missed& missed);
  std::string names(const std::vector<int>& processes, const char* last) const;
  double beat() const;  ///< seconds between two reports
  double silence(const Peer& peer) const;
  bool is_heard(const Peer& peer) const;
  bool judges_silence_of(int process) const;
  bool anybody_waits() const;

  Wire& wire_;
  const int me_;
  int tag_;
  std::vector<ProcessIdentity> processes_;
  WatchOptions options_;
  std::vector<Peer> peers_;  ///< by process; of this one's only what others tell of its failure
  // The wire's thread's:
  Clock::time_point reported_;
  bool said_ready_ = false, said_goodbye_ = false, owing_ = false;
  mutable std::mutex mutex_;
  // Under it:
  std::vector<ProcessFailure> failures_;
  ProcessReport mine_;
  int server_ = 0;
  Clock::time_point ticked_, judged_;
  Clock::time_point last_tick_, polled_;   ///< polled_: what had come before then has been heard
  Clock::time_point moved_;                ///< when a message of an exchange has, anywhere
  std::optional<Clock::time_point> told_;  ///< to end
  bool leaving_ = false, left_ = false, failed_ = false;
  bool may_end_ = false;  ///< others, before their goodbyes come: all are ready, and know it
  int parent_;
};

}  // namespace banyan::parallel
