// ProcessWatch: what a process of a run knows of the others. Every one tells all others several times a
// second what it is doing; one that fails says so; one that says nothing is missed. On the thread of the
// wire.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/parallel/wire.hpp"
#include "banyan/parallel/worker_group.hpp"

namespace banyan::parallel {

/// Who a process is, as it tells the others in the beginning.
struct ProcessIdentity {
  std::string host;
  std::string machine;  ///< processes with the same one see each other's process IDs; "": unknown
  int pid = 0;

  std::string pack() const;
  static ProcessIdentity unpack(const std::string& packed);
};
/// This one.
ProcessIdentity identify(const std::string& host);

/// What a process tells the others now and then.
struct ProcessReport {
  bool any_waits = false, all_wait = false;
  std::string doing;  ///< of the device that the others are most likely to wait for
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
  /// True: this process was told to end from outside, which is also what becomes of those whose sibling died.
  std::function<bool()> told_to_stop = {};
  /// Only the silence of process 0 is a failure, but at the end.
  bool only_first_must_answer = false;
};

class ProcessWatch {
 public:
  using Clock = std::chrono::steady_clock;
  ProcessWatch(Wire& wire, int tag, std::vector<ProcessIdentity> processes, WatchOptions options);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  /// Sends reports when they are due and looks for those that are missing. `report` is called if one is due.
  void tick(const std::function<ProcessReport()>& report);
  /// Failures of others that became known since the last call.
  std::vector<ProcessFailure> take_failures();
  OtherDevices others() const;
  /// Seconds since another process was last heard of.
  double silence_of(int process) const;
  /// "process 2 on host b"
  std::string name_of(int process) const;
  const std::vector<ProcessIdentity>& processes() const { return processes_; }

  /// Tells all others that `process`, this one or one that cannot tell it itself, has failed.
  void tell(int process, const Error& error);
  /// This process has nothing more to say; it still listens until the others say the same.
  void say_goodbye();
  bool all_said_goodbye() const;
  /// What was told has left, so that the wire may go.
  bool all_sent() const;

 private:
  static constexpr std::size_t kMostText = 4000;
  enum class NewsKind : std::uint8_t { report, failure, goodbye };
  struct News {
    NewsKind kind = NewsKind::report;
    int process = 0;  ///< that has failed
    ErrorKind error = ErrorKind::runtime;
    bool any_waits = false, all_wait = false;
    char text[kMostText] = "";
  };
  struct Peer {
    News in;                     ///< being received
    std::array<News, 2> out;     ///< reports and goodbye; failure
    std::array<bool, 2> busy{};  ///< out is being sent
    std::string doing;
    bool any_waits = false, all_wait = false;
    bool gone = false;  ///< said goodbye, or is known to have failed
    bool owes_goodbye = false;
    Clock::time_point heard;
    int pid_descriptor = -1;  ///< readable when the process has ended
    std::optional<Clock::time_point> ended;
    bool ended_before = false;  ///< while this process was stopped: the others have told it long ago
  };
  int me() const { return wire_.process(); }
  void listen(int process);
  void heard_from(int process);
  void send(int process, std::size_t channel, NewsKind kind, std::size_t text_bytes);
  void look(int process, Clock::time_point now, bool told_to_stop);
  void give_up(int process, const std::string& why, Clock::time_point now);
  bool anybody_waits() const;

  Wire& wire_;
  int tag_;
  std::vector<ProcessIdentity> processes_;
  WatchOptions options_;
  std::vector<Peer> peers_;  ///< by process; this one's is not used
  std::vector<ProcessFailure> failures_;
  ProcessReport mine_;
  Clock::time_point looked_, reported_;
  std::optional<Clock::time_point> told_;  ///< to stop
  bool leaving_ = false, failed_ = false;
  int parent_;
};

}  // namespace banyan::parallel
