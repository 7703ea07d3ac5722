// A wire through memory: joins threads of one test as if each were a process. It can be slow, and be cut.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/parallel/wire_uplink.hpp"

namespace banyan::parallel {

/// Shared by the processes. Outlives their wires.
class MemoryHub {
 public:
  /// `devices[p]` of process p. A message takes up to `delay_us`, drawn by a generator that begins with
  /// `seed`.
  explicit MemoryHub(std::vector<int> devices, int delay_us = 0, unsigned seed = 1)
      : devices_(std::move(devices)),
        delay_us_(delay_us),
        random_(seed),
        cut_(devices_.size()),
        held_up_(devices_.size()),
        killed_(devices_.size()),
        bytes_(devices_.size()) {}
  int processes() const { return static_cast<int>(devices_.size()); }
  /// Sent so far, those of the first handshake included.
  std::uint64_t messages() const { return messages_; }
  /// That this process has sent so far.
  std::uint64_t bytes_of(int process) const { return bytes_[static_cast<std::size_t>(process)]; }
  /// From now on each process sends one message after the other at this speed, and each then takes
  /// `latency_s`.
  void slow_down(double bytes_per_s, double latency_s) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bytes_per_s_ = bytes_per_s;
    latency_s_ = latency_s;
    free_.assign(devices_.size(), Clock::now());
  }
  /// From now on nothing leaves this process or comes to it.
  void cut_off(int process) { cut_[process] = true; }
  /// The wires outlive processes. Before the processes join.
  void outlive_processes() { outlives_ = true; }
  /// As if this process had ended: nothing leaves it any more, and the others are told.
  void kill(int process) {
    cut_[process] = true;
    killed_[process] = true;
  }
  /// The same between these two only.
  void cut_between(int a, int b) {
    const std::lock_guard<std::mutex> lock(mutex_);
    cut_pairs_.insert(std::minmax(a, b));
  }
  void mend_between(int a, int b) {
    const std::lock_guard<std::mutex> lock(mutex_);
    cut_pairs_.erase(std::minmax(a, b));
  }
  /// From now on this process's thread does not return from progress().
  void hold_up(int process) { held_up_[process] = true; }

  /// Joins; on the thread of the process, because it waits for all others.
  std::unique_ptr<WireUplink> join(int process, WireUplinkOptions options = {});

 private:
  friend class MemoryWire;
  using Clock = std::chrono::steady_clock;
  struct Message {
    std::vector<char> bytes;
    Clock::time_point arrives;
  };
  struct Channel {
    std::deque<Message> messages;
    Clock::time_point last;  ///< arrives: no message overtakes another
  };

  static Clock::duration seconds(double count) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
  }
  /// Under the mutex: when a message of so many bytes that leaves now arrives.
  Clock::time_point arrival(int from, std::size_t bytes) {
    const auto delay = std::uniform_int_distribution<int>(0, delay_us_)(random_);
    Clock::time_point sent = Clock::now() + std::chrono::microseconds(delay);
    if (bytes_per_s_ > 0) {
      Clock::time_point& free = free_[static_cast<std::size_t>(from)];
      free = sent = std::max(free, sent) + seconds(static_cast<double>(bytes) / bytes_per_s_);
      sent += seconds(latency_s_);
    }
    return sent;
  }

  std::vector<int> devices_;
  int delay_us_;
  double bytes_per_s_ = 0, latency_s_ = 0;  ///< 0: no limit
  std::vector<Clock::time_point> free_;     ///< by process: when it may send again
  std::mutex mutex_;
  std::mt19937 random_;
  std::map<std::tuple<int, int, int>, Channel> channels_;  ///< from, to, tag
  std::atomic<std::uint64_t> messages_{0};
  std::deque<std::atomic<bool>> cut_, held_up_, killed_;
  bool outlives_ = false;
  std::deque<std::atomic<std::uint64_t>> bytes_;
  std::set<std::pair<int, int>> cut_pairs_;
};

class MemoryWire : public Wire {
 public:
  MemoryWire(MemoryHub& hub, int process) : hub_(hub), process_(process) {}
  int process() const override { return process_; }
  int processes() const override { return hub_.processes(); }
  int last_tag() const override { return 8'388'607; }  // of UCX
  bool outlives_processes() const override { return hub_.outlives_; }
  void on_lost(Lost lost) override { lost_ = std::move(lost); }

  void send(int to, int tag, const void* data, std::size_t bytes, Done done) override {
    ++hub_.messages_;
    if (!hub_.cut_[process_] && !hub_.cut_[to]) {
      const std::lock_guard<std::mutex> lock(hub_.mutex_);
      if (!hub_.cut_pairs_.contains(std::minmax(process_, to))) {
        MemoryHub::Channel& channel = hub_.channels_[{process_, to, tag}];
        channel.last = std::max(channel.last, hub_.arrival(process_, bytes));
        const char* first = static_cast<const char*>(data);
        channel.messages.push_back({std::vector<char>(first, first + bytes), channel.last});
      }
    }
    hub_.bytes_[static_cast<std::size_t>(process_)] += bytes;
    sent_.emplace_back(std::move(done), bytes);
  }

  void receive(int from, int tag, void* data, std::size_t bytes, Done done) override {
    waiting_.push_back({from, tag, data, bytes, std::move(done)});
  }

  bool progress() override {
    while (hub_.held_up_[process_]) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::deque<std::pair<Done, std::size_t>> done = std::exchange(sent_, {});
    std::vector<Receipt> still;
    for (Receipt& receipt : waiting_)
      if (!take(receipt, done)) still.push_back(std::move(receipt));
    waiting_ = std::move(still);
    for (auto& [call, bytes] : done)
      if (call) call(bytes);
    return notice_ends() || !done.empty();
  }

  void leave() override {}

 private:
  struct Receipt {
    int from, tag;
    void* data;
    std::size_t bytes;
    Done done;
  };
  /// What has arrived was handed over; a message to a process that has ended goes nowhere.
  bool notice_ends() {
    bool any = false;
    if (!hub_.outlives_) return false;
    for (int process = 0; process < processes(); ++process) {
      if (process == process_ || !hub_.killed_[process]) continue;
      std::erase_if(waiting_, [process](const Receipt& receipt) { return receipt.from == process; });
      if (!told_.insert(process).second) continue;
      any = true;
      lost_(process);
    }
    return any;
  }
  bool take(Receipt& receipt, std::deque<std::pair<Done, std::size_t>>& done) {
    const std::lock_guard<std::mutex> lock(hub_.mutex_);
    auto& messages = hub_.channels_[{receipt.from, process_, receipt.tag}].messages;
    if (messages.empty() || messages.front().arrives > MemoryHub::Clock::now() || hub_.cut_[process_])
      return false;
    const std::vector<char>& bytes = messages.front().bytes;
    if (bytes.size() > receipt.bytes)
      runtime_failure("a message of ", bytes.size(), " bytes arrived where at most ", receipt.bytes,
                      " were expected");
    std::memcpy(receipt.data, bytes.data(), bytes.size());
    done.emplace_back(std::move(receipt.done), bytes.size());
    messages.pop_front();
    return true;
  }

  MemoryHub& hub_;
  int process_;
  std::deque<std::pair<Done, std::size_t>> sent_;
  std::vector<Receipt> waiting_;
  Lost lost_;
  std::set<int> told_;  ///< processes that have ended
};

inline std::unique_ptr<WireUplink> MemoryHub::join(int process, WireUplinkOptions options) {
  if (options.host.empty()) options.host = "host" + std::to_string(process);
  auto uplink = std::make_unique<WireUplink>(
      [this, process] { return std::make_unique<MemoryWire>(*this, process); }, options);
  uplink->bring(devices_[process]);
  return uplink;
}

}  // namespace banyan::parallel
