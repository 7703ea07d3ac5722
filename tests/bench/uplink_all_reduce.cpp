// Sums of floats over processes by the code that training uses: mpirun -np N uplink_all_reduce BYTES...
// Prints one line per size: bytes, median seconds. A repeat's time is the slowest process's; the processes
// meet before each repeat, outside the time. (all_reduce.py builds and runs it.)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "banyan/ops/basic.hpp"
#include "banyan/parallel/mpi.hpp"
#include "banyan/parallel/wire_uplink.hpp"

using namespace banyan;
using namespace banyan::parallel;

namespace {

struct Bench {
  Bench() : uplink(connect_by_mpi(), {}), device(make_cpu_device(0)), context(*device) {
    uplink.bring(1);
    uplink.attach({{&activity}, [this](const Error& error) { abort.raise(error); }});
  }
  ~Bench() { uplink.detach(); }
  void sum(int slot, Tensor& message) {
    uplink.begin(slot, message, UplinkMerge::sum, {"bench", "above", slot, ++round},
                 uplink.place().everybody(), context, bell);
    bell.wait(activity, [&] { return uplink.done(slot, context); });
  }
  WireUplink uplink;
  std::unique_ptr<Device> device;
  Context context;
  AbortState abort;
  Activity activity{"cpu:0", &abort.flag()};
  Doorbell bell{abort, spin_policy(2, 1)};
  std::uint64_t round = 0;
};

double median_seconds(Bench& bench, std::int64_t bytes, int slot) {
  const auto repeats = static_cast<int>(std::clamp<std::int64_t>((1 << 30) / bytes, 7, 1000));
  Tensor message(*bench.device, Shape{bytes / 4}, DType::f32), meeting(*bench.device, Shape{1}, DType::f64);
  ops::fill(bench.context, message, 0);
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

}  // namespace

int main(int argc, char** argv) try {
  Bench bench;
  for (int i = 1; i < argc; ++i) {
    const double seconds = median_seconds(bench, std::atol(argv[i]), Uplink::kFirstBucket + i);
    if (bench.uplink.place().process == 0) std::printf("%s %.9f\n", argv[i], seconds);
  }
  bench.uplink.detach();
  bench.uplink.leave();
} catch (const std::exception& error) {
  std::fprintf(stderr, "uplink_all_reduce: %s\n", error.what());
  return 1;
}
