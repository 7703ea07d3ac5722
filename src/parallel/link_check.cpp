#include "banyan/parallel/link_check.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/ops/basic.hpp"
#include "base/clock.hpp"

namespace banyan::parallel {
namespace {

using Clock = std::chrono::steady_clock;

/// Word i of the pattern: integers below 2^24, exact in f32, neighbours far apart.
float pattern(std::int64_t i) { return static_cast<float>((i * 2654435761LL >> 4) & 0xffffff); }

/// All that a check needs, in one object, so that it can be abandoned after a stall. The contexts are last:
/// they are destroyed first, and wait for the enqueued copies that use the other members, however a check
/// ends.
struct Probe {
  Probe(Device& owner, Device& reader, Access access, std::int64_t words)
      : source(owner, Shape{words}, DType::f32),
        target(reader, Shape{words}, DType::f32),
        host_out(owner.allocate_host(source.bytes())),
        host_in(reader.allocate_host(source.bytes())),
        sent(owner.create_event()),
        done(reader.create_event()),
        transfer(access, owner, reader),
        sender(owner, "check"),
        receiver(reader, "check") {}
  Tensor source, target;
  std::shared_ptr<void> host_out, host_in;  ///< f32
  std::unique_ptr<Event> sent, done;
  Transfer transfer;
  Context sender, receiver;
};

/// Sends the pattern to the owner, over the link by `cross`, and back to the host; false: not done in time.
template <class Cross>
bool send_pattern(Probe& probe, double limit_seconds, const Cross& cross) {
  auto* out = static_cast<float*>(probe.host_out.get());
  auto* in = static_cast<float*>(probe.host_in.get());
  const std::int64_t words = probe.source.count();
  for (std::int64_t i = 0; i < words; ++i) {
    out[i] = pattern(i);
    in[i] = -1;
  }
  Stream& to = probe.receiver.stream();
  probe.sender.stream().copy(probe.source.raw(), out, probe.source.bytes());
  probe.sender.stream().record(*probe.sent);
  to.copy(probe.target.raw(), in, probe.target.bytes());  // so that nothing is left of an earlier pattern
  to.wait(*probe.sent);
  cross();
  to.copy(in, probe.target.raw(), probe.target.bytes());
  to.record(*probe.done);
  const auto start = Clock::now();
  while (!probe.done->done()) {
    if (seconds_since(start) > limit_seconds) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

LinkCheck compare(const Probe& probe, const char* how) {
  const auto* in = static_cast<const float*>(probe.host_in.get());
  const std::int64_t words = probe.source.count();
  std::int64_t wrong = 0, first = -1;
  for (std::int64_t i = 0; i < words; ++i)
    if (in[i] != pattern(i)) {
      if (wrong++ == 0) first = i;
    }
  if (wrong == 0) return {};
  return {LinkVerdict::corrupt,
          cat(wrong, " of ", words, " words differ when ", how, ", the first at byte ", first * 4)};
}

/// Keeps the probe forever.
LinkCheck stalled(std::unique_ptr<Probe> probe, const char* how, double limit_seconds) {
  static std::mutex mutex;
  static auto& left_behind = *new std::vector<std::unique_ptr<Probe>>;
  const std::lock_guard<std::mutex> lock(mutex);
  left_behind.push_back(std::move(probe));
  return {LinkVerdict::stalled, cat("not done after ", limit_seconds, " s when ", how)};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

const char* name_of(LinkVerdict verdict) {
  switch (verdict) {
    case LinkVerdict::whole:
      return "whole";
    case LinkVerdict::corrupt:
      return "CORRUPT";
    case LinkVerdict::stalled:
      return "STALLED";
  }
  return "?";
}

LinkCheck verify_link(Device& owner, Device& reader, Access access, std::size_t bytes, double limit_seconds) {
  auto probe = std::make_unique<Probe>(owner, reader, access, static_cast<std::int64_t>(bytes / 4));
  reader.make_current();
  const auto copied = [&] {
    probe->transfer.copy(probe->receiver.stream(), probe->target.raw(), probe->source.raw(),
                         probe->source.bytes());
  };
  if (!send_pattern(*probe, limit_seconds, copied)) return stalled(std::move(probe), "copied", limit_seconds);
  const LinkCheck check = compare(*probe, "copied");
  if (check.verdict != LinkVerdict::whole || access != Access::in_place) return check;
  const auto read = [&] { ops::axpby(probe->receiver, 1.0, probe->source, 0.0, probe->target); };
  if (!send_pattern(*probe, limit_seconds, read))
    return stalled(std::move(probe), "read in place", limit_seconds);
  return compare(*probe, "read in place");
}

LinkSpeed measure_link(Device& owner, Device& reader, Access access, std::size_t bytes, int repeats) {
  Probe probe(owner, reader, access, static_cast<std::int64_t>(bytes / 4));
  probe.sender.stream().zero(probe.source.raw(), probe.source.bytes());
  probe.sender.synchronize();
  const auto time = [&](std::size_t size) {
    const auto start = Clock::now();
    probe.transfer.copy(probe.receiver.stream(), probe.target.raw(), probe.source.raw(), size);
    probe.receiver.synchronize();
    return seconds_since(start);
  };
  time(bytes);  // touches the memory
  std::vector<double> large, small;
  for (int i = 0; i < repeats; ++i) large.push_back(time(bytes));
  for (int i = 0; i < 20 * repeats; ++i) small.push_back(time(4));
  LinkSpeed speed;
  speed.latency_seconds = median(small);
  speed.bytes_per_second = static_cast<double>(bytes) / median(large);
  return speed;
}

}  // namespace banyan::parallel
