#include "train/commands/time_report.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan {
namespace {

/// a += b * factor
void add(IterationShares& a, const IterationShares& b, double factor) {
  constexpr double IterationShares::*kMembers[] = {&IterationShares::total,      &IterationShares::compute,
                                                   &IterationShares::statistics, &IterationShares::divisors,
                                                   &IterationShares::gradients,  &IterationShares::update,
                                                   &IterationShares::data,       &IterationShares::other,
                                                   &IterationShares::hidden,     &IterationShares::skew};
  for (const auto member : kMembers) a.*member += b.*member * factor;
}

std::string fixed(double value, int decimals, int width) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(decimals) << std::setw(width) << value;
  return out.str();
}

std::string line_of(const TimeReport& report, const ShareFigure& row, const IterationShares& mean) {
  std::string title = row.title;
  title.resize(26, ' ');
  const double value = row.value(mean);
  std::string line = cat(title, fixed(value, 3, 10), " ms", fixed(100 * value / mean.total, 1, 7), " %   ");
  for (const IterationShares& device : report.shares) line += fixed(row.value(device), 3, 10);
  return line;
}

std::string json_of(const IterationShares& shares) {
  std::vector<std::string> items;
  for (const ShareFigure& row : share_figures())
    items.push_back(cat("\"", row.key, "\": ", row.value(shares)));
  return "{" + join(items, ", ") + "}";
}

/// Adds a device's layers, in the same order on every device.
void add_layers(const std::vector<LayerTime>& of_device, double factor, std::vector<LayerTime>& mean) {
  for (const LayerTime& layer : of_device) {
    auto found =
        std::find_if(mean.begin(), mean.end(), [&](const auto& known) { return known.layer == layer.layer; });
    if (found == mean.end()) found = mean.insert(mean.end(), LayerTime{layer.layer});
    found->forward += layer.forward * factor;
    found->backward += layer.backward * factor;
  }
}

}  // namespace

TimeReport report_times(const Timeline& timeline, int warm_up) {
  TimeReport report;
  report.devices = timeline.devices();
  const SpansOfDevices spans = spans_of(timeline);
  std::vector<std::vector<IterationShares>> shares = measure_overlap(spans);
  const auto devices = static_cast<double>(spans.size());
  for (std::size_t device = 0; device < spans.size(); ++device) {
    std::vector<IterationShares>& iterations = shares[device];
    std::erase_if(iterations, [&](const auto& one) { return one.iteration < warm_up; });
    IterationShares& mean = report.shares.emplace_back();
    const auto count = static_cast<double>(iterations.size());
    for (const IterationShares& one : iterations) add(mean, one, 1 / count);
    report.iterations = static_cast<int>(iterations.size());
    if (device == 0 && count > 0)
      report.elapsed = static_cast<double>(iterations.back().begin - iterations.front().begin) / 1e6 +
                       iterations.back().total;
    if (count > 0) add_layers(measure_layers(spans[device], warm_up), 1 / (count * devices), report.layers);
  }
  return report;
}

IterationShares mean_shares(const TimeReport& report) {
  IterationShares mean;
  for (const IterationShares& device : report.shares)
    add(mean, device, 1 / static_cast<double>(report.shares.size()));
  return mean;
}

std::vector<std::string> share_lines(const TimeReport& report) {
  std::string names;
  for (const std::string& name : report.devices)
    names += std::string(std::max<std::size_t>(name.size(), 10) - name.size(), ' ') + name;
  std::vector<std::string> lines = {cat("Shares of an iteration (mean of ", report.iterations,
                                        "), mean and each device:", std::string(1, ' '), names)};
  const IterationShares mean = mean_shares(report);
  for (const ShareFigure& row : share_figures()) lines.push_back(line_of(report, row, mean));
  return lines;
}

std::string time_json(const TimeReport& report) {
  std::ostringstream out;
  out << "{\"devices\": " << json_strings(report.devices) << ",\n \"iterations\": " << report.iterations
      << ", \"samples_per_iteration\": " << report.samples_per_iteration
      << ",\n \"milliseconds\": " << json_of(mean_shares(report)) << ",\n \"of_each_device\": [";
  for (std::size_t i = 0; i < report.shares.size(); ++i)
    out << (i > 0 ? ",\n  " : "") << json_of(report.shares[i]);
  out << "],\n \"layers\": [";
  for (std::size_t i = 0; i < report.layers.size(); ++i)
    out << (i > 0 ? ",\n  " : "") << "{\"name\": " << json_string(report.layers[i].layer)
        << ", \"forward\": " << report.layers[i].forward << ", \"backward\": " << report.layers[i].backward
        << "}";
  out << "]}\n";
  return out.str();
}

}  // namespace banyan
