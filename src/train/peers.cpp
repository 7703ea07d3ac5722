#include "peers.hpp"

#include <algorithm>

namespace banyan {
namespace {

/// Values sent at a time in a broadcast. Bounds the lane's buffer, which is kept: no more than the smallest
/// bucket. Between processes one piece follows the other only after a round trip: no more than the largest
/// bucket.
constexpr std::int64_t kBroadcastPiece = 1 << 14, kPieceToProcesses = 1 << 20;

}  // namespace

Team::Team(int devices, parallel::AbortState& abort, parallel::SpinPolicy policy, parallel::Uplink* to_others)
    : uplink(to_others), meeting(devices, abort, policy), boards(static_cast<std::size_t>(devices)) {
  if (uplink != nullptr)
    place = uplink->place();
  else
    place.devices_of = {devices};
}

Peers::Peers(Team& team, int rank, Activity& activity, Context& context)
    : team_(team), rank_(rank), activity_(activity), context_(context) {
  if (!alone()) exchange_ = std::make_unique<parallel::StatisticsExchange>(*team.trees, rank);
}

void Peers::meet(const char* what, std::int64_t number) const {
  team_.meeting.meet(rank_, activity_, {what, number});
}

std::vector<double> Peers::sum_processes(std::vector<double> values, const char* what) const {
  if (!joined() || values.empty()) return values;
  if (!first()) std::fill(values.begin(), values.end(), 0.0);
  Tensor message(context_.device(), Shape{static_cast<std::int64_t>(values.size())}, DType::f64);
  copy_from_host(context_, values.data(), message);
  exchange_->all_reduce(context_, message, Merge::sum, 0, Ticket{what, "report"});
  copy_to_host(context_, message, values.data());
  return values;
}

std::vector<std::string> Peers::share(const std::string& mine) const {
  return joined() ? team_.uplink->share(mine) : std::vector<std::string>{mine};
}

void Peers::broadcast(Tensor& values, const char* what) const {
  if (alone()) return;
  const std::int64_t most = joined() ? kPieceToProcesses : kBroadcastPiece;
  for (std::int64_t at = 0; at < values.count(); at += most) {
    Tensor piece = values.slice(at, Shape{std::min(most, values.count() - at)});
    exchange_->broadcast(context_, piece, Ticket{what, "start"});
  }
}

}  // namespace banyan
