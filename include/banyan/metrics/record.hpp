// What a run tells about itself, as values: docs/metrics.md says what each means. Made by train/, taken by
// sinks (sink.hpp). Optional values, negative counts and empty texts are not known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "banyan/metrics/histogram.hpp"

namespace banyan::metrics {

using Dims = std::vector<std::int64_t>;

/// The beginning of a run, or of the part of it after a snapshot was resumed.
struct Start {
  struct Text {
    std::string name;  ///< "solver", "train", "test0"
    std::string path, text;
  };
  struct DeviceDescription {
    std::string name, kind, description;
    int threads = 0;
    std::vector<int> cores;
    std::int64_t batch = 0;
  };
  struct Link {
    int from = 0, to = 0;
    std::string link_class;
    double latency_seconds = 0, bytes_per_second = 0;
  };
  struct Tree {
    std::vector<int> parents;
    bool direct = false;
    std::string text;
    std::vector<Link> links;
    std::vector<std::vector<std::string>> classes;  ///< of the links between all devices
  };
  struct DataSet {
    std::string net, layer, source;
    std::uint64_t records = 0;
  };
  struct LayerDescription {
    std::string name, type;
    std::vector<std::string> inputs;
    std::vector<std::pair<std::string, Dims>> outputs;
    std::vector<Dims> blobs;
    std::int64_t parameters = 0, shared_parameters = 0, output_bytes = 0;
    double multiply_adds = 0;
    bool in_place = false;
  };
  struct Memory {
    std::int64_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, activations_unshared = 0;
  };
  struct Step {
    std::string work;
    int layer = 0;
  };
  struct Block {
    std::string name;
    bool gradient = false;
    std::int64_t offset = 0, bytes = 0;
    std::vector<std::pair<int, int>> spans;
  };
  struct MemoryPlan {
    std::vector<Step> steps;
    std::size_t backward = 0;
    std::vector<Block> blocks;
  };

  std::string version, resumed_from, working_directory, host, processor, precision, seed;
  std::vector<std::string> weights, command_line;
  std::int64_t process = 0, host_memory = 0;
  int host_cores = 0;
  int max_iter = 0, display = 0, average_loss = 1, iter_size = 1, histograms = 0, images = 0;
  Text solver;
  std::vector<Text> nets;
  std::vector<DeviceDescription> devices;
  std::optional<Tree> tree;
  std::int64_t samples_per_iteration = 0;
  std::vector<DataSet> datasets;
  std::vector<LayerDescription> layers;
  Memory memory;
  MemoryPlan plan;
};

struct Output {
  std::string name;
  std::vector<double> values;
  double weight = 0;  ///< in the loss
};

struct Train {
  struct Device {
    std::string name;
    std::int64_t memory_in_use = 0, memory_peak = 0;
    std::optional<double> waiting_for_data;  ///< share of the time
    std::optional<std::int64_t> sampled;     ///< iteration
    std::vector<std::pair<std::string, double>> milliseconds;
  };
  double loss = 0;
  std::optional<double> epoch, rate, gradient_norm, samples_per_second, seconds;
  std::int64_t iterations = 0;  ///< since the last one
  std::vector<Output> outputs;
  std::vector<Device> devices;
};

struct Test {
  int net = 0, batches = 0;
  double loss = 0, seconds = 0;
  std::vector<Output> outputs;
  std::string name() const { return "test" + std::to_string(net); }
};

struct Parameters {
  struct Entry {
    std::string name, layer;
    int index = 0;
    bool statistic = false;  ///< running statistics
    std::int64_t count = 0;
    double norm = 0;
    std::optional<double> gradient_norm, update_ratio;
    Histogram values, gradients;
  };
  std::vector<Entry> entries;
};

struct Layers {
  struct Time {
    std::string name;
    double forward = 0, backward = 0;  ///< milliseconds
  };
  int sampled = 0;
  std::vector<Time> layers;
};

struct Snapshot {
  std::string model, state;
  std::int64_t bytes = 0;
  double seconds = 0;
};

struct Warning {
  std::string text, advice;
};

struct Pictures {
  struct Picture {
    std::string tag;
    int width = 0, height = 0, channels = 0;  ///< 1 or 3
    std::vector<std::uint8_t> png;
  };
  std::vector<Picture> pictures;
};

struct End {
  std::string reason, error;
  double seconds = 0;
};

struct Record {
  std::int64_t iteration = 0;
  double time = 0;  ///< seconds since 1970
  std::variant<Start, Train, Test, Parameters, Layers, Snapshot, Warning, Pictures, End> what;
};

}  // namespace banyan::metrics
