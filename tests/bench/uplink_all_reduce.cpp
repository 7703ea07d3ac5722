// Sums of floats over processes by the code that training uses: mpirun -np N uplink_all_reduce BYTES...
// Prints one line per size: bytes, median seconds. A repeat's time is the slowest process's; the processes
// meet before each repeat, outside the time. --messages, instead of sizes: prints the seconds that the thread
// which owns MPI needs to send or receive a message, besides its bytes. (all_reduce.py builds and runs it.)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "banyan/ops/basic.hpp"
#include "banyan/parallel/mpi.hpp"
#include "banyan/parallel/wire_uplink.hpp"
#include "parallel/slot_exchange.hpp"

using namespace banyan;
using namespace banyan::parallel;

namespace {

struct Bench {
  Bench() : uplink(connect_by_mpi(), {}), device(make_cpu_device(0)), context(*device) {
    uplink.bring(1);
    uplink.attach({{&activity}, [this](const Error& error) { abort.raise(error); }});
  }
  ~Bench() { uplink.detach(); }
  void begin(int slot, Tensor& message) {
    uplink.begin(slot, message, UplinkMerge::sum, {"bench", "above", slot, ++round},
                 uplink.place().everybody(), context, bell);
  }
  void wait(int slot) {
    bell.wait(activity, [&] { return uplink.done(slot, context); });
  }
  void sum(int slot, Tensor& message) {
    begin(slot, message);
    wait(slot);
  }
  WireUplink uplink;
  std::unique_ptr<Device> device;
  Context context;
  AbortState abort;
  Activity activity{"cpu:0", &abort.flag()};
  Doorbell bell{abort, spin_policy(2, 1)};
  std::uint64_t round = 0;
};

double median_seconds(Bench& bench, Tensor& gradients, std::int64_t bytes, int slot) {
  const auto repeats = static_cast<int>(std::clamp<std::int64_t>((1 << 30) / bytes, 7, 1000));
  Tensor message = gradients.slice(0, Shape{bytes / 4}), meeting(*bench.device, Shape{1}, DType::f64);
  ops::fill(bench.context, meeting, 0);
  std::string mine;
  for (int i = -repeats / 10 - 1; i < repeats; ++i) {
    bench.sum(Uplink::kStatistics, meeting);
    const auto start = std::chrono::steady_clock::now();
    bench.sum(slot, message);
    if (i >= 0)
      mine +=
          std::to_string(std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count()) + " ";
  }
  std::vector<double> slowest(repeats, 0);
  for (const std::string& times : bench.uplink.share(mine)) {
    const char* at = times.c_str();
    for (double& time : slowest) {
      char* end = nullptr;
      time = std::max(time, std::strtod(at, &end));
      at = end;
    }
  }
  std::nth_element(slowest.begin(), slowest.begin() + repeats / 2, slowest.end());
  return slowest[repeats / 2] * 1e-9;
}

/// As many buckets as keep the thread busy.
struct Buckets {
  static constexpr int kCount = 128;
  Buckets(Bench& in, std::int64_t bytes, int first) : bench(in), first_slot(first) {
    for (int b = 0; b < kCount; ++b) {
      messages.emplace_back(*bench.device, Shape{bytes / 4}, DType::f32);
      ops::fill(bench.context, messages.back(), 0);
    }
    ops::fill(bench.context, meeting, 0);
  }
  /// Of their sums, which begin together.
  double seconds() {
    bench.sum(Uplink::kStatistics, meeting);
    const auto start = std::chrono::steady_clock::now();
    for (int b = 0; b < kCount; ++b) bench.begin(first_slot + b, messages[b]);
    for (int b = 0; b < kCount; ++b) bench.wait(first_slot + b);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  Bench& bench;
  int first_slot;
  std::vector<Tensor> messages;
  Tensor meeting{*bench.device, Shape{1}, DType::f64};
};

/// From buckets of two sizes that are cut into equally many pieces, which Open MPI sends in the same way. The
/// fastest of many runs: other programs can only slow them down.
void print_message_seconds(Bench& bench) {
  constexpr std::int64_t kSmall = 32 << 10, kLarge = 2 * kSmall;
  const int processes = bench.uplink.place().processes();
  const std::int64_t pieces = SlotExchange::pieces_of(kSmall, processes);
  if (processes < 2 || pieces != SlotExchange::pieces_of(kLarge, processes))
    throw std::runtime_error("--messages is for 2 to 4 processes");
  Buckets small(bench, kSmall, Uplink::kFirstBucket),
      large(bench, kLarge, Uplink::kFirstBucket + Buckets::kCount);
  double fastest_small = small.seconds(), fastest_large = large.seconds();
  for (int run = 1; run < 300; ++run) {
    fastest_small = std::min(fastest_small, small.seconds());
    fastest_large = std::min(fastest_large, large.seconds());
  }
  // Parts and results, and the header between neighbours, each sent and received.
  const double messages = 4.0 * static_cast<double>(pieces) * (processes - 1) / processes + 2;
  if (bench.uplink.place().process == 0)
    std::printf("%.9f\n", (2 * fastest_small - fastest_large) / (messages * Buckets::kCount));
}

}  // namespace

int main(int argc, char** argv) try {
  Bench bench;
  if (argc == 2 && std::string(argv[1]) == "--messages") {
    print_message_seconds(bench);
    argc = 1;
  }
  std::int64_t most = 0;
  for (int i = 1; i < argc; ++i) most = std::max<std::int64_t>(most, std::atol(argv[i]));
  Tensor gradients(*bench.device, Shape{most / 4}, DType::f32);  // of which buckets are parts
  ops::fill(bench.context, gradients, 0);
  for (int i = 1; i < argc; ++i) {
    const double seconds = median_seconds(bench, gradients, std::atol(argv[i]), Uplink::kFirstBucket + i);
    if (bench.uplink.place().process == 0) std::printf("%s %.9f\n", argv[i], seconds);
  }
  bench.uplink.detach();
  bench.uplink.leave();
} catch (const std::exception& error) {
  std::fprintf(stderr, "uplink_all_reduce: %s\n", error.what());
  return 1;
}
