#include "parameter_meter.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "banyan/io/array_names.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

/// Elements that are copied together.
constexpr std::int64_t kBlock = 64;
constexpr std::int64_t kSquares = 4;

/// Values that a sample takes of `count`, in whole blocks unless it takes all.
std::int64_t sampled_of(std::int64_t count, std::int64_t most) {
  return count <= std::max(most, kBlock) ? count : std::max(most / kBlock, std::int64_t{1}) * kBlock;
}

template <class T>
void add_values(const ParameterSample& sample, std::size_t first, std::int64_t count,
                metrics::HistogramMaker& to) {
  const auto* bytes = static_cast<const char*>(sample.values.get()) + first;
  to.add(std::span(reinterpret_cast<const T*>(bytes), static_cast<std::size_t>(count)));
}

void add_values(const ParameterSample& sample, std::size_t first, std::int64_t count,
                metrics::HistogramMaker& to) {
  dispatch_float(sample.dtype, "a histogram", [&]<class T>() { add_values<T>(sample, first, count, to); });
}

}  // namespace

std::vector<ParameterName> parameter_names(const Net& net) {
  std::map<std::string, std::vector<std::string>> of_layers;
  for (const auto& layer : net.layers()) {
    std::vector<std::size_t> counts;
    for (const Parameter& parameter : layer->parameters())
      counts.push_back(static_cast<std::size_t>(parameter.shape.count()));
    of_layers.emplace(layer->name(),
                      io::blob_names(layer->name(), layer->type(), counts, io::NameStyle::torch));
  }
  std::vector<ParameterName> names;
  for (const LearnableParameter& parameter : net.parameters())
    names.push_back({of_layers.at(parameter.layer).at(static_cast<std::size_t>(parameter.slot)),
                     parameter.layer, parameter.slot, parameter.is_statistic});
  return names;
}

ParameterMeter::ParameterMeter(Context& context, const Net& net,
                               const std::vector<Updater::OwnedPiece>& owned, bool statistics)
    : context_(context), sample_(std::make_shared<ParameterSample>()) {
  sample_->dtype = net.options().dtype;
  for (const Updater::OwnedPiece& piece : owned) {
    // Each piece takes its part of the values that are sampled of the whole.
    const std::int64_t count = piece.value.count(), whole = net.parameters()[piece.parameter].count;
    add(piece.parameter, true, piece.value, piece.gradient, kMostSampled * count / whole);
  }
  for (std::size_t p = 0; p < net.parameters().size() && statistics; ++p)
    if (net.parameters()[p].is_statistic)
      add(static_cast<int>(p), false, net.parameters()[p].value, {}, kMostSampled);

  Device& device = context.device();
  std::int64_t owned_values = 0, sampled = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    ParameterSample::Piece& piece = sample_->pieces[i];
    piece.squares = i * kSquares;
    piece.values = static_cast<std::size_t>(sampled) * size_of(sample_->dtype);
    sampled += piece.sampled;
    if (!piece.learns) continue;
    piece.gradients = static_cast<std::size_t>(sampled) * size_of(sample_->dtype);
    sampled += piece.sampled;
    owned_values += piece.count;
  }
  if (sources_.empty()) return;
  squares_ = Tensor(device, Shape{std::ssize(sources_) * kSquares}, DType::f64);
  staging_ = Tensor(device, Shape{sampled}, sample_->dtype);
  sample_->squares = device.allocate_host(squares_.bytes());
  sample_->values = device.allocate_host(staging_.bytes());
  sample_->copied = device.create_event();
  if (owned_values == 0) return;
  before_ = Tensor(device, Shape{owned_values}, sample_->dtype);
  std::int64_t at = 0;
  for (Source& source : sources_) {
    if (!source.gradient.defined()) continue;
    source.before = before_.slice(at, Shape{source.value.count()});
    at += source.value.count();
  }
}

void ParameterMeter::add(int parameter, bool learns, const Tensor& value, const Tensor& gradient,
                         std::int64_t most) {
  if (value.count() == 0) return;
  ParameterSample::Piece piece;
  piece.parameter = parameter;
  piece.count = value.count();
  piece.learns = learns;
  piece.sampled = sampled_of(piece.count, most);
  sample_->pieces.push_back(piece);
  sources_.push_back({value.reshaped(Shape{value.count()}), gradient, {}});
}

bool ParameterMeter::begin() {
  if (busy_->load(std::memory_order_acquire)) return false;
  for (Source& source : sources_)
    if (source.before.defined()) ops::axpby(context_, 1, source.value, 0, source.before);
  return true;
}

/// Appends `count` of the values of `from` to the staging memory.
void ParameterMeter::sample(const Tensor& from, std::int64_t count, std::int64_t& at) {
  const bool all = count == from.count();
  const std::int64_t blocks = all ? 1 : count / kBlock, length = all ? count : kBlock;
  ops::copy_blocks(context_, from, staging_, {blocks, length, 0, from.count() / blocks, at, length});
  at += count;
}

std::shared_ptr<const ParameterSample> ParameterMeter::end() {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    Source& source = sources_[i];
    auto sum = [&, k = static_cast<std::int64_t>(i) * kSquares](const Tensor& of) mutable {
      Tensor result = squares_.slice(k++, Shape{1});
      ops::sum_of_squares(context_, of, result);
    };
    sum(source.value);
    sample(source.value, sample_->pieces[i].sampled, at);
    if (!source.before.defined()) continue;
    sum(source.before);
    ops::axpby(context_, 1, source.value, -1, source.before);
    sum(source.before);
    sum(source.gradient);
    sample(source.gradient, sample_->pieces[i].sampled, at);
  }
  if (!sources_.empty()) {
    context_.stream().copy(sample_->values.get(), staging_.raw(), staging_.bytes());
    context_.stream().copy(sample_->squares.get(), squares_.raw(), squares_.bytes());
    context_.stream().record(*sample_->copied);
  }
  busy_->store(true, std::memory_order_relaxed);
  return {sample_.get(), [sample = sample_, busy = busy_](const ParameterSample*) {
            busy->store(false, std::memory_order_release);
          }};
}

metrics::Parameters measure_parameters(const std::vector<ParameterName>& names,
                                       const std::vector<std::shared_ptr<const ParameterSample>>& parts) {
  for (const auto& part : parts)
    if (part->copied) part->copied->synchronize();
  metrics::Parameters measured;
  for (std::size_t p = 0; p < names.size(); ++p) {
    metrics::Parameters::Entry entry;
    entry.name = names[p].name;
    entry.layer = names[p].layer;
    entry.index = names[p].index;
    entry.statistic = names[p].statistic;
    metrics::HistogramMaker values, gradients;
    double squares[kSquares] = {};
    bool learns = false;
    for (const auto& part : parts)
      for (const ParameterSample::Piece& piece : part->pieces) {
        if (piece.parameter != static_cast<int>(p)) continue;
        entry.count += piece.count;
        learns = piece.learns;
        const double* const of_piece = static_cast<const double*>(part->squares.get()) + piece.squares;
        for (std::int64_t k = 0; k < (learns ? kSquares : 1); ++k) squares[k] += of_piece[k];
        add_values(*part, piece.values, piece.sampled, values);
        if (learns) add_values(*part, piece.gradients, piece.sampled, gradients);
      }
    if (entry.count == 0) continue;  // frozen
    entry.norm = std::sqrt(squares[0]);
    entry.values = values.make();
    if (learns) {
      entry.gradients = gradients.make();
      entry.gradient_norm = std::sqrt(squares[3]);
      // From zeros no ratio leads anywhere.
      if (squares[1] > 0) entry.update_ratio = std::sqrt(squares[2] / squares[1]);
    }
    measured.entries.push_back(std::move(entry));
  }
  return measured;
}

}  // namespace banyan
