#include "display.hpp"

#include <glog/logging.h>

#include "banyan/train/log_lines.hpp"
#include "outputs.hpp"

namespace banyan {

Display::Display(const SolverSettings& solver, int interval, Peers& peers, Net& net, Losses& losses,
                 Console* console, RunBoard* board, Meter* meter)
    : every_(interval),
      logs_(solver.display > 0),
      meter_(meter),
      peers_(peers),
      net_(net),
      losses_(losses),
      progress_(peers.first() ? console : nullptr, peers.first() ? board : nullptr, solver.max_iter) {}

void Display::begin(std::int64_t iteration, std::int64_t samples) {
  start_ = shown_ = iteration;
  samples_ = samples;
  shown_at_ = std::chrono::steady_clock::now();
}

void Display::show(std::int64_t iteration, double rate) {
  if (is_turn(iteration)) {
    const std::vector<double> outputs = outputs_of_all(iteration);
    if (peers_.first()) {
      losses_.gather(iteration);
      if (logs_) log(iteration, rate, outputs);
      if (meter_ != nullptr)
        meter_->publish(iteration, losses_.smoothed(), losses_.take_interval(), rate, named(outputs));
    }
    peers_.meet("display", iteration);
  }
  if (progress_.active())
    progress_.update(iteration + 1, (iteration + 1 - start_) * samples_, losses_.smoothed(), rate);
}

std::vector<double> Display::outputs_of_all(std::int64_t iteration) {
  std::vector<double>& mine = peers_.board().outputs;
  mine.clear();
  if (has_outputs_) append_outputs(peers_.context(), net_, mine);
  if (meter_ != nullptr) meter_->report();
  peers_.meet("outputs", iteration);
  if (!peers_.gathers() || !has_outputs_) return {};
  std::vector<const std::vector<double>*> of_devices;
  for (const DeviceBoard& board : peers_.boards()) of_devices.push_back(&board.outputs);
  return peers_.sum_processes(combine_outputs(layout_of_outputs(net_), of_devices, peers_.in_first_process()),
                              "outputs");
}

void Display::log(std::int64_t iteration, double rate, const std::vector<double>& outputs) {
  const auto now = std::chrono::steady_clock::now();
  LOG(INFO) << log_lines::iteration(iteration, iteration - shown_,
                                    std::chrono::duration<double>(now - shown_at_).count(), every_,
                                    losses_.smoothed());
  shown_ = iteration;
  shown_at_ = now;
  std::size_t at = 0;
  int number = 0;
  for (const Blob* blob : has_outputs_ ? net_.outputs() : Blobs{})
    for (std::int64_t i = 0; i < blob->shape.count(); ++i, ++at)
      LOG(INFO) << log_lines::train_output(number++, blob->name, outputs.at(at), net_.loss_weight(*blob));
  LOG(INFO) << log_lines::rate(iteration, rate);
}

std::vector<metrics::Output> Display::named(const std::vector<double>& outputs) const {
  std::vector<metrics::Output> named;
  auto at = outputs.begin();
  for (const Blob* blob : has_outputs_ ? net_.outputs() : Blobs{}) {
    const auto end = at + blob->shape.count();
    named.push_back({blob->name, {at, end}, net_.loss_weight(*blob)});
    at = end;
  }
  return named;
}

}  // namespace banyan
