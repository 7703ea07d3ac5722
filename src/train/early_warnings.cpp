#include "early_warnings.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan {
namespace {

// docs/guide.md, "Early warnings", says all of these.
constexpr int kInARow = 3;          ///< checks or displays that agree before something is said
constexpr double kDeadShare = 0.9;  ///< of a rectifier's channels
constexpr std::int64_t kFewSamples = 8;
constexpr double kFarBatch = 2;  ///< or its inverse: batch to the one that the rate is meant for
constexpr std::size_t kRises = 5;
constexpr std::int64_t kLossesOfAMean = 20;
constexpr double kSureErrors = 4;     ///< a rise is no accident beyond so many standard errors
constexpr double kLeastRise = 0.05;   ///< of the first mean
constexpr double kExploding = 100;    ///< times the largest norm before, while the loss rises,
constexpr double kWorse = 1.2;        ///< to this times the best mean so far
constexpr double kLargestStep = 0.5;  ///< of the norm of the weights
constexpr double kVanishing = 1e-6;   ///< of the median layer's ratio of gradient to weights
constexpr double kSmallRate = 1e-3;   ///< of the largest rate: steps may then be too small for rounding
constexpr std::size_t kTimes = 16;    ///< samples of the devices' times
// Of equal devices, disturbed at random, one is the slowest so often in 1 of 50 cases, and by kUnequal in
// fewer.
constexpr std::size_t kSameSlowest = 13;
constexpr double kUnequal = 1.25;
constexpr double kShortIteration = 1;  ///< milliseconds, below which times say nothing
constexpr double kStarved = 0.1;

/// Three significant digits.
std::string number(double value) {
  std::ostringstream out;
  out.precision(3);
  out << value;
  return out.str();
}

std::string percent(double share) { return cat(std::lround(100 * share), " %"); }

/// `layers "a", "b" and 3 more`
std::string naming(const std::vector<std::string>& layers) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(kMost, layers.size()); ++i) shown.push_back(quoted(layers[i]));
  std::string text = (layers.size() == 1 ? "layer " : "layers ") + join(shown, ", ");
  if (layers.size() > kMost) text += cat(" and ", layers.size() - kMost, " more");
  return text;
}

}  // namespace

void merge(const VitalSigns& of_device, VitalSigns& into) {
  if (into.parameters.empty()) into.parameters.resize(of_device.parameters.size());
  for (std::size_t p = 0; p < of_device.parameters.size(); ++p) {
    into.parameters[p].values += of_device.parameters[p].values;
    into.parameters[p].gradient += of_device.parameters[p].gradient;
    into.parameters[p].scaled_gradient += of_device.parameters[p].scaled_gradient;
  }
  if (into.alive.empty()) into.alive.resize(of_device.alive.size());
  for (std::size_t r = 0; r < of_device.alive.size(); ++r) {
    const std::vector<bool>& from = of_device.alive[r];
    std::vector<bool>& to = into.alive[r];
    if (to.size() < from.size()) to.resize(from.size());
    for (std::size_t c = 0; c < from.size(); ++c) to[c] = to[c] || from[c];
  }
}

std::string nor_parameters_of(std::size_t damaged, std::size_t layers, const std::string& last) {
  if (damaged == 1) return cat("nor are the parameters of layer ", quoted(last));
  return cat("nor are the parameters of ", damaged == layers ? "all" : cat(damaged, " of ", layers),
             " layers, the last of which is ", quoted(last));
}

std::optional<EarlyWarning> test_coverage(std::uint64_t records, std::uint64_t batch, int test_iter) {
  if (records == 0 || batch == 0) return std::nullopt;
  const std::uint64_t tested = batch * static_cast<std::uint64_t>(test_iter);
  const std::uint64_t needed = (records + batch - 1) / batch;
  if (tested < records)
    return EarlyWarning{"",
                        cat("a test takes ", tested, " of ", records, " records (test_iter ", test_iter,
                            " x batch ", batch, "); the next one takes those that follow"),
                        records % batch == 0
                            ? cat("test_iter: ", needed)
                            : cat("test_iter: ", needed, ", or a batch_size that divides ", records)};
  // What is left of a last batch begins again with the first records.
  if (tested >= records + batch || (tested > records && records % batch == 0))
    return EarlyWarning{"",
                        cat("a test takes ", tested, " records (test_iter ", test_iter, " x batch ", batch,
                            ") of ", records, ": some count more than once"),
                        cat("test_iter: ", needed)};
  return std::nullopt;
}

EarlyWarnings::EarlyWarnings(WarningFacts facts) : facts_(std::move(facts)) {
  std::map<std::string, int> known;
  for (const WarningFacts::Parameter& parameter : facts_.parameters) {
    if (!parameter.learns) {
      layer_of_.push_back(-1);
      continue;
    }
    const auto [entry, is_new] = known.emplace(parameter.layer, static_cast<int>(layers_.size()));
    if (is_new) layers_.emplace_back().name = parameter.layer;
    layer_of_.push_back(entry->second);
    layers_[static_cast<std::size_t>(entry->second)].has_matrix |= parameter.is_matrix;
  }
  dead_.resize(facts_.rectifiers.size());
}

bool EarlyWarnings::is_new(const std::string& cause) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return said_.insert(cause).second;
}

EarlyWarnings::Found EarlyWarnings::only_new(Found found) {
  std::erase_if(found, [&](const EarlyWarning& warning) { return !is_new(warning.cause); });
  return found;
}

void EarlyWarnings::restart() {
  for (LayerState& layer : layers_) {
    layer.last_values = layer.moved_at = -1;
    layer.largest_gradient = 0;
    layer.unreached = layer.unmoved = layer.vanished = 0;
  }
  for (std::vector<int>& channels : dead_) channels.clear();
  checks_ = displays_ = starved_ = 0;
  starved_sum_ = 0;
  pending_ = {};
  first_mean_.reset();
  best_mean_.reset();
  rising_.clear();
  own_times_.clear();
}

// --- before the first iteration ---

EarlyWarnings::Found EarlyWarnings::at_start() {
  Found found;
  judge_sources(found);
  judge_normalizations(found);
  judge_batch(found);
  return only_new(std::move(found));
}

void EarlyWarnings::judge_sources(Found& found) const {
  for (const WarningFacts::Source& source : facts_.sources) {
    if (source.test_iter == 0) continue;
    std::optional<EarlyWarning> coverage = test_coverage(source.records, source.batch, source.test_iter);
    if (!coverage) continue;
    coverage->cause = cat("coverage ", source.net, " ", source.layer);
    coverage->text = cat(source.net, ", layer ", quoted(source.layer), ": ", coverage->text);
    found.push_back(std::move(*coverage));
  }
}

void EarlyWarnings::judge_normalizations(Found& found) const {
  std::vector<std::string> few;
  std::int64_t least = kFewSamples, of_all = 0;
  for (const WarningFacts::Normalization& layer : facts_.normalizations) {
    if (layer.samples >= kFewSamples) continue;
    few.push_back(layer.layer);
    if (layer.samples >= least) continue;
    least = layer.samples;
    of_all = layer.of_all;
  }
  if (few.empty()) return;
  found.push_back({"batch norm",
                   cat("batch normalization takes its statistics from ", least,
                       least == 1 ? " sample" : " samples", " (", naming(few), "): so few make them noise"),
                   of_all > least ? cat("synchronize it: --sync_bn=on makes them of ", of_all,
                                        " samples; or a larger batch_size")
                                  : "a larger batch_size, or stored statistics (use_global_stats: true)"});
}

void EarlyWarnings::judge_batch(Found& found) const {
  const auto far = [](double ratio) { return ratio >= kFarBatch || ratio <= 1 / kFarBatch; };
  const auto samples = static_cast<double>(facts_.samples);
  if (facts_.stated_batch_size && facts_.samples > 0 && far(samples / *facts_.stated_batch_size)) {
    const double ratio = samples / *facts_.stated_batch_size;
    found.push_back({"batch of the rate",
                     cat("base_lr ", number(facts_.base_lr), " is meant for ", *facts_.stated_batch_size,
                         " samples per update (base_batch_size), but an update takes ", facts_.samples,
                         ": by the linear rule it would be ", number(facts_.base_lr * ratio)),
                     "lr_scaling: LINEAR does that, best with warmup_iter; or correct base_batch_size"});
  } else if (facts_.samples_before && *facts_.samples_before > 0 && !facts_.scales_rate &&
             far(samples / *facts_.samples_before)) {
    const double ratio = samples / *facts_.samples_before;
    found.push_back({"batch of the rate",
                     cat("an update takes ", facts_.samples, " samples, before the snapshot it took ",
                         number(*facts_.samples_before), " on average: by the linear rule base_lr would be ",
                         number(ratio), " times what it was"),
                     cat("base_lr times ", number(ratio),
                         ", unless that is done already; or lr_scaling: LINEAR with "
                         "base_batch_size: ",
                         std::lround(*facts_.samples_before))});
  }
}

// --- at a display ---

EarlyWarnings::Found EarlyWarnings::look(const Observed& observed, const metrics::Train& train) {
  Found found;
  largest_rate_ = std::max(largest_rate_, observed.rate);
  judge_finite(observed, train, found);
  if (found.empty()) {  // otherwise nothing about the values is news
    judge_losses(observed, found);
    judge_layers(observed, train, found);
    judge_rectifiers(observed, found);
  }
  judge_balance(train, found);
  judge_input(train, found);
  ++displays_;
  return only_new(std::move(found));
}

void EarlyWarnings::judge_finite(const Observed& observed, const metrics::Train& train, Found& found) const {
  const bool gradients = train.gradient_norm && !std::isfinite(*train.gradient_norm);
  if (!observed.losses.first_not_finite && !gradients) return;
  std::set<std::string> damaged, all;
  std::string last;
  for (std::size_t p = 0; p < observed.vitals.parameters.size(); ++p) {
    if (layer_of_[p] < 0) continue;
    const std::string& layer = facts_.parameters[p].layer;
    all.insert(layer);
    if (std::isfinite(observed.vitals.parameters[p].values)) continue;
    damaged.insert(layer);
    last = layer;
  }
  std::string text = observed.losses.first_not_finite
                         ? cat("the loss is not finite since iteration ", *observed.losses.first_not_finite)
                         : cat("the gradient of iteration ", observed.iteration, " is not finite");
  if (!damaged.empty()) text += "; " + nor_parameters_of(damaged.size(), all.size(), last);
  found.push_back({kNotFinite, text,
                   cat(kGentler, "; --check_nan from the last snapshot names the layer where it begins")});
}

void EarlyWarnings::judge_losses(const Observed& observed, Found& found) {
  pending_.add(observed.losses);
  if (pending_.count < kLossesOfAMean) return;
  const auto count = static_cast<double>(pending_.count);
  Mean mean{pending_.sum / count, 0, observed.iteration};
  mean.error = std::sqrt(std::max(0.0, pending_.squares / count - mean.value * mean.value) / count);
  pending_ = {};
  if (!first_mean_) first_mean_ = mean;
  best_mean_ = std::min(best_mean_.value_or(mean.value), mean.value);
  if (!rising_.empty() && mean.value <= rising_.back().value) rising_.clear();
  rising_.push_back(mean);
  if (rising_.size() <= kRises) return;
  const Mean& first = rising_.front();
  const double rise = mean.value - first.value;
  if (rise > kSureErrors * std::hypot(first.error, mean.error) &&
      rise > kLeastRise * std::abs(first_mean_->value))
    found.push_back(
        {"rising loss",
         cat("the loss has risen in each of the last ", rising_.size() - 1, " intervals, from ",
             number(first.value), " up to iteration ", first.last, " to ", number(mean.value), " (means)"),
         cat(kGentler, "; go on from an earlier snapshot")});
}

void EarlyWarnings::judge_layers(const Observed& observed, const metrics::Train& train, Found& found) {
  const auto& squares = observed.vitals.parameters;
  if (squares.empty() || observed.rate <= 0) return;
  std::vector<VitalSigns::Squares> sums(layers_.size());
  for (std::size_t p = 0; p < squares.size(); ++p) {
    if (layer_of_[p] < 0) continue;
    VitalSigns::Squares& sum = sums[static_cast<std::size_t>(layer_of_[p])];
    sum.values += squares[p].values;
    sum.gradient += squares[p].gradient;
    sum.scaled_gradient += squares[p].scaled_gradient;
  }
  for (const VitalSigns::Squares& sum : sums)
    if (!std::isfinite(sum.values + sum.gradient)) return;

  const double clipped =
      facts_.clip_norm && train.gradient_norm ? std::min(1.0, *facts_.clip_norm / *train.gradient_norm) : 1;
  const double rate = observed.rate * clipped / facts_.iter_size;
  const double loss = observed.losses.count > 0
                          ? observed.losses.sum / static_cast<double>(observed.losses.count)
                          : train.loss;
  const bool worse = best_mean_ && loss > *best_mean_ + (kWorse - 1) * std::abs(*best_mean_);
  std::vector<double> ratios;
  for (const VitalSigns::Squares& sum : sums)
    if (sum.values > 0 && sum.gradient > 0) ratios.push_back(std::sqrt(sum.gradient / sum.values));
  std::sort(ratios.begin(), ratios.end());
  const double median = ratios.empty() ? 0 : ratios[ratios.size() / 2];

  std::vector<std::string> grown, stepping, vanished, unreached, unmoved;
  double growth = 0, step = 0, share = 1;
  std::int64_t since = observed.iteration;
  for (std::size_t l = 0; l < sums.size(); ++l) {
    LayerState& layer = layers_[l];
    const double gradient = std::sqrt(sums[l].gradient), values = std::sqrt(sums[l].values);
    if (worse && layer.largest_gradient > 0 && gradient > kExploding * layer.largest_gradient) {
      grown.push_back(layer.name);
      growth = std::max(growth, gradient / layer.largest_gradient);
    }
    layer.largest_gradient = std::max(layer.largest_gradient, gradient);
    const double move = values > 0 ? rate * std::sqrt(sums[l].scaled_gradient) / values : 0;
    if (facts_.steps_by_gradient && layer.has_matrix && checks_ > 0 && move > kLargestStep) {
      stepping.push_back(layer.name);
      step = std::max(step, move);
    }
    const bool small = values > 0 && gradient > 0 && gradient / values < kVanishing * median;
    layer.vanished = small ? layer.vanished + 1 : 0;
    if (layer.vanished >= kInARow) {
      vanished.push_back(layer.name);
      share = std::min(share, gradient / values / median);
    }
    layer.unreached = gradient == 0 ? layer.unreached + 1 : 0;
    const bool still = sums[l].values == layer.last_values && observed.rate > kSmallRate * largest_rate_;
    layer.unmoved = still ? layer.unmoved + 1 : 0;
    if (!still) layer.moved_at = observed.iteration;
    layer.last_values = sums[l].values;
    const std::string cause = "still " + layer.name;
    if (layer.unreached >= kInARow && is_new(cause)) {
      unreached.push_back(layer.name);
    } else if (layer.unmoved >= kInARow && layer.vanished < kInARow && is_new(cause)) {
      unmoved.push_back(layer.name);
      since = std::min(since, layer.moved_at);
    }
  }
  ++checks_;
  if (!stepping.empty())
    found.push_back({"exploding",
                     cat("gradients explode: the one of iteration ", observed.iteration, " would move ",
                         naming(stepping), " by ", number(step), " times the norm of the weights"),
                     cat(kGentler, "; a smaller weight_filler for that layer")});
  else if (!grown.empty())
    found.push_back(
        {"exploding",
         cat("gradients explode: at iteration ", observed.iteration, " the norm in ", naming(grown), " is ",
             number(growth), " times the largest before, and the loss rises"),
         kGentler});
  if (!vanished.empty())
    found.push_back({"vanishing",
                     cat("gradients vanish: in ", naming(vanished), " they are ", number(share),
                         " of what they are in the median layer, relative to the weights"),
                     "ReLU in place of Sigmoid or TanH, msra or xavier as weight_filler, batch "
                     "normalization, or shortcuts "
                     "(Eltwise)"});
  // The name tells them apart: those of other layers may come later.
  if (!unreached.empty())
    found.push_back(
        {cat("no gradient ", unreached[0]),
         cat("no gradient reaches ", naming(unreached), ": it was 0 in the last ", kInARow, " checks"),
         "look for dead ReLUs or propagate_down: false after it, and loss_weight: 0; lr_mult: 0 says that it "
         "is meant to stay"});
  if (!unmoved.empty())
    found.push_back({cat("no movement ", unmoved[0]),
                     cat("the weights of ", naming(unmoved), " have not moved since iteration ", since,
                         ", though gradients reach them: each step is lost in rounding"),
                     "a larger base_lr or lr_mult; lr_mult: 0 says that they are meant to stay"});
}

void EarlyWarnings::judge_rectifiers(const Observed& observed, Found& found) {
  std::vector<std::string> dead;
  double largest = 0;
  for (std::size_t r = 0; r < observed.vitals.alive.size(); ++r) {
    const std::vector<bool>& alive = observed.vitals.alive[r];
    if (alive.empty()) continue;
    std::vector<int>& checks = dead_[r];
    checks.resize(alive.size());
    std::size_t count = 0;
    for (std::size_t c = 0; c < alive.size(); ++c) {
      checks[c] = alive[c] ? 0 : checks[c] + 1;
      count += checks[c] >= kInARow ? 1 : 0;
    }
    const double share = static_cast<double>(count) / static_cast<double>(alive.size());
    if (share <= kDeadShare || !is_new("dead " + facts_.rectifiers[r])) continue;
    dead.push_back(facts_.rectifiers[r]);
    largest = std::max(largest, share);
  }
  if (dead.empty()) return;
  found.push_back({cat("dead channels ", dead[0]),
                   cat("dead ReLUs: in ", naming(dead), dead.size() > 1 ? " up to " : " ", percent(largest),
                       " of the channels gave 0 for every sample of the last ", kInARow, " checks"),
                   "a smaller base_lr or a warm-up (warmup_iter), msra as weight_filler of the layer before, "
                   "batch normalization, or "
                   "negative_slope: 0.01"});
}

void EarlyWarnings::judge_balance(const metrics::Train& train, Found& found) {
  if (train.devices.size() < 2) return;
  std::vector<double> own;
  for (const metrics::Train::Device& device : train.devices) {
    double iteration = 0, skew = 0;
    for (const auto& [key, value] : device.milliseconds) {
      if (key == "iteration") iteration = value;
      if (key == "exposed_skew") skew = value;
    }
    if (iteration < kShortIteration) return;
    own.push_back(iteration - skew);
  }
  own_times_.push_back(std::move(own));
  if (own_times_.size() > kTimes) own_times_.pop_front();
  if (own_times_.size() < kTimes) return;
  // Medians: a single iteration that something held up says nothing of the device.
  std::vector<double> usual;
  for (std::size_t d = 0; d < train.devices.size(); ++d) {
    std::vector<double> times;
    for (const std::vector<double>& sample : own_times_) times.push_back(sample[d]);
    std::nth_element(times.begin(), times.begin() + kTimes / 2, times.end());
    usual.push_back(times[kTimes / 2]);
  }
  const auto last = std::max_element(usual.begin(), usual.end()) - usual.begin();
  const auto slowest =
      static_cast<std::size_t>(std::count_if(own_times_.begin(), own_times_.end(), [&](const auto& times) {
        return std::max_element(times.begin(), times.end()) - times.begin() == last;
      }));
  const double its_own = usual[static_cast<std::size_t>(last)];
  double others = 0;
  for (const double one : usual) others += one;
  others = (others - its_own) / static_cast<double>(usual.size() - 1);
  if (slowest < kSameSlowest || its_own < kUnequal * others) return;
  found.push_back(
      {"balance",
       cat("devices are out of balance: ", train.devices[static_cast<std::size_t>(last)].name, " needs ",
           number(its_own), " ms for an iteration, the others ", number(others), " and then wait for it"),
       "look for other programs on it (trainer doctor); devices of one model with batches of one size"});
}

void EarlyWarnings::judge_input(const metrics::Train& train, Found& found) {
  double largest = 0;
  std::string device_name;
  for (const metrics::Train::Device& device : train.devices) {
    double share = device.waiting_for_data.value_or(0), iteration = 0, data = 0;
    for (const auto& [key, value] : device.milliseconds) {
      if (key == "iteration") iteration = value;
      if (key == "data") data = value;
    }
    if (iteration > 0 && iteration < kShortIteration) continue;
    // A GPU works on while its host waits: what is lost is what the sampled iteration lost.
    if (iteration > 0) share = std::min(share, data / iteration);
    if (share <= largest) continue;
    largest = share;
    device_name = device.name;
  }
  // At first batches come from a cold disk.
  if (displays_ < 2 || largest <= kStarved) {
    starved_ = 0;
    starved_sum_ = 0;
    return;
  }
  starved_sum_ += largest;
  if (++starved_ < kInARow) return;
  const double share = std::min(starved_sum_ / starved_, 0.99);
  std::vector<std::string> settings;
  double threads = 0;
  for (const WarningFacts::Source& source : facts_.sources) {
    if (source.net != "train") continue;
    const double needed = std::ceil(source.threads / (1 - share));
    threads += needed;
    if (source.takes_threads)
      settings.push_back(
          cat("threads: ", needed, " in layer ", quoted(source.layer), " (now ", source.threads, ")"));
  }
  threads *= static_cast<double>(train.devices.size());
  const bool fits = !settings.empty() && threads <= facts_.cores;
  found.push_back({"input",
                   cat("starved by data: ", device_name, " has waited for batches in ", percent(share),
                       " of the time of the last ", starved_, " displays"),
                   cat(fits ? join(settings, ", ")
                       : settings.empty()
                           ? "a Data layer on an LMDB, which prepares batches in several threads"
                           : cat("keeping up would take ", threads, " threads, this process may use ",
                                 facts_.cores, " cores: smaller stored images, or decoded ones in an LMDB"),
                       "; trainer time --data shows what is slow")});
}

}  // namespace banyan
