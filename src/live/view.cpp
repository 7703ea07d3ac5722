#include "live/view.hpp"

#include <algorithm>
#include <cmath>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/units.hpp"

namespace banyan::live {
namespace {

constexpr const char* kLoss = "loss";
constexpr const char* kTraining = "training";
/// A chart smaller than this shows nothing.
constexpr int kLeastChartWidth = 34, kLeastChartHeight = 5, kUsualChartHeight = 9;
constexpr int kLeastWidth = 40, kLeastRows = 5;

std::string percent(double share) { return cat(std::lround(100 * share), " %"); }

double share_of(const metrics::Train::Device& device, const char* part) {
  double value = 0, total = 0;
  for (const auto& [name, milliseconds] : device.milliseconds) {
    if (name == part) value = milliseconds;
    if (name == "iteration") total = milliseconds;
  }
  return total > 0 ? value / total : 0;
}

std::string speed_text(double samples_per_second) {
  return cat(
      samples_per_second < 10 ? short_number(samples_per_second, 2) : cat(std::llround(samples_per_second)),
      " samples/s");
}

}  // namespace

void View::take(const metrics::Record& record) {
  const std::int64_t iteration = record.iteration;
  if (const auto* start = std::get_if<metrics::Start>(&record.what)) {
    take_start(*start, iteration);
  } else if (const auto* train = std::get_if<metrics::Train>(&record.what)) {
    take_train(*train, iteration);
  } else if (const auto* test = std::get_if<metrics::Test>(&record.what)) {
    take_test(*test, iteration);
  } else if (const auto* warning = std::get_if<metrics::Warning>(&record.what)) {
    ++warning_count_;
    warnings_.push_back(
        {iteration, warning->advice.empty() ? warning->text : warning->text + "; " + warning->advice});
    if (warnings_.size() > kMostWarnings) warnings_.pop_front();
  } else if (const auto* end = std::get_if<metrics::End>(&record.what)) {
    state_ = end->reason;
  }
}

void View::take_start(const metrics::Start& start, std::int64_t iteration) {
  name_ = start.solver.path.empty() ? "run" : start.solver.path;
  numbers_.max_iter = start.max_iter;
  numbers_.iteration = iteration;
  iteration_ = iteration;
  state_.clear();
}

void View::take_train(const metrics::Train& train, std::int64_t iteration) {
  add_loss(kTraining, iteration, train.loss);
  iteration_ = std::max(iteration_, iteration + 1);
  numbers_.iteration =
      std::clamp(iteration + 1, numbers_.iteration, std::max(numbers_.iteration, numbers_.max_iter));
  numbers_.loss = train.loss;
  if (train.rate) numbers_.rate = *train.rate;
  take_outputs(train.outputs, kTraining, iteration);
  if (train.epoch) epoch_ = train.epoch;
  if (train.gradient_norm) gradient_norm_ = train.gradient_norm;
  const std::pair<const char*, std::optional<double>> own[] = {{"learning rate", train.rate},
                                                               {"gradient norm", train.gradient_norm},
                                                               {"samples/s", train.samples_per_second}};
  for (const auto& [title, value] : own)
    if (Chart* found = value ? chart(title) : nullptr) found->named(kTraining).curve.add(iteration, *value);
  if (std::none_of(train.devices.begin(), train.devices.end(), [](const auto& one) { return one.sampled; }))
    return;
  shares_.clear();
  for (const metrics::Train::Device& device : train.devices)
    if (device.sampled)
      shares_.push_back(
          {device.name, share_of(device, "compute"), share_of(device, "exposed"), share_of(device, "data")});
}

void View::take_test(const metrics::Test& test, std::int64_t iteration) {
  add_loss(test.name(), iteration, test.loss);
  take_outputs(test.outputs, test.name(), iteration);
}

void View::add_loss(const std::string& series, std::int64_t iteration, double loss) {
  Chart& losses = *chart(kLoss);
  losses.named(kTraining);  // first, though a test may come before it
  losses.named(series).curve.add(iteration, loss);
}

void View::take_outputs(const std::vector<metrics::Output>& outputs, const std::string& series,
                        std::int64_t iteration) {
  // The only weighted output of a net is its loss.
  const auto weighted = std::count_if(outputs.begin(), outputs.end(),
                                      [](const metrics::Output& output) { return output.weight != 0; });
  std::size_t left_out = 0;
  for (const metrics::Output& output : outputs) {
    if (weighted == 1 && output.weight != 0) continue;
    for (std::size_t i = 0; i < output.values.size(); ++i) {
      const std::string title = cat("output ", output.name, output.values.size() > 1 ? cat("/", i) : "");
      Chart* found = i < kMostComponents ? chart(title) : nullptr;
      if (found != nullptr)
        found->named(series).curve.add(iteration, output.values[i]);
      else
        ++left_out;
    }
  }
  left_out_ = std::max(left_out_, left_out);
}

Chart* View::chart(const std::string& title) {
  for (Chart& one : charts_)
    if (one.title == title) return &one;
  if (charts_.size() >= kMostCharts) return nullptr;
  if (title == kLoss) return &*charts_.insert(charts_.begin(), Chart{title, {}});
  return &charts_.emplace_back(Chart{title, {}});
}

std::vector<const Chart*> View::in_order() const {
  std::vector<const Chart*> order;
  for (const Chart& one : charts_) order.push_back(&one);
  const auto rank = [](const Chart* one) {
    if (one->title == kLoss) return 0;
    if (!one->title.starts_with("output ")) return 3;
    return one->series.size() > 1 || one->series[0].name != kTraining ? 1 : 2;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Chart* a, const Chart* b) { return rank(a) < rank(b); });
  return order;
}

void View::look_at(const RunBoard& board) {
  devices_ = board.devices();
  const ProgressNumbers now = board.progress();
  if (now.max_iter == 0) return;  // the run has not begun
  numbers_.max_iter = now.max_iter;
  numbers_.samples_per_second = now.samples_per_second;
  numbers_.seconds_left = now.seconds_left;
  if (now.iteration < numbers_.iteration) return;  // records say more
  numbers_ = now;
  // Between two records too: with a long way from one to the next there would be no curve.
  if (now.iteration > iteration_ && !charts_.empty()) {
    iteration_ = now.iteration;
    add_loss(kTraining, now.iteration - 1, now.loss);
  }
}

void View::draw_head(Canvas& canvas) const {
  const int width = canvas.width();
  for (int x = 0; x < width; ++x) canvas.set(x, 0, U'\u2500', Style::dim);
  int x = canvas.put(2, 0, " " + name_ + " ", Style::bold, width - 4);
  const double share =
      numbers_.max_iter > 0
          ? std::clamp(static_cast<double>(numbers_.iteration) / static_cast<double>(numbers_.max_iter), 0.0,
                       1.0)
          : 0;
  x = canvas.put(0, 1,
                 cat("Iteration ", numbers_.iteration, "/", numbers_.max_iter, " (",
                     static_cast<int>(100 * share), " %) "),
                 Style::bold);
  const std::string left = !state_.empty()              ? " " + state_
                           : numbers_.seconds_left >= 0 ? " " + duration_text(numbers_.seconds_left) + " left"
                                                        : "";
  const int end = std::max(x, width - static_cast<int>(left.size()));
  for (int i = x; i < end; ++i)
    canvas.set(i, 1, i - x < share * (end - x) ? U'\u2588' : U'\u2591',
               i - x < share * (end - x) ? Style::first : Style::dim);
  canvas.put(end, 1, left);
  std::string facts;
  const auto add = [&](const std::string& fact) { facts += (facts.empty() ? "" : "   ") + fact; };
  if (!charts_.empty()) add("loss " + short_number(numbers_.loss));
  if (numbers_.max_iter > 0 && !charts_.empty()) add("lr " + short_number(numbers_.rate));
  if (numbers_.samples_per_second > 0) add(speed_text(numbers_.samples_per_second));
  if (epoch_) add("epoch " + short_number(*epoch_));
  if (gradient_norm_) add("gradient norm " + short_number(*gradient_norm_));
  if (left_out_ > 0) add(cat(left_out_, " more outputs"));
  canvas.put(0, 2, facts.empty() && name_.empty() ? "The run is being set up." : facts);
}

void View::draw_charts(Canvas& canvas, int y, int height, const Look& look) const {
  const std::vector<const Chart*> order = in_order();
  if (order.empty() || height < kLeastChartHeight) return;
  const int most = static_cast<int>(order.size());
  const int across = std::clamp(canvas.width() / kLeastChartWidth, 1, std::min(most, 4));
  const int down = std::clamp(height / kUsualChartHeight, 1, (most + across - 1) / across);
  const int high = height / down;
  for (int i = 0; i < std::min(most, across * down); ++i) {
    const int left = i % across * canvas.width() / across, right = (i % across + 1) * canvas.width() / across;
    draw_chart(*order[static_cast<std::size_t>(i)], canvas, left, y + i / across * high,
               right - left - (i % across + 1 < across ? 2 : 0), high, look.utf8);
  }
}

void View::draw_devices(Canvas& canvas, int y, int count) const {
  const int all = static_cast<int>(devices_.size());
  const int shown = all > count ? count - 1 : all;
  int wide = 0;
  for (int i = 0; i < shown; ++i)
    wide = std::max(wide, static_cast<int>(devices_[static_cast<std::size_t>(i)].name.size()));
  wide = std::min(wide, 24);
  for (int i = 0; i < shown; ++i) {
    const RunBoard::Device& device = devices_[static_cast<std::size_t>(i)];
    canvas.put(0, y + i, device.name, Style::bold, wide);
    // Places that do not depend on the stage, so that nothing jumps.
    canvas.put(wide + 2, y + i, device.waiting ? "waits in" : "", Style::dim, 9);
    canvas.put(wide + 11, y + i, name_of(device.stage), Style::plain, 9);
    canvas.put(wide + 21, y + i, device.layer, Style::dim, 16);
    int x = wide + 39;
    for (const RunBoard::Queue& queue : device.queues) {
      if (queue.most == 0 || x >= canvas.width()) continue;
      constexpr int kBar = 8;
      const int bar = std::min(kBar, queue.most);
      x = canvas.put(x, y + i, queue.name + " ", Style::plain, 13);
      for (int k = 0; k < bar; ++k, ++x)
        canvas.set(x, y + i, k * queue.most < queue.filled * bar ? U'\u2588' : U'\u2591',
                   queue.filled == 0 ? Style::warning : Style::third);
      x = canvas.put(x + 1, y + i, cat(queue.filled, "/", queue.most)) + 2;
    }
    const auto found = std::find_if(shares_.begin(), shares_.end(),
                                    [&](const Shares& one) { return one.device == device.name; });
    if (found == shares_.end() || x >= canvas.width()) continue;
    // As much as fits: what is not compute says more.
    const std::string communication = percent(found->communication), data = "  data " + percent(found->data);
    for (const std::string& shares :
         {cat("compute ", percent(found->compute), "  communication ", communication, data),
          cat("communication ", communication, data), cat("comm. ", communication, data)})
      if (x + static_cast<int>(shares.size()) <= canvas.width()) {
        canvas.put(x, y + i, shares, Style::dim);
        break;
      }
  }
  if (all > shown) canvas.put(0, y + shown, cat("and ", all - shown, " more devices"), Style::dim);
}

void View::draw_warnings(Canvas& canvas, int y, int count) const {
  const std::size_t first = warnings_.size() - static_cast<std::size_t>(count);
  for (int i = 0; i < count; ++i) {
    const Warned& one = warnings_[first + static_cast<std::size_t>(i)];
    const std::size_t earlier = warning_count_ - static_cast<std::size_t>(count);
    canvas.put(0, y + i,
               cat("warning, iteration ", one.iteration,
                   i == 0 && earlier > 0 ? cat(" (", earlier, " earlier)") : "", ": ", one.text),
               Style::warning);
  }
}

std::vector<std::string> View::compact_rows(int width, int count, const Look& look) const {
  std::vector<std::string> facts = {cat(numbers_.iteration, "/", numbers_.max_iter),
                                    charts_.empty() ? "set-up" : "loss " + short_number(numbers_.loss)};
  if (!state_.empty())
    facts.push_back(state_);
  else if (numbers_.seconds_left >= 0)
    facts.push_back(duration_text(numbers_.seconds_left) + " left");
  if (!charts_.empty()) facts.push_back("lr " + short_number(numbers_.rate));
  if (numbers_.samples_per_second > 0) facts.push_back(speed_text(numbers_.samples_per_second));
  // As many as fit, none in part.
  Canvas canvas(width, count);
  int x = 0, y = 0;
  for (const std::string& fact : facts) {
    if (x > 0 && x + static_cast<int>(fact.size()) > width) x = 0, ++y;
    x = canvas.put(x, y, fact, Style::bold) + 2;
  }
  return canvas.rows(look);
}

std::vector<std::string> View::rows(Panel::Size terminal, const Look& look) const {
  constexpr int kHead = 3, kMostRows = 48;
  const int log = std::max(Panel::kLeast, terminal.rows / 4);
  const int height = std::clamp(terminal.rows - log, 0, kMostRows);
  if (terminal.columns < kLeastWidth || height < kHead + kLeastRows)
    return compact_rows(terminal.columns, std::min(height, 2), look);
  const int warned = std::min<int>(static_cast<int>(warnings_.size()), (height - kHead) / 5);
  const int devices =
      std::min<int>(static_cast<int>(devices_.size()), std::max(1, (height - kHead - warned) / 3));
  const int charts = charts_.empty() ? 0 : height - kHead - warned - devices;
  Canvas canvas(terminal.columns, kHead + charts + devices + warned);
  draw_head(canvas);
  draw_charts(canvas, kHead, charts, look);
  if (devices > 0) draw_devices(canvas, kHead + charts, devices);
  draw_warnings(canvas, kHead + charts + devices, warned);
  return canvas.rows(look);
}

std::vector<std::string> View::last_rows(int width, const Look& look) const {
  if (charts_.empty() || width < kLeastWidth) return {};
  Canvas canvas(width, kUsualChartHeight);
  draw_charts(canvas, 0, kUsualChartHeight, look);
  return canvas.rows(look);
}

}  // namespace banyan::live
