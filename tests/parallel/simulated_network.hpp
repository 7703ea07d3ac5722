// Processes and their wires in one thread, with a clock that a test moves: messages take random times,
// processes stop or end, links are cut, data do not arrive.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/parallel/wire.hpp"
#include "banyan/parallel/wire_protocol.hpp"

namespace banyan::parallel {

class TestNetwork {
 public:
  using Clock = std::chrono::steady_clock;
  /// A message takes up to `longest` seconds; one of another tag or process may overtake it.
  TestNetwork(int processes, double longest, unsigned seed)
      : longest_(longest), random_(seed), ends_(static_cast<std::size_t>(processes)) {}

  Clock::time_point now() const { return now_; }
  double seconds() const { return std::chrono::duration<double>(now_.time_since_epoch()).count(); }
  void pass(double seconds) {
    now_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    for (End& end : ends_)
      if (end.runs && end.linked) {
        end.heard = now_;
        if (end.has_data) end.got = now_;
      }
  }
  /// Stopped processes do nothing; messages to and from one without a link wait.
  void stop(int process, bool stopped) { at(process).runs = !stopped; }
  void cut(int process, bool cut) { at(process).linked = !cut; }
  bool runs(int process) { return at(process).runs; }
  /// From now on it does nothing; what it has sent may arrive. The others' wires notice it at different
  /// times.
  void kill(int process) {
    at(process).runs = false;
    at(process).killed = now_;
  }
  bool killed(int process) { return at(process).killed.has_value(); }
  /// A process without data lives, but gets no further.
  void stall(int process, bool stalled) { at(process).has_data = !stalled; }
  bool has_data(int process) { return at(process).has_data; }
  /// Seconds since another process last said that it was there.
  double silence(int process) { return std::chrono::duration<double>(now_ - at(process).heard).count(); }
  Absence absence(int process) {
    const double without_data = std::chrono::duration<double>(now_ - at(process).got).count();
    return {silence(process), at(process).has_data ? 0 : without_data};
  }
  double random(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  std::mt19937& generator() { return random_; }
  std::size_t messages() const { return messages_; }

 private:
  friend class SimulatedWire;
  struct Message {
    std::vector<char> bytes;
    Clock::time_point arrives;
  };
  struct Channel {
    std::deque<Message> messages;
    Clock::time_point last;
  };
  struct End {
    bool runs = true, linked = true, has_data = true;
    Clock::time_point heard, got;
    std::optional<Clock::time_point> killed;
  };
  End& at(int process) { return ends_[static_cast<std::size_t>(process)]; }

  double longest_;
  std::mt19937 random_;
  std::vector<End> ends_;
  Clock::time_point now_;
  std::map<std::tuple<int, int, int>, Channel> channels_;  ///< from, to, tag
  std::size_t messages_ = 0;
};

class SimulatedWire : public Wire {
 public:
  SimulatedWire(TestNetwork& network, int process) : network_(network), process_(process) {}
  int process() const override { return process_; }
  int processes() const override { return static_cast<int>(network_.ends_.size()); }
  int last_tag() const override { return 8'388'607; }
  bool outlives_processes() const override { return true; }
  void on_lost(Lost lost) override { lost_ = std::move(lost); }

  /// A large message is only sent when the other end takes it, as in MPI.
  void send(int to, int tag, const void* data, std::size_t bytes, Done done) override {
    ++network_.messages_;
    sending_.push_back({to, tag, static_cast<const char*>(data), bytes, std::move(done)});
    network_.channels_[{process_, to, tag}];
  }
  void receive(int from, int tag, void* data, std::size_t bytes, Done done) override {
    receiving_.push_back({from, tag, data, bytes, std::move(done)});
  }

  bool progress() override {
    std::vector<std::pair<Done, std::size_t>> done;
    std::erase_if(sending_, [&](Sending& message) {
      if (gone_.contains(message.to)) {
        done.emplace_back(std::move(message.done), message.bytes);
        return true;
      }
      if (!network_.at(process_).linked || !network_.at(message.to).linked) return false;
      TestNetwork::Channel& channel = network_.channels_[{process_, message.to, message.tag}];
      const auto delay = std::chrono::duration_cast<TestNetwork::Clock::duration>(
          std::chrono::duration<double>(network_.random(0, network_.longest_)));
      channel.last = std::max(channel.last, network_.now_ + delay);
      channel.messages.push_back({{message.data, message.data + message.bytes}, channel.last});
      done.emplace_back(std::move(message.done), message.bytes);
      return true;
    });
    std::erase_if(receiving_, [&](Receiving& receipt) {
      if (gone_.contains(receipt.from)) return true;
      auto& messages = network_.channels_[{receipt.from, process_, receipt.tag}].messages;
      if (messages.empty() || messages.front().arrives > network_.now_) return false;
      const std::vector<char>& bytes = messages.front().bytes;
      if (bytes.size() > receipt.bytes)
        runtime_failure("a message of ", bytes.size(), " bytes where at most ", receipt.bytes, " fit");
      std::memcpy(receipt.data, bytes.data(), bytes.size());
      done.emplace_back(std::move(receipt.done), bytes.size());
      messages.pop_front();
      return true;
    });
    for (auto& [call, bytes] : done) call(bytes);
    return notice_ends() || !done.empty();
  }
  void leave() override {}

 private:
  /// Of other processes, each after up to as long as messages take. The transfers end first.
  bool notice_ends() {
    std::vector<int> noticed;
    for (int process = 0; process < processes(); ++process) {
      const auto& killed = network_.at(process).killed;
      if (!killed || told_.contains(process)) continue;
      if (gone_.contains(process)) {
        noticed.push_back(process);
        continue;
      }
      const double since = std::chrono::duration<double>(network_.now_ - *killed).count();
      if (since > network_.random(0, network_.longest_)) gone_.insert(process);
    }
    for (const int process : noticed) {
      told_.insert(process);
      if (lost_) lost_(process);
    }
    return !noticed.empty();
  }

  struct Sending {
    int to, tag;
    const char* data;
    std::size_t bytes;
    Done done;
  };
  struct Receiving {
    int from, tag;
    void* data;
    std::size_t bytes;
    Done done;
  };
  TestNetwork& network_;
  int process_;
  std::vector<Sending> sending_;
  std::vector<Receiving> receiving_;
  Lost lost_;
  std::set<int> gone_, told_;  ///< processes that have ended: no transfers any more; `lost_` was called
};

}  // namespace banyan::parallel
