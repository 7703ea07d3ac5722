#include "layers/augmentation_layer.hpp"

#include <google/protobuf/descriptor.h>

#include <cmath>
#include <optional>
#include <utility>

namespace banyan {
namespace {

namespace coefficients = ops::augmentation;

/// The places in a row that each distribution gives numbers for.
struct DistributionPlaces {
  const char* field;
  int first, count;
};
constexpr DistributionPlaces kDistributions[] = {
    {"mirror", coefficients::mirror, 1},
    {"translate", coefficients::shift_x, 2},
    {"translate_x", coefficients::shift_x, 1},  // after what it replaces
    {"translate_y", coefficients::shift_y, 1},
    {"rotate", coefficients::angle, 1},
    {"zoom", coefficients::zoom_x, 1},
    {"squeeze", coefficients::zoom_y, 1},
    {"gamma", coefficients::gamma, 1},
    {"brightness", coefficients::brightness, 1},
    {"contrast", coefficients::contrast, 1},
    {"color", coefficients::color, 3},
    {"ladd_pow", coefficients::pow_around, 1},
    {"col_pow", coefficients::pow_around + 1, 2},
    {"ladd_add", coefficients::add_around, 1},
    {"col_add", coefficients::add_around + 1, 2},
    {"ladd_mult", coefficients::mult_around, 1},
    {"col_mult", coefficients::mult_around + 1, 2},
    {"sat_pow", coefficients::pow_whole + 1, 1},  // the operator gives the third coordinate the same
    {"sat_add", coefficients::add_whole + 1, 1},
    {"sat_mult", coefficients::mult_whole + 1, 1},
    {"lmult_pow", coefficients::light_pow, 1},
    {"lmult_add", coefficients::light_add, 1},
    {"lmult_mult", coefficients::light_mult, 1},
    {"col_rotate", coefficients::color_angle, 1},
    {"shadow_angle", coefficients::shadow_angle, 1},
    {"shadow_distance", coefficients::shadow_distance, 1},
    {"shadow_strength", coefficients::shadow_strength, 1},
    {"noise", coefficients::noise, 1},
};

const caffe::RandomGeneratorParameter* distribution_of(const caffe::AugmentationParameter& settings,
                                                       const char* field) {
  const auto* found = caffe::AugmentationParameter::descriptor()->FindFieldByName(field);
  const auto* reflection = caffe::AugmentationParameter::GetReflection();
  if (!reflection->HasField(settings, found)) return nullptr;
  return &dynamic_cast<const caffe::RandomGeneratorParameter&>(reflection->GetMessage(settings, found));
}

/// Its kind, and whether it is drawn by chance only.
std::optional<std::pair<ops::AugmentationDraw::Kind, bool>> distribution_kind(const std::string& type) {
  using Kind = ops::AugmentationDraw::Kind;
  if (type == "uniform") return {{Kind::uniform, false}};
  if (type == "gaussian") return {{Kind::normal, false}};
  if (type == "bernoulli") return {{Kind::coin, true}};
  if (type == "uniform_bernoulli") return {{Kind::uniform, true}};
  if (type == "gaussian_bernoulli") return {{Kind::normal, true}};
  return std::nullopt;
}

ops::AugmentationDraw draw_of(const caffe::RandomGeneratorParameter& from) {
  const auto kind = *distribution_kind(from.rand_type());
  ops::AugmentationDraw draw;
  draw.kind = kind.first;
  draw.by_chance = kind.second;
  draw.exponential = from.exp();
  draw.scheduled = from.apply_schedule();
  draw.whole = from.discretize();
  draw.mean = from.mean();
  draw.spread = from.spread();
  draw.chance = from.prob();
  draw.factor = from.multiplier();
  return draw;
}

}  // namespace

void AugmentationLayer::read_settings() {
  for (const DistributionPlaces& entry : kDistributions) {
    const auto* from = distribution_of(settings(), entry.field);
    if (from == nullptr) continue;
    if (!distribution_kind(from->rand_type()))
      refuse(entry.field,
             ".rand_type must be uniform, gaussian, bernoulli, uniform_bernoulli or "
             "gaussian_bernoulli; found ",
             quoted(from->rand_type()));
    if (!std::isfinite(from->mean()) || !std::isfinite(from->multiplier()) ||
        !std::isfinite(from->spread()) || from->spread() < 0)
      refuse(entry.field, " must have finite numbers and a spread that is not negative; its mean is ",
             from->mean(), ", its spread ", from->spread(), ", its multiplier ", from->multiplier());
    if (!(from->prob() >= 0 && from->prob() <= 1))
      refuse(entry.field, ".prob must be from 0 to 1; found ", from->prob());
  }
  const auto& schedule = parameter_.coeff_schedule_param();
  if (!(schedule.half_life() > 0) || !std::isfinite(schedule.initial_coeff()) ||
      !std::isfinite(schedule.final_coeff()))
    refuse("coeff_schedule_param must have a half_life above 0 and finite coefficients; found ",
           schedule.half_life(), ", ", schedule.initial_coeff(), " and ", schedule.final_coeff());
  if (settings().has_crop_width() != settings().has_crop_height())
    refuse("crop_width and crop_height come together");
}

void AugmentationLayer::check_cut() const {
  if (settings().crop_width() < 1 || settings().crop_height() < 1)
    refuse("crop_width and crop_height are needed; found ", settings().crop_width(), " and ",
           settings().crop_height());
}

ops::AugmentationDraws AugmentationLayer::draws() const {
  ops::AugmentationDraws draws;
  const auto& schedule = parameter_.coeff_schedule_param();
  draws.first = schedule.initial_coeff();
  draws.last = schedule.final_coeff();
  draws.half_life = schedule.half_life();
  if (!augments()) return draws;
  for (const DistributionPlaces& entry : kDistributions) {
    const auto* from = distribution_of(settings(), entry.field);
    for (int i = 0; from != nullptr && i < entry.count; ++i) draws.places[entry.first + i] = draw_of(*from);
  }
  // In FlowNet2 the schedule of this one is 0 throughout.
  ops::AugmentationDraw& mirror = draws.places[coefficients::mirror];
  if (mirror.scheduled) mirror.spread = 0;
  return draws;
}

bool AugmentationLayer::changes_colors(const ops::AugmentationDraws& draws) {
  for (int place = coefficients::pow_around; place <= coefficients::color_angle; ++place)
    if (draws.places[place].kind != ops::AugmentationDraw::Kind::none) return true;
  return false;
}

void AugmentationLayer::check_rows(const Blob& rows, std::int64_t samples) const {
  if (rows.shape.axes() < 1 || rows.shape[0] != samples ||
      rows.shape.count() != samples * ops::augmentation::kNumbers)
    refuse("input ", quoted(rows.name), " has the shape ", rows.shape.to_string(),
           "; expected the coefficients of ", samples, " samples, ", rows_shape(samples).to_string());
}

}  // namespace banyan
