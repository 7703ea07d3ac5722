// The Wire over MPI: MPI_Isend, MPI_Irecv and MPI_Testsome. MPI is initialized
// and finalized here, and used by one thread only.
//
// Where Open MPI 5 was started with its ULFM (mpirun --with-ft ulfm), a process that ends makes the transfers
// to and from it fail, and no others. The headers of Open MPI 4 do not know that, but its libmpi.so.40 has
// the same name as that of Open MPI 5, so what is built with either may run with either: whether there is
// ULFM is asked for, and its error told, by names that do not need a header.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "parallel/mpi_backend.hpp"

namespace banyan::parallel {
namespace {

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

void check(int code, const char* what) {
  if (code != MPI_SUCCESS) runtime_failure("MPI: ", what, ": ", text_of(code));
}

void check(int code, const char* what, int process) {
  if (code != MPI_SUCCESS) runtime_failure("MPI: ", what, " process ", process, ": ", text_of(code));
}

/// Does the other process's end, and nothing else, make transfers fail with this code?
bool is_end_of_process(int code) {
  const std::string name = "MPI_ERR_PROC_FAILED", text = text_of(code);
  return text.starts_with(name) && !text.starts_with(name + "_");
}

/// Is ULFM on? A setting of Open MPI's that others do not have.
bool has_fault_tolerance() {
  int provided = MPI_THREAD_SINGLE, index = 0, count = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return false;
  std::array<unsigned char, 64> value{};  // a bool or an int, as versions differ
  MPI_T_cvar_handle handle = nullptr;
  if (MPI_T_cvar_get_index("mpi_ft_enable", &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    if (count == 1) MPI_T_cvar_read(handle, value.data());
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return std::any_of(value.begin(), value.end(), [](unsigned char byte) { return byte != 0; });
}

class MpiWire : public Wire {
 public:
  MpiWire() {
    int initialized = 0, provided = MPI_THREAD_SINGLE;
    MPI_Initialized(&initialized);
    if (initialized != 0) runtime_failure("MPI has been initialized before");
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "initialization");
    if (provided < MPI_THREAD_FUNNELED)
      runtime_failure("MPI: this build of it does not allow programs with threads");
    check(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN), "setting the error handler");
    check(MPI_Comm_rank(world_, &process_), "rank");
    check(MPI_Comm_size(world_, &processes_), "size");
    void* value = nullptr;
    int found = 0;
    check(MPI_Comm_get_attr(world_, MPI_TAG_UB, &value, &found), "tags");
    last_tag_ = found != 0 ? *static_cast<int*>(value) : 32767;
    peers_.resize(static_cast<std::size_t>(processes_));
    outlives_ = has_fault_tolerance();
  }
  // Without leave() MPI is left as it is: to finalize it waits for all processes.

  int process() const override { return process_; }
  int processes() const override { return processes_; }
  int last_tag() const override { return last_tag_; }

  bool outlives_processes() const override { return outlives_; }
  void on_lost(Lost lost) override { lost_ = std::move(lost); }

  void send(int to, int tag, const void* data, std::size_t bytes, Done done) override {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = peer(to).lost
                         ? MPI_SUCCESS
                         : MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, world_, &request);
    begin(code, "sending to", request, {std::move(done), to, bytes, false});
  }

  void receive(int from, int tag, void* data, std::size_t bytes, Done done) override {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = peer(from).lost
                         ? MPI_SUCCESS
                         : MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, world_, &request);
    begin(code, "receiving from", request, {std::move(done), from, bytes, true});
  }

  bool progress() override {
    const Clock::time_point now = Clock::now();
    const int calls = now - std::exchange(last_, now) < kOften ? kFewCalls : kCalls;
    for (int call = 0; call < calls && done_.empty() && failed_.empty(); ++call) find_done();
    const bool any = !done_.empty() || !failed_.empty();
    while (!done_.empty()) {
      // Out of the list first: it may throw, and it may call send() and receive().
      const auto [done, bytes] = std::move(done_.front());
      done_.pop_front();
      if (done) done(bytes);
    }
    // After the others, one of which may be the cause, told by another process.
    if (!failed_.empty()) runtime_failure(std::exchange(failed_, ""));
    return tell_lost() || any;
  }

  void leave() override {
    for (MPI_Request& request : requests_) {
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    requests_.clear();
    transfers_.clear();
    // Where two processes have ended at about the same time, MPI_Finalize of Open MPI 5.0.11 may wait for
    // them for ever. mpirun does not mind if it is left out where there is fault tolerance.
    if (!outlives_) check(MPI_Finalize(), "finalization");
  }

 private:
  using Clock = std::chrono::steady_clock;
  /// Open MPI looks at its sockets in every eighth call only: all are made at once unless the thread calls
  /// progress() so often that they come anyway.
  static constexpr int kCalls = 8;
  /// Even then two: what ends in a call is told by the next one.
  static constexpr int kFewCalls = 2;
  static constexpr std::chrono::microseconds kOften{20};

  struct Transfer {
    Done done;
    int process;  ///< the other one
    std::size_t bytes;
    bool received;
    bool told = false;  ///< MPI has said how it ended
  };
  struct Peer {
    bool ended = false;  ///< a transfer has failed because of that
    bool lost = false;   ///< and none is under way any more
  };
  Peer& peer(int process) { return peers_[static_cast<std::size_t>(process)]; }

  /// MPI has begun a transfer, or has not, as `code` says; with a process that is lost there is no request.
  void begin(int code, const char* what, MPI_Request request, Transfer transfer) {
    if (outlives_ && code != MPI_SUCCESS && is_end_of_process(code)) return end(transfer);
    check(code, what, transfer.process);
    if (peer(transfer.process).lost) return end(transfer);
    requests_.push_back(request);
    transfers_.push_back(std::move(transfer));
  }
  /// Of a process that has ended.
  void end(Transfer& transfer) {
    peer(transfer.process).ended = true;
    if (!transfer.received) done_.emplace_back(std::move(transfer.done), transfer.bytes);
  }

  /// When a transfer has failed, Open MPI also takes back the requests of those that have failed since it
  /// looked at them, without a word: nobody would hear that they are over.
  void end_untold(Transfer& transfer) {
    if (outlives_) return end(transfer);
    if (failed_.empty()) failed_ = cat("MPI: a message with process ", transfer.process, " has failed");
  }

  /// Once MPI has given back all memory that transfers with the process use.
  bool tell_lost() {
    bool any = false;
    for (int process = 0; process < processes_; ++process) {
      if (!peer(process).ended || peer(process).lost) continue;
      if (std::any_of(transfers_.begin(), transfers_.end(),
                      [process](const Transfer& transfer) { return transfer.process == process; }))
        continue;
      if (!lost_) runtime_failure("process ", process, " was killed, or has ended without a word");
      any = peer(process).lost = true;
      lost_(process);
    }
    return any;
  }

  void find_done() {
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int count = 0;
    const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                  indices_.data(), statuses_.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check(code, "waiting");
    if (count == MPI_UNDEFINED || count == 0) return;
    for (int i = 0; i < count; ++i) {
      const MPI_Status& status = statuses_[i];
      Transfer& transfer = transfers_[indices_[i]];
      transfer.told = true;
      int bytes = static_cast<int>(transfer.bytes), error = MPI_SUCCESS;
      if (code == MPI_ERR_IN_STATUS) error = status.MPI_ERROR;
      if (error == MPI_SUCCESS && transfer.received) error = MPI_Get_count(&status, MPI_BYTE, &bytes);
      if (error != MPI_SUCCESS && outlives_ && is_end_of_process(error)) {
        end(transfer);
        requests_[indices_[i]] = MPI_REQUEST_NULL;
        continue;
      }
      if (error != MPI_SUCCESS) {
        if (failed_.empty())
          failed_ = cat("MPI: a message with process ", transfer.process, ": ", text_of(error));
        // Or the next call would report it again: what can still be told to others would not leave.
        requests_[indices_[i]] = MPI_REQUEST_NULL;
        continue;
      }
      done_.emplace_back(std::move(transfer.done), static_cast<std::size_t>(bytes));
    }
    // In the order in which they were begun, so that MPI looks at old ones first.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) {
        if (!transfers_[i].told) end_untold(transfers_[i]);
        continue;
      }
      if (kept != i) {
        requests_[kept] = requests_[i];
        transfers_[kept] = std::move(transfers_[i]);
      }
      ++kept;
    }
    requests_.resize(kept);
    transfers_.resize(kept);
  }

  /// A communicator of its own would need everybody to be there before it could be said who is not.
  const MPI_Comm world_ = MPI_COMM_WORLD;
  int process_ = 0, processes_ = 1, last_tag_ = 0;
  bool outlives_ = false;
  std::vector<Peer> peers_;  ///< by process
  Lost lost_;
  std::vector<MPI_Request> requests_;
  std::vector<Transfer> transfers_;  ///< of the requests
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  Clock::time_point last_;
  std::deque<std::pair<Done, std::size_t>> done_;
  std::string failed_;  ///< what is to be thrown; "": nothing
};

std::string versions() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));  // "Open MPI v4.1.4, package: ..."
}

std::unique_ptr<Wire> connect() { return std::make_unique<MpiWire>(); }

constexpr MpiBackend kTable{MpiBackend::kVersion, &versions, &connect};

}  // namespace
}  // namespace banyan::parallel

extern "C" const banyan::parallel::MpiBackend* banyan_mpi_backend() { return &banyan::parallel::kTable; }
