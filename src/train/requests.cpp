#include "requests.hpp"

#include "banyan/ops/basic.hpp"

namespace banyan {

Requests::Requests(Peers& peers, SignalFlags* signals) : peers_(peers), signals_(signals) {
  if (peers.joined()) report_ = Tensor(peers.context().device(), Shape{3}, DType::f64);
}

void Requests::poll(std::int64_t iteration) {
  if (!peers_.first()) return;
  Wishes wishes;
  if (signals_ != nullptr) {
    wishes.snapshot = signals_->snapshot.exchange(false);
    wishes.stop = signals_->stop.load();
  }
  peers_.team().wishes[iteration % 2] = wishes;
}

Tensor Requests::share(const Tensor& loss, std::int64_t iteration) {
  if (!peers_.joined()) return loss;
  Context& context = peers_.context();
  const Wishes mine = peers_.first() ? of_process(iteration) : Wishes{};
  const double asks[2] = {mine.stop ? 1.0 : 0.0, mine.snapshot ? 1.0 : 0.0};
  Tensor total = report_.slice(0, Shape{1}), wishes = report_.slice(1, Shape{2});
  copy_from_host(context, asks, wishes);
  ops::axpby(context, 1.0, loss, 0.0, total);
  peers_.exchange()->all_reduce(context, report_, Merge::sum, 0, Ticket{"loss", "report"});
  return total;
}

Wishes Requests::of_everybody(std::int64_t iteration) const {
  if (!peers_.joined()) return of_process(iteration);
  double report[3];
  copy_to_host(peers_.context(), report_, report);
  return {report[1] > 0, report[2] > 0};
}

}  // namespace banyan
