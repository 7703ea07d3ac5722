#include "banyan/train/updater.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/tiles.hpp"
#include "banyan/tensor/values.hpp"
#include "banyan/train/learning_rate.hpp"

namespace banyan {
namespace {

/// Of NVIDIA's larc_turbo; its SAG begins with the third iteration.
constexpr double kCosineShare = 0.05;

Tensor zeros(Context& context, std::int64_t count, DType dtype) {
  Tensor tensor(context.device(), Shape{count}, dtype);
  ops::fill(context, tensor, 0);
  return tensor;
}

double decay_of(const UpdateSettings& settings, const Sparsity::Decay& decay) {
  using Kind = Sparsity::Kind;
  const double of_all = decay.kind == Kind::breadth        ? settings.breadth_decay
                        : decay.kind == Kind::kernel_shape ? settings.kernel_shape_decay
                                                           : settings.block_group_decay;
  return of_all * decay.mult;
}

/// AdamW's and LAMB's decay is no part of the gradient.
void check_regularization(const UpdateSettings& settings, const LearnableParameter& parameter) {
  if (parameter.l1 && (settings.rule == ops::UpdateRule::adamw || settings.rule == ops::UpdateRule::lamb))
    bad_input("layer ", quoted(parameter.layer), ", `param` entry ", parameter.slot,
              ": a regularization_type of its own cannot be used with ", banyan::name_of(settings.rule),
              ", whose decay is not part of the gradient");
}

}  // namespace

bool needs_whole_parameters(const UpdateSettings& settings,
                            const std::vector<LearnableParameter>& parameters) {
  const auto has_groups = [&](const LearnableParameter& parameter) {
    const auto& [decays, held] = parameter.sparsity;
    return std::any_of(held.begin(), held.end(),
                       [](const ops::Tiling& tiling) { return !tiling.of_one(); }) ||
           std::any_of(decays.begin(), decays.end(),
                       [&](const Sparsity::Decay& decay) { return decay_of(settings, decay) != 0; });
  };
  return settings.needs_norms() || std::any_of(parameters.begin(), parameters.end(), has_groups);
}

Updater::Updater(Context& context, const SolverSettings& solver,
                 const std::vector<LearnableParameter>& parameters,
                 const std::vector<parallel::Bucket>& buckets, int rank, const Tensor& flat_values,
                 const Tensor& flat_gradients)
    : settings_(solver.update),
      max_iter_(solver.max_iter),
      iter_size_(solver.iter_size),
      parameters_(parameters),
      owned_(buckets.size()),
      values_on_device_(context.device()),
      histories_(histories_of(solver.update.rule)),
      values_of_scaled_(context.device()) {
  step_.rule = settings_.rule;
  values_.momentum2 = settings_.momentum2;
  step_.rms_decay = settings_.rms_decay;
  step_.delta = settings_.delta;
  const bool stays = flat_gradients.defined();
  std::int64_t longest = 0, longest_sparse = 0, sums = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const parallel::Bucket& bucket = buckets[b];
    if (bucket.owner != rank) continue;
    const Tensor history = zeros(context, bucket.count, flat_values.dtype());
    const Tensor history2 = histories_ == 2 ? zeros(context, bucket.count, flat_values.dtype()) : Tensor();
    if (stays) owned_[b].gradient = flat_gradients.slice(bucket.offset, Shape{bucket.count});
    sums += stays ? 1 : 0;
    owned_[b].offset = bucket.offset;
    owned_[b].histories.push_back(history);
    if (histories_ == 2) owned_[b].histories.push_back(history2);
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const LearnableParameter& parameter = parameters_[p];
      if (parameter.is_statistic || parameter.offset < 0) continue;
      const std::int64_t first = std::max(parameter.offset, bucket.offset);
      const std::int64_t last = std::min(parameter.offset + parameter.count, bucket.offset + bucket.count);
      if (first >= last) continue;
      const Shape length{last - first};
      owned_[b].pieces.push_back(
          {static_cast<int>(p),
           first - parameter.offset,
           parameter.lr_mult,
           parameter.decay_mult,
           flat_values.slice(first, length),
           stays ? flat_gradients.slice(first, length) : Tensor(),
           history.slice(first - bucket.offset, length),
           histories_ == 2 ? history2.slice(first - bucket.offset, length) : Tensor(),
           settings_.needs_norms() ? Tensor(context.device(), Shape{settings_.larc_turbo ? 4 : 2}, DType::f64)
                                   : Tensor(),
           Tensor(),
           Tensor(),
           {},
           {}});
      check_regularization(settings_, parameter);
      find_tiles(context, owned_[b].pieces.back());
      if (owned_[b].pieces.back().is_sparse()) longest_sparse = std::max(longest_sparse, last - first);
      longest = std::max(longest, last - first);
      sums += stays ? 0 : 1;
    }
  }
  if (settings_.larc_turbo)
    for (Owned& owned : owned_) {
      if (owned.pieces.empty()) continue;
      owned.cosines = zeros(context, std::ssize(owned.pieces), DType::f64);
      for (std::size_t i = 0; i < owned.pieces.size(); ++i)
        owned.pieces[i].cosine = owned.cosines.slice(static_cast<std::int64_t>(i), Shape{1});
    }
  sums_ = zeros(context, std::max<std::int64_t>(sums, 1), DType::f64);
  std::int64_t place = 0;
  for (Owned& owned : owned_)
    for (Piece& piece : owned.pieces)
      if (!stays) piece.gradient_squares = sums_.slice(place++, Shape{1});
  if (settings_.rule == ops::UpdateRule::lamb) direction_ = zeros(context, longest, flat_values.dtype());
  if (longest_sparse > 0) scaled_ = zeros(context, longest_sparse, flat_values.dtype());
}

void Updater::find_tiles(Context& context, Piece& piece) const {
  const LearnableParameter& parameter = parameters_[static_cast<std::size_t>(piece.parameter)];
  const auto with_squares = [&](const ops::Tiling& tiling, double decay) -> Tiles {
    return {tiling, Tensor(context.device(), Shape{tiling.tiles()}, DType::f64), decay};
  };
  for (const Sparsity::Decay& decay : parameter.sparsity.decays)
    if (const double size = decay_of(settings_, decay); size != 0)
      piece.decaying.push_back(with_squares(decay.tiling, size));
  for (const ops::Tiling& tiling : parameter.sparsity.held)
    piece.held.push_back(tiling.of_one() ? Tiles{tiling, Tensor()} : with_squares(tiling, 0));
}

void Updater::begin(Context& context, std::int64_t iteration, double rate) {
  values_.rate = rate;
  values_.momentum = momentum_at(settings_, iteration, max_iter_, rate);
  values_.weight_decay = weight_decay_at(settings_, iteration, max_iter_);
  if (ops::corrects_bias(settings_.rule)) ops::correct_bias(values_, iteration + 1);
  values_.cosine_share = settings_.rule == ops::UpdateRule::sag && iteration < 2 ? 0 : kCosineShare;
  set_gradient_factor(context, 1);
}

void Updater::set_gradient_factor(Context& context, double factor) {
  values_.gradient_scale = factor / iter_size_;
  values_on_device_.write(context, values_);
  if (!scaled_.defined()) return;
  ops::UpdateValues of_scaled = values_;
  of_scaled.gradient_scale = 1;
  values_of_scaled_.write(context, of_scaled);
}

Tensor Updater::gradient_of(const Piece& piece) const {
  if (piece.gradient.defined()) return piece.gradient;
  return parameters_[piece.parameter].grad.reshaped(piece.value.shape());
}

void Updater::update(Context& context, int bucket) {
  for (Piece& piece : owned_[bucket].pieces) {
    Tensor gradient = gradient_of(piece);
    if (notes_squares_ && piece.gradient_squares.defined())
      ops::sum_of_squares(context, gradient, piece.gradient_squares);
    if (settings_.disabled) continue;
    if (const Tensor* used = parameters_[piece.parameter].used; used != nullptr && used->defined())
      ops::copy(context, used->slice(piece.parameter_offset, piece.value.shape()), piece.value);
    ops::UpdateStep step = step_;
    const std::optional<bool>& own = parameters_[piece.parameter].l1;
    const bool decoupled = settings_.decoupled && !own, l1 = own.value_or(settings_.l1);
    (decoupled ? step.decoupled : l1 ? step.l1 : step.l2) = piece.decay_mult;
    if (piece.is_sparse()) gradient = held_gradient(context, piece, gradient);
    step.lr_mult = piece.lr_mult;
    if (settings_.layer_wise != LayerWise::none && piece.lr_mult > 0)
      step.layer_wise = measure(context, piece, gradient);
    if (piece.is_sparse()) add_decays(context, piece, gradient);
    Tensor direction;
    if (settings_.rule == ops::UpdateRule::lamb) direction = direction_.slice(0, piece.value.shape());
    ops::update_parameters(context, step,
                           piece.is_sparse() ? values_of_scaled_.get() : values_on_device_.get(), piece.value,
                           gradient, piece.history, piece.history2, direction);
    if (!direction.defined()) continue;
    measure_norms(context, piece, direction);
    ops::follow_direction(context, piece.lr_mult, values_on_device_.get(), piece.squares.data<double>(),
                          direction, piece.value);
  }
}

Tensor Updater::held_gradient(Context& context, Piece& piece, const Tensor& gradient) {
  Tensor scaled = scaled_.slice(0, piece.value.shape());
  ops::times_gradient_scale(context, values_on_device_.get(), gradient, scaled);
  for (Tiles& tiles : piece.held) {
    if (tiles.squares.defined()) ops::tile_squares(context, piece.value, tiles.tiling, tiles.squares);
    for (Tensor* const cleared : {&scaled, &piece.history, &piece.history2}) {
      if (!cleared->defined()) continue;
      if (tiles.squares.defined())
        ops::clear_empty_tiles(context, tiles.tiling, tiles.squares, *cleared);
      else
        ops::clear_where_zero(context, piece.value, *cleared);
    }
  }
  return scaled;
}

void Updater::add_decays(Context& context, Piece& piece, Tensor& gradient) {
  for (Tiles& tiles : piece.decaying) {
    ops::tile_squares(context, piece.value, tiles.tiling, tiles.squares);
    ops::add_tile_decay(context, tiles.decay, piece.value, tiles.tiling, tiles.squares, gradient);
  }
}

/// Buckets hold whole parameters where their norms are needed.
void Updater::measure_norms(Context& context, Piece& piece, const Tensor& step) {
  Tensor of_values = piece.squares.slice(0, Shape{1}), of_step = piece.squares.slice(1, Shape{1});
  ops::sum_of_squares(context, piece.value, of_values);
  ops::sum_of_squares(context, step, of_step);
}

ops::LayerWiseRate Updater::measure(Context& context, Piece& piece, const Tensor& gradient) const {
  ops::LayerWiseRate rate;
  rate.by_history = settings_.rule == ops::UpdateRule::sag;
  measure_norms(context, piece, rate.by_history ? piece.history : gradient);
  if (piece.cosine.defined()) {
    Tensor other = piece.squares.slice(2, Shape{1}), product = piece.squares.slice(3, Shape{1});
    ops::sum_of_squares(context, rate.by_history ? gradient : piece.history, other);
    ops::sum_of_products(context, gradient, piece.history, product);
    ops::follow_cosine(context, values_on_device_.get(), piece.squares.slice(1, Shape{3}), piece.cosine);
    rate.cosine = piece.cosine.data<double>();
  }
  rate.squares = piece.squares.data<double>();
  rate.eta = settings_.layer_wise_eta;
  rate.clips = settings_.layer_wise == LayerWise::larc_clip;
  if (settings_.layer_wise == LayerWise::intel)
    rate.decay = settings_.weight_decay;
  else
    rate.times_one_minus_momentum = !rate.by_history;
  return rate;
}

double Updater::sum_of_squares(Context& context) {
  std::vector<int> buckets;
  for (std::size_t bucket = 0; bucket < owned_.size(); ++bucket)
    if (owned_[bucket].gradient.defined()) buckets.push_back(static_cast<int>(bucket));
  std::vector<double> sums(static_cast<std::size_t>(sums_.count()));
  if (buckets.empty())
    copy_to_host(context, sums_, sums.data());  // noted before the updates, or 0 where nothing is owned
  else
    sums = sums_of_squares(context, buckets);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

std::vector<double> Updater::sums_of_squares(Context& context, const std::vector<int>& buckets) {
  std::vector<double> sums(buckets.size());
  if (buckets.empty()) return sums;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    Tensor sum = sums_.slice(static_cast<std::int64_t>(i), Shape{1});
    ops::sum_of_squares(context, owned_[static_cast<std::size_t>(buckets[i])].gradient, sum);
  }
  copy_to_host(context, sums_.slice(0, Shape{std::ssize(buckets)}), sums.data());
  return sums;
}

std::vector<Tensor> Updater::histories_of_bucket(int bucket) const {
  return owned_[static_cast<std::size_t>(bucket)].histories;
}

Tensor Updater::cosines_of_bucket(int bucket) const {
  return owned_[static_cast<std::size_t>(bucket)].cosines;
}

std::vector<Updater::OwnedPiece> Updater::owned_pieces() const {
  std::vector<OwnedPiece> pieces;
  for (const Owned& owned : owned_)
    for (const Piece& piece : owned.pieces)
      pieces.push_back(
          {piece.parameter, piece.parameter_offset, piece.value, piece.gradient, piece.gradient_squares});
  return pieces;
}

template <class Visit>
void Updater::for_each_history(Visit visit) const {
  for (const Owned& owned : owned_)
    for (const Piece& piece : owned.pieces) {
      const auto p = static_cast<std::size_t>(piece.parameter);
      visit(p, piece, piece.history);
      if (histories_ == 2) visit(p + parameters_.size(), piece, piece.history2);
    }
}

void Updater::save(Context& context, std::vector<caffe::BlobProto>& history) const {
  for_each_history([&](std::size_t entry, const Piece& piece, const Tensor& values) {
    if (values.dtype() == DType::f64)
      copy_to_host(context, values,
                   history[entry].mutable_double_data()->mutable_data() + piece.parameter_offset);
    else
      copy_to_host(context, values, history[entry].mutable_data()->mutable_data() + piece.parameter_offset);
  });
}

void Updater::save_cosines(Context& context, std::vector<double>& cosines) const {
  for (const Owned& owned : owned_) {
    if (owned.pieces.empty()) continue;
    const std::vector<double> found = values_of(context, owned.cosines).values;
    for (std::size_t i = 0; i < found.size(); ++i)
      cosines[static_cast<std::size_t>(owned.pieces[i].parameter)] = found[i];
  }
}

void Updater::save_gradients(Context& context, char* flat) const {
  for (const Owned& owned : owned_) {
    if (!owned.gradient.defined()) continue;
    const std::size_t before = static_cast<std::size_t>(owned.offset) * size_of(owned.gradient.dtype());
    context.stream().copy(flat + before, owned.gradient.raw(), owned.gradient.bytes());
  }
  context.synchronize();
}

void Updater::restore(Context& context, const caffe::SolverState& state, const std::string& origin) {
  const auto expected = static_cast<int>(parameters_.size()) * histories_;
  if (state.history_size() != expected)
    bad_input(origin, ": the solver state holds ", state.history_size(), " history blobs, a ",
              name_of(settings_.rule), " solver on this net needs ", expected);
  std::map<std::size_t, io::BlobData> decoded;
  for_each_history([&](std::size_t entry, const Piece& piece, const Tensor& target) {
    if (!decoded.contains(entry))
      decoded.emplace(entry, io::decode_blob(state.history(static_cast<int>(entry)), origin));
    const io::BlobData& blob = decoded.at(entry);
    const LearnableParameter& parameter = parameters_[piece.parameter];
    if (static_cast<std::int64_t>(blob.count()) != parameter.count)
      bad_input(origin, ": history blob ", entry, " holds ", blob.count(), " values, blob ", parameter.slot,
                " of layer \"", parameter.layer, "\" has ", parameter.count);
    Tensor to = target;
    std::vector<double> values(to.count());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = blob.at(piece.parameter_offset + i);
    set_values(context, values, to);
  });
  restore_cosines(context, state.banyan(), origin);
}

/// Without any they begin at 0, as in every state of NVIDIA's.
void Updater::restore_cosines(Context& context, const caffe::BanyanState& state, const std::string& origin) {
  if (!settings_.larc_turbo || state.larc_cosine().empty()) return;
  if (state.larc_cosine_size() != std::ssize(parameters_))
    bad_input(origin, ": the solver state holds ", state.larc_cosine_size(),
              " cosines of larc_turbo, this net has ", parameters_.size(), " parameters");
  for (Owned& owned : owned_)
    for (Piece& piece : owned.pieces) set_values(context, {state.larc_cosine(piece.parameter)}, piece.cosine);
}

std::vector<caffe::BlobProto> prepare_history(const std::vector<LearnableParameter>& parameters,
                                              ops::UpdateRule rule, DType dtype) {
  std::vector<caffe::BlobProto> history;
  for (int set = 0; set < histories_of(rule); ++set)
    for (const LearnableParameter& parameter : parameters) {
      caffe::BlobProto& blob = history.emplace_back();
      for (const std::int64_t length : parameter.value.shape().dims()) blob.mutable_shape()->add_dim(length);
      if (dtype == DType::f64)
        blob.mutable_double_data()->Resize(static_cast<int>(parameter.count), 0);
      else
        blob.mutable_data()->Resize(static_cast<int>(parameter.count), 0);
    }
  return history;
}

}  // namespace banyan
