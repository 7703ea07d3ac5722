// Training runs of several processes in one: groups of devices joined through memory.
#pragma once

#include <glog/logging.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "banyan/base/error.hpp"
#include "parallel/memory_wire.hpp"
#include "train/training_case.hpp"

namespace banyan {

struct Joined {
  Trained trained;
  std::vector<std::string> errors;  ///< of each process; empty: none
  std::uint64_t messages = 0;
};

/// Trains with one group of devices[p] devices for each process p, each group from its own thread.
/// `server`: the first process is a parameter server. `reduce_precision`: as the flag of trainer.
inline Joined train_joined(const TrainingCase& of, const std::vector<int>& devices,
                           const std::function<void(int process, TrainOptions&)>& change = {},
                           const TrainingFolder& folder = TrainingFolder(),
                           const std::optional<ParameterServerOptions>& server = std::nullopt,
                           std::optional<DType> reduce_precision = std::nullopt) {
  FLAGS_minloglevel = google::FATAL;
  parallel::MemoryHub hub(devices);
  Joined joined;
  joined.errors.resize(devices.size());
  std::vector<std::thread> processes;
  for (int p = 0; p < hub.processes(); ++p)
    processes.emplace_back([&, p] {
      const auto at = static_cast<std::size_t>(p);
      try {
        parallel::WireUplinkOptions joining;
        joining.served_by_first = server.has_value();
        joining.reduce_precision = reduce_precision;
        const auto uplink = hub.join(p, joining);
        TrainOptions options = options_of(of, folder, devices[at]);
        options.uplink = uplink.get();
        options.parameter_server = server;
        if (server) options.parameter_server->uplink = uplink.get();
        if (change) change(p, options);
        train(options);
        uplink->leave();
      } catch (const Error& error) {
        joined.errors[at] = error.what();
      }
    });
  for (std::thread& process : processes) process.join();
  joined.messages = hub.messages();
  if (joined.errors == std::vector<std::string>(devices.size()))
    joined.trained = read_trained(folder, of.iterations);
  return joined;
}

}  // namespace banyan
