#include "vitals.hpp"

#include <set>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/normalization.hpp"
#include "early_warnings.hpp"

namespace banyan {

std::vector<int> rectifiers_of(const Net& net) {
  std::vector<int> found;
  for (std::size_t l = 0; l < net.layers().size(); ++l) {
    const ops::Activation& activation = net.layers()[l]->traits().activation;
    if (activation.kind == ops::Activation::Kind::relu && activation.slope == 0)
      found.push_back(static_cast<int>(l));
  }
  return found;
}

namespace {

/// What such a rectifier leaves in memory are the results of the dropout, which runs in the same step.
bool runs_its_dropout(const Net& net, int rectifier) {
  const Graph& graph = net.graph();
  for (const PlanStep& step : net.plan().steps)
    if (step.drop_layer >= 0 && graph.blobs[graph.layers[step.drop_layer].inputs[0]].producer == rectifier)
      return true;
  return false;
}

}  // namespace

Vitals::Vitals(Net& net, std::vector<Updater::OwnedPiece> owned)
    : net_(net),
      owned_(std::move(owned)),
      rectifiers_(rectifiers_of(net)),
      number_of_(net.layers().size(), -1),
      moments_(rectifiers_.size()) {
  for (std::size_t r = 0; r < rectifiers_.size(); ++r)
    number_of_[static_cast<std::size_t>(rectifiers_[r])] = static_cast<int>(r);
  for (const int rectifier : rectifiers_) dropped_.push_back(runs_its_dropout(net, rectifier));
  if (!owned_.empty()) squares_ = Tensor(net.context().device(), Shape{2 * std::ssize(owned_)}, DType::f64);
}

void Vitals::begin() {
  if (!rectifiers_.empty()) net_.probe_layers([this](int layer) { note(layer); });
}

void Vitals::end() {
  if (!rectifiers_.empty()) net_.probe_layers({});
}

/// Outputs are not negative, so a channel is dead where its mean is 0.
void Vitals::note(int layer) {
  const int number = number_of_[static_cast<std::size_t>(layer)];
  if (number < 0) return;
  const Tensor& values = net_.outputs_of(layer)[0]->data;
  if (!values.defined() || values.shape().axes() < 2) return;
  // Of few values, a dropout may have dropped all that are not 0.
  constexpr std::int64_t kEnough = 16;
  if (dropped_[static_cast<std::size_t>(number)] && values.count() / values.shape()[1] < kEnough) return;
  const Shape shape{1 + 2 * values.shape()[1]};
  Tensor& moments = moments_[static_cast<std::size_t>(number)];
  if (!moments.defined() || !(moments.shape() == shape))
    moments = Tensor(net_.context().device(), shape, DType::f64);
  ops::batch_moments(net_.context(), values, moments);
}

VitalSigns Vitals::read(Context& lane) {
  VitalSigns signs;
  signs.parameters.resize(net_.parameters().size());
  for (std::size_t i = 0; i < owned_.size(); ++i) {
    Tensor of_values = squares_.slice(2 * static_cast<std::int64_t>(i), Shape{1}),
           of_gradient = squares_.slice(2 * static_cast<std::int64_t>(i) + 1, Shape{1});
    ops::sum_of_squares(lane, owned_[i].value, of_values);
    if (owned_[i].gradient.defined())
      ops::sum_of_squares(lane, owned_[i].gradient, of_gradient);
    else
      ops::axpby(lane, 1, owned_[i].gradient_squares, 0, of_gradient);
  }
  if (!owned_.empty()) {
    std::vector<double> squares(2 * owned_.size());
    copy_to_host(lane, squares_, squares.data());
    for (std::size_t i = 0; i < owned_.size(); ++i) {
      const auto p = static_cast<std::size_t>(owned_[i].parameter);
      const double lr_mult = net_.parameters()[p].lr_mult;
      signs.parameters[p].values += squares[2 * i];
      signs.parameters[p].gradient += squares[2 * i + 1];
      signs.parameters[p].scaled_gradient += lr_mult * lr_mult * squares[2 * i + 1];
    }
  }
  for (const Tensor& moments : moments_) {
    std::vector<bool>& alive = signs.alive.emplace_back();
    if (!moments.defined()) continue;
    std::vector<double> values(static_cast<std::size_t>(moments.count()));
    copy_to_host(net_.context(), moments, values.data());
    if (values[0] == 0) continue;  // this device had no samples
    for (std::size_t c = 0; c < values.size() / 2; ++c) alive.push_back(values[1 + c] != 0);
  }
  return signs;
}

NotFinite find_not_finite(Net& net, Pass pass) {
  Context& context = net.context();
  Tensor result(context.device(), Shape{1}, DType::f64);
  const auto damaged = [&](const Tensor& values) {
    if (!values.defined() || values.count() == 0) return 0.0;
    double count = 0;
    ops::count_not_finite(context, values, result);
    copy_to_host(context, result, &count);
    return count;
  };
  std::set<std::string> layers, damaged_layers;
  std::string last;
  for (const LearnableParameter& parameter : net.parameters()) {
    layers.insert(parameter.layer);
    if (damaged(parameter.value) == 0) continue;
    damaged_layers.insert(parameter.layer);
    last = parameter.layer;
  }
  if (!damaged_layers.empty())
    return {cat(nor_parameters_of(damaged_layers.size(), layers.size(), last),
                ": a gradient before was not finite there or in a layer after it"),
            false};

  NotFinite found;
  net.probe_layers([&](int layer) {
    if (!found.text.empty()) return;
    const Layer& at = *net.layers()[static_cast<std::size_t>(layer)];
    for (const Blob* blob : net.outputs_of(layer))
      if (const double count = damaged(blob->data); count > 0 && found.text.empty())
        found = {cat("the first such values are in output ", quoted(blob->name), " of layer ",
                     quoted(at.name()), " (", at.type(), "): ", count, " of ", blob->data.count()),
                 at.traits().source};
  });
  pass.exchange = nullptr;
  pass.update_statistics = false;
  try {
    net.run(pass);
  } catch (...) {
    net.probe_layers({});
    throw;
  }
  net.probe_layers({});
  return found;
}

}  // namespace banyan
