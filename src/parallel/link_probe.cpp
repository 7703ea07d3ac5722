#include "banyan/parallel/link_probe.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.hpp"

namespace banyan::parallel {
namespace {

constexpr int kPings = 200, kBlocks = 8;
constexpr std::size_t kBlockBytes = std::size_t{4} << 20;

}  // namespace

/// The lower process begins each of the three parts; the other answers.
struct LinkProbe::State {
  using Clock = WireProtocol::Clock;

  bool leads() const { return wire->process() < other; }
  int tag() const { return wire->last_tag() - 2; }
  double seconds() const { return seconds_since(begun); }

  void send_token(std::function<void()> then = {}) {
    ++open;
    wire->send(other, tag(), &out_token, sizeof out_token, [this, then = std::move(then)](std::size_t) {
      --open;
      if (then) then();
    });
  }
  void receive_token(std::function<void()> then) {
    ++open;
    wire->receive(other, tag(), &in_token, sizeof in_token, [this, then = std::move(then)](std::size_t) {
      --open;
      then();
    });
  }
  void send_blocks() {
    for (auto& block : blocks) {
      ++open;
      wire->send(other, tag(), block.data(), block.size(), [this](std::size_t) { --open; });
    }
  }
  void receive_blocks(const std::function<void()>& then) {
    blocks_missing = kBlocks;
    for (auto& block : blocks) {
      ++open;
      wire->receive(other, tag(), block.data(), block.size(), [this, then](std::size_t) {
        --open;
        if (--blocks_missing == 0) then();
      });
    }
  }

  void begin() {
    blocks.assign(kBlocks, std::vector<char>(kBlockBytes));
    times.clear();
    pings = 0;
    if (leads())
      ping();
    else
      answer_ping();
  }

  void ping() {
    begun = Clock::now();
    send_token();
    receive_token([this] {
      times.push_back(seconds() / 2);
      if (++pings < kPings) return ping();
      std::nth_element(times.begin(), times.begin() + kPings / 2, times.end());
      speed.latency_s = times[kPings / 2];
      measure_there();
    });
  }
  void answer_ping() {
    receive_token([this] {
      send_token();
      if (++pings < kPings) return answer_ping();
      receive_blocks([this] {
        send_token();
        receive_token([this] {
          send_blocks();
          receive_token([this] { end(); });
        });
      });
    });
  }
  void measure_there() {
    begun = Clock::now();
    send_blocks();
    receive_token([this] {
      speed.there_bytes_per_s = speed_of(seconds());
      measure_back();
    });
  }
  void measure_back() {
    begun = Clock::now();
    receive_blocks([this] {
      speed.back_bytes_per_s = speed_of(seconds());
      send_token();
      end();
    });
    send_token();
  }
  /// One short message is part of the time.
  double speed_of(double time) const {
    return static_cast<double>(kBlocks * kBlockBytes) / std::max(time - speed.latency_s, 1e-9);
  }
  void end() {
    const std::lock_guard<std::mutex> lock(mutex);
    done = true;
    changed.notify_all();
  }

  // The wire's thread's:
  Wire* wire = nullptr;
  int other = 0, pings = 0, open = 0, blocks_missing = 0;
  char out_token = 1, in_token = 0;
  std::vector<std::vector<char>> blocks;
  std::vector<double> times;
  Clock::time_point begun;
  NetworkSpeed speed;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> wake;
  std::optional<int> asked;  ///< the process to measure with
  bool busy = false, done = false;
};

LinkProbe::LinkProbe() : state_(std::make_unique<State>()) {}
LinkProbe::~LinkProbe() = default;

NetworkSpeed LinkProbe::measure(int other, const std::function<void()>& check) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->asked = other;
  state_->busy = true;
  state_->done = false;
  if (state_->wake) state_->wake();
  while (!state_->changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return state_->done; }))
    check();
  state_->busy = false;
  return state_->speed;
}

void LinkProbe::join(Wire& wire, std::function<void()> wake) {
  state_->wire = &wire;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->wake = std::move(wake);
}

bool LinkProbe::step(Clock::time_point, const Silence&) {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (!state_->asked) return state_->busy && !state_->done;  // without a rest while it measures
    state_->other = *std::exchange(state_->asked, std::nullopt);
  }
  state_->begin();
  return true;
}

bool LinkProbe::waits() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->busy;
}

bool LinkProbe::quiet() const { return state_->open == 0; }

}  // namespace banyan::parallel
