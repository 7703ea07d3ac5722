#include "banyan/data/input_rates.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <vector>

#include "banyan/base/error.hpp"

namespace banyan::data {

namespace {

/// Batches before the clock starts: memory is then allocated, and the readers have accessed the source.
constexpr int kWarmUp = 2;

/// Reads every byte, as a decoder would. The result only keeps the reads from being optimized away.
std::uint64_t touch(std::string_view bytes) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  std::uint64_t all = 0;
  std::size_t at = 0;
  for (; at + kWord <= bytes.size(); at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, kWord);
    all ^= word;
  }
  for (; at < bytes.size(); ++at) all ^= static_cast<unsigned char>(bytes[at]);
  return all;
}

/// Charges the time since the last call to what was done in it.
class Laps {
 public:
  explicit Laps(const std::function<double()>& clock) : clock_(clock) {}
  void start() { last_ = clock_(); }
  void charge(double& part) {
    const double now = clock_();
    part += now - last_;
    last_ = now;
  }

 private:
  const std::function<double()>& clock_;
  double last_ = 0;
};

InputRates measure_parts(const InputPipeline& pipeline, int batches, const std::function<bool()>& stop,
                         const std::function<double()>& clock) {
  InputRates rates;
  const auto reader = pipeline.source->reader();
  ShareSequence shares = ShareSequence::training(pipeline.dealing, 0);
  Record record;
  std::vector<std::vector<std::byte>> memory;
  std::vector<double> rows;
  Laps laps(clock);
  std::uint64_t touched = 0;
  for (int batch = -kWarmUp; batch < batches && !(batch > 0 && stop()); ++batch) {
    if (batch == 0) rates = {};
    const Share share = shares.next();
    record.batch = share.batch;
    for (std::uint64_t i = 0; i < share.count; ++i) {
      const std::uint64_t item = share.item(i);
      const std::uint64_t position =
          pipeline.order->record(pipeline.dealing.epoch(item), pipeline.dealing.record(item));
      record.item = item;
      laps.start();
      try {
        reader->fetch(position, record);
        touched ^= touch(record.stored);
        laps.charge(rates.read_seconds);
        reader->decode(record);
        laps.charge(rates.decode_seconds);
        const std::vector<Shape> shapes = pipeline.writer->shapes(record, item);
        rows.clear();
        ItemPlace place{pipeline.assembly.dtype, pipeline.assembly.layout, {}, i, &rows};
        memory.resize(std::max(memory.size(), shapes.size()));
        for (std::size_t k = 0; k < shapes.size(); ++k) {
          // One place per item of a batch, so that memory is written as in a real batch.
          const std::size_t bytes =
              static_cast<std::size_t>(shapes[k].count()) * size_of(pipeline.assembly.dtype);
          memory[k].resize(std::max(memory[k].size(), bytes * share.count));
          place.outputs.push_back(memory[k].data() + bytes * i);
        }
        laps.start();
        pipeline.writer->write(record, item, place);
        laps.charge(rates.augment_seconds);
      } catch (const Error& error) {
        throw Error(error.kind(), reader->describe(position) + ": " + error.message());
      }
      ++rates.items;
      rates.bytes += record.stored.size();
    }
  }
  volatile std::uint64_t kept = touched;
  static_cast<void>(kept);
  return rates;
}

}  // namespace

InputClocks InputClocks::real() {
  const auto cpu = [] {
    std::timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const auto wall = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  return {wall, cpu};
}

InputRates measure_input(const InputPipeline& pipeline, Device& device, int batches,
                         const std::function<bool()>& stop, const InputClocks& clocks) {
  InputRates rates = measure_parts(pipeline, batches, stop, clocks.wall);
  if (rates.items == 0) return rates;
  const auto prefetcher = pipeline.start(device, ShareSequence::training(pipeline.dealing, 0));
  rates.threads = std::clamp(pipeline.prefetch.threads, 1, std::max(pipeline.prefetch.depth, 1));
  // Batches are taken back to back, with nothing but the threads' work between them.
  for (int batch = 0; batch < kWarmUp + pipeline.prefetch.depth; ++batch) prefetcher->take();
  const double begun = clocks.wall(), cpu_begun = clocks.cpu();
  std::uint64_t items = 0;
  while (items < rates.items && !(items > 0 && stop())) items += prefetcher->take().share.count;
  const double scale =
      static_cast<double>(rates.items) / static_cast<double>(std::max<std::uint64_t>(items, 1));
  rates.pipeline_seconds = (clocks.wall() - begun) * scale;
  rates.pipeline_cpu_seconds = (clocks.cpu() - cpu_begun) * scale;
  return rates;
}

}  // namespace banyan::data
