#include "banyan/train/progress.hpp"

#include <iomanip>
#include <sstream>

#include "banyan/base/units.hpp"

namespace banyan {

std::string progress_line(const ProgressNumbers& n) {
  std::ostringstream out;
  out << "Iteration " << n.iteration << '/' << n.max_iter;
  if (n.max_iter > 0) out << " (" << 100 * n.iteration / n.max_iter << " %)";
  out << std::setprecision(4) << "  loss " << n.loss << "  lr " << n.rate;
  if (n.samples_per_second > 0)
    out << "  " << std::fixed << std::setprecision(n.samples_per_second < 10 ? 1 : 0) << n.samples_per_second
        << " samples/s";
  if (n.seconds_left >= 0) out << "  " << duration_text(n.seconds_left) << " left";
  return out.str();
}

void Progress::update(std::int64_t iteration, std::int64_t samples, double loss, double rate,
                      Clock::time_point now) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  if (!active() || (!marks_.empty() && now - marks_.back().time < milliseconds(200))) return;
  marks_.push_back({now, iteration, samples});
  while (marks_.size() > 2 && now - marks_[1].time >= seconds(10)) marks_.pop_front();

  ProgressNumbers numbers{iteration, max_iter_, loss, rate, 0, -1};
  const Mark& first = marks_.front();
  const double elapsed = std::chrono::duration<double>(now - first.time).count();
  if (elapsed > 0 && iteration > first.iteration) {
    numbers.samples_per_second = static_cast<double>(samples - first.samples) / elapsed;
    numbers.seconds_left = elapsed * static_cast<double>(max_iter_ - iteration) /
                           static_cast<double>(iteration - first.iteration);
  }
  if (board_ != nullptr) board_->set_progress(numbers);
  if (draws()) console_->set_status(progress_line(numbers));
}

void Progress::clear() {
  if (draws()) console_->clear_status();
}

}  // namespace banyan
