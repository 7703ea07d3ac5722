// Augmentation of images and of the flow between two of them, as in FlowNet2. A row of kNumbers coefficients
// says how a sample is changed. Factors and powers are held as logarithms, so 0 never changes anything, and
// rows can be added. Images are N x C x H x W, contiguous, f32 or f64, as the rows (N x kNumbers).
#pragma once

#include <cstdint>

#include "banyan/ops/operator.hpp"
#include "banyan/ops/random.hpp"

namespace banyan::ops {

/// Places in a row. Of three coordinates or channels in a row, the first is named.
namespace augmentation {
enum Place : int {
  mirror,
  shift_x,
  shift_y,
  angle,
  zoom_x,
  zoom_y,
  gamma,
  brightness,
  contrast,
  color,
  pow_around = 12,
  add_around = 15,
  mult_around = 18,
  pow_whole = 21,
  add_whole = 24,
  mult_whole = 27,
  light_pow = 30,
  light_add,
  light_mult,
  color_angle,
  shadow_angle = 38,
  shadow_distance,
  shadow_strength,
  noise,
};
inline constexpr int kNumbers = 42, kSpatial = 6;
/// Of a row of a table: a matrix, the coefficients themselves, whether colours, contrast and effects change,
/// and what the layer cannot do (1: there are not three channels, 2: no coordinates of colours).
inline constexpr int kMatrix = 6, kRow = kMatrix + kNumbers + 4;
}  // namespace augmentation

/// How a coefficient is drawn. No padding here, and none after an array of these: GCC 12's
/// __builtin_clear_padding, with which emulated GPUs take a kernel's arguments, would clear other bytes.
struct AugmentationDraw {
  enum class Kind : std::uint32_t { none, uniform, normal, coin };
  Kind kind = Kind::none;
  bool by_chance = false;    ///< else nothing changes; of a coin: whether it is 1
  bool exponential = false;  ///< e to the number
  bool scheduled = true;     ///< the spread changes with the iterations
  bool whole = false;        ///< rounded
  float mean = 0, spread = 0, chance = 1, factor = 1;
};
static_assert(sizeof(AugmentationDraw) == 4 + 4 * sizeof(bool) + 4 * sizeof(float));

struct AugmentationDraws {
  enum class Mode : std::uint8_t { add, replace, regenerate };
  Mode mode = Mode::regenerate;
  std::int64_t height = 0, width = 0, cut_height = 0, cut_width = 0;  ///< of the image, of the result
  double first = 1, last = 1, half_life = 1;  ///< of the factor of spreads, see CoeffScheduleParameter
  std::int64_t passes = 1;                    ///< of one iteration
  /// Of each place of a row; zoom_y's is a factor of the width and divisor of the height.
  AugmentationDraw places[augmentation::kNumbers];

  bool spatial() const {
    for (int place = 0; place < augmentation::kSpatial; ++place)
      if (places[place].kind != AugmentationDraw::Kind::none) return true;
    return false;
  }
};
static_assert(sizeof(AugmentationDraw) * augmentation::kNumbers % 8 == 0);

/// `to` (rows) from what is drawn and `from` (rows), which may be undefined: zeros. Spatial numbers are drawn
/// again, up to 50 times, until the whole result is inside of the image; then they are as in `from`.
inline constinit Operator<void(const AugmentationDraws& how, const PassKey& key, const SampleIndex& samples,
                               const Tensor& from, Tensor& to)>
    draw_augmentation{"draw_augmentation"};

struct AugmentationTable {
  std::int64_t height = 0, width = 0, cut_height = 0, cut_width = 0;
  bool colors = true;       ///< there are three channels
  bool coordinates = true;  ///< of colours
};
/// table (N x kRow, f64) from rows: what the next two need.
inline constinit Operator<void(const AugmentationTable& how, const Tensor& rows, Tensor& table)>
    augmentation_table{"augmentation_table"};

/// Three directions among the channels, one after the other.
struct ColorAxes {
  double at[9] = {};
};
/// message (f64, 4 + 3 * devices) of zeros gets: the number of pixels, the sums of the three channels and, at
/// the device's own place, the largest magnitudes of the three coordinates.
inline constinit Operator<void(const Tensor& x, const ColorAxes& axes, int rank, Tensor& message)>
    color_moments{"color_moments"};
/// space (f64, 10) of the sum of messages: means of the channels, means and largest magnitudes of the
/// coordinates, length of the latter.
inline constinit Operator<void(const Tensor& message, const ColorAxes& axes, Tensor& space)> finish_colors{
    "finish_colors"};

struct ColorLimits {
  ColorAxes axes;
  double most = 255;  ///< largest value of a pixel that is changed
};
/// y (N x C x cut_height x cut_width): parts of x, with other colours where the table says so; space is
/// undefined where colours have no coordinates. `noise`: key of the noise.
inline constinit Operator<void(const Tensor& x, const Tensor& table, const Tensor& space,
                               const ColorLimits& limits, const PassKey& noise, const SampleIndex& samples,
                               Tensor& y)>
    augment_images{"augment_images"};

/// y (N x 2 x cut_height x cut_width): the flow x between two images, from that cut out by `first` to that
/// cut out by `second`.
inline constinit Operator<void(const Tensor& x, const Tensor& first, const Tensor& second, Tensor& y)>
    augment_flow{"augment_flow"};

/// While count[0] is below `most`: mean becomes the mean of count[0] times itself and the means of `moments`
/// (batch_moments of as many channels). Then count[0] grows by 1. Moments of no samples change nothing.
inline constinit Operator<void(const Tensor& moments, std::int64_t most, Tensor& mean, Tensor& count)>
    running_mean{"running_mean"};

}  // namespace banyan::ops
