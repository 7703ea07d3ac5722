// A run with parameter servers: what the servers' devices, one each, and the workers' devices do differently
// from a run by themselves. The messages are in parallel/parameter_server.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "banyan/net/net.hpp"
#include "banyan/parallel/further_server.hpp"
#include "banyan/parallel/gradient_sync.hpp"
#include "banyan/parallel/parameter_server.hpp"
#include "banyan/train/updater.hpp"
#include "peers.hpp"
#include "run.hpp"

namespace banyan {

/// The flat buffers' parameters, by place.
std::vector<parallel::ParameterRange> exchanged_ranges(const std::vector<LearnableParameter>& parameters);

/// Throws bad_input for what a run with a parameter server cannot do.
void check_served(const TrainOptions& options);

/// Those that have tasks at a time: all but the spares.
int workers_of(const Run& run);
/// Devices of each worker, all of which have as many.
int devices_of_worker(const Run& run);

/// The buckets of the worker's devices: also the pieces in which differences and parameters travel. They do
/// not depend on the number of servers.
std::vector<parallel::Bucket> worker_buckets(const Run& run, const Net& net);

/// The same, of a server's device: those whose optimizer's state it has. The first server keeps room for all,
/// for snapshots.
std::vector<parallel::Bucket> server_buckets(const Run& run, const Net& net);

/// The first server: the gradients of its device come from the workers.
class Server {
 public:
  /// `first`: iterations done before.
  Server(Run& run, const Peers& peers, Net& net, Updater& updater, std::int64_t first);
  /// Tells all others that there is nothing more to do.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Is this bucket updated here?
  bool holds(int bucket) const { return layout_.holder(static_cast<std::size_t>(bucket)) == 0; }
  /// Waits for the round's differences: their mean becomes the net's gradients, and that of the running
  /// statistics the net's. Returns the mean of the losses.
  double gather();
  /// Of the gradients of all servers, added in the order of the pieces.
  double sum_of_squares(Context& lane);
  /// The further servers make the step of this iteration.
  void update_further(std::int64_t iteration, double rate, double factor);
  /// What further servers hold comes to this one: the net's values, gradients, the optimizer's state.
  void fetch(const std::vector<parallel::ServerState>& what);
  void fetch_all();
  /// The net's parameters after that many iterations go to the workers.
  void publish(std::int64_t iterations);
  /// The workers have nothing more to do.
  void end();
  /// Tasks whose differences have been used, or dropped.
  std::int64_t finished_tasks() const;

 private:
  Run& run_;
  const Peers& peers_;
  Net& net_;
  Updater& updater_;
  const std::vector<parallel::Bucket> buckets_;
  const parallel::ServerLayout layout_;
  std::shared_ptr<parallel::ParameterServer> server_;
  std::vector<char> host_;  ///< values or gradients on their way
  bool published_ = false, ended_ = false;
};

/// An inner server of a tree: a worker towards the first server, and a server of its own workers.
class InnerServer {
 public:
  /// Begins to carry both ends; `upwards` is the worker's.
  InnerServer(Run& run, const Peers& peers, Net& net, std::shared_ptr<parallel::ServerWorker> upwards);
  /// Its workers have nothing more to do.
  ~InnerServer();
  InnerServer(const InnerServer&) = delete;
  InnerServer& operator=(const InnerServer&) = delete;

  /// The parameters that have come, and the tasks, go to the workers.
  void publish(const parallel::ServerWorker::Task& task);
  /// Waits for the round's differences: their sum becomes the net's gradients, and the rest is noted for the
  /// server above. False: the end has come meanwhile.
  bool gather();

 private:
  Run& run_;
  const Peers& peers_;
  Net& net_;
  const std::vector<parallel::Bucket> buckets_;
  const int workers_;
  std::shared_ptr<parallel::ServerWorker> upwards_;
  std::shared_ptr<parallel::ParameterServer> downwards_;
  std::vector<char> host_;  ///< values or gradients on their way
  bool published_ = false;
  std::int64_t dropped_ = 0;  ///< as told
};

/// A further server does what the first one says, until it says that there is nothing more.
void serve_further(Run& run, const Peers& peers, Net& net, Updater& updater);

/// The worker's side, made by its first device. The uplink does not carry it yet.
std::shared_ptr<parallel::ServerWorker> make_worker(Run& run, const Net& net);
/// On the first device, before the first iteration: all parameters of the net come from the server.
void receive_parameters(const parallel::ServerWorker& worker, const Peers& peers, Net& net);
/// One bucket of the task that has come.
void take_bucket(const parallel::ServerWorker& worker, Net& net, const parallel::Bucket& bucket, int number,
                 Context& context);
/// The running statistics as they are now; the host waits for the device.
std::vector<char> statistics_of(Net& net, Context& context);

}  // namespace banyan
