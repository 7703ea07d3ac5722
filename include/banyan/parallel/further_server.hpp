// FurtherServer: a parameter server besides the first one. It holds some pieces of the parameters, gets those
// of the workers' differences and sends them the pieces' values, but decides nothing: what is used in which
// version is told by the first server, so that all pieces always belong to one version.
//
//        worker               first server                    further server
//          ready      ──────>
//                     <────── task        assign  ──────>
//          <───────────────── values                  values ──────> worker
//   forward
//   backward: pieces  ──────> held there
//             pieces  ─────────────────────────────────────────────> held here
//                                                 <────── arrived
//             done    ──────> when all of a difference has arrived everywhere, it is there:
//                             round       average ──────> mean of the same workers' pieces
//                                                 <────── squares    (where gradients are clipped)
//                                         update  ──────> one step of the solver, the next version
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/parallel/parameter_server.hpp"

namespace banyan::parallel {

class FurtherServer : public WireProtocol {
 public:
  using Check = ParameterServer::Check;
  /// What the first server wants done.
  struct Order {
    enum class Kind : std::uint8_t { start, average, update, fetch, end };
    Kind kind = Kind::end;
    std::vector<char> values = {};              ///< start: of the pieces held here, one after the other
    std::int64_t version = 0;                   ///< start: of the values; update: before the step
    std::vector<const char*> differences = {};  ///< average: of the pieces held here; stay until publish()
    bool squares = false;                       ///< average: tell_squares() is expected
    double rate = 0, factor = 1;                ///< update
    ServerState what = ServerState::values;     ///< fetch: send_state() is expected
  };

  /// On process `process` of those that `names` has, for these workers.
  FurtherServer(ServerLayout layout, int process, std::vector<std::string> names,
                const std::vector<int>& workers);
  ~FurtherServer() override;

  // On the thread of the solver.

  /// The next order; nothing: there is none yet.
  std::optional<Order> try_order();
  Order wait_for_order(const Check& check);
  /// The flat parameters of `version`, of which those held here are read, go to the workers that have been
  /// assigned it.
  void publish(std::int64_t version, const char* values);
  /// Of the gradient, for each piece held here.
  void tell_squares(const std::vector<double>& squares);
  void send_state(ServerState what, std::size_t piece, const char* data, std::size_t bytes);

  void join(Wire& wire, std::function<void()> wake) override;
  bool step(Clock::time_point now, const Silence& silence) override;
  bool waits() const override { return true; }
  bool quiet() const override;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace banyan::parallel
