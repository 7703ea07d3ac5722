#include "clipping.hpp"

#include <glog/logging.h>

#include <cmath>
#include <utility>

#include "banyan/train/log_lines.hpp"

namespace banyan {

double clip_factor(double norm, double largest) { return norm > largest ? largest / norm : 1; }

Clipping::Clipping(double largest_norm, Peers& peers, parallel::GradientSync& sync, Updater& updater,
                   std::function<double()> squares, Context& lane)
    : largest_norm_(largest_norm),
      peers_(peers),
      sync_(sync),
      updater_(updater),
      squares_(std::move(squares)),
      lane_(lane) {}

double Clipping::finish(std::int64_t iteration) {
  peers_.activity().enter(Stage::reduce, "gradients");
  sync_.finish_reduction();
  const double norm = norm_of_all(iteration), factor = clip_factor(norm, largest_norm_);
  if (norm > largest_norm_ && peers_.first()) LOG(INFO) << log_lines::clipping(norm, largest_norm_, factor);
  updater_.set_gradient_factor(lane_, factor);
  sync_.release();
  return factor;
}

double Clipping::norm_of_all(std::int64_t iteration) {
  peers_.board().gradient_squares = squares_();
  peers_.meet("norm", iteration);
  double squares = 0;
  for (const DeviceBoard& board : peers_.boards()) squares += board.gradient_squares;
  peers_.meet("norm read", iteration);
  // Processes with other numbers of devices add the same squares in another order: all take process 0's sum.
  return std::sqrt(peers_.sum_processes({peers_.in_first_process() ? squares : 0}, "norm")[0]);
}

}  // namespace banyan
