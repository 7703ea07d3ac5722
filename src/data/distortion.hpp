// SSD's distort_param: random changes of an image's colours. Internal to the room.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "banyan/data/image_codec.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// Random numbers of one item, one after the other.
class ItemDraws {
 public:
  ItemDraws(const ops::RandomKey& key, std::uint64_t item) : key_(key.key()), item_(item) {}
  /// In [0, 1).
  double next() {
    if (used_ % 4 == 0) numbers_ = ops::philox(key_, item_, used_ / 4 + 1);
    return ops::uniform01(numbers_.v[used_++ % 4]);
  }
  double between(double low, double high) { return low + (high - low) * next(); }
  /// With this probability `to` becomes a number between the two; draws both in any case.
  void maybe(double probability, double low, double high, double& to) {
    const bool wanted = next() < probability;
    const double value = between(low, high);
    if (wanted) to = value;
  }
  /// Below `count`, which must be positive.
  int below(int count) { return static_cast<int>(next() * count); }
  /// Of a normal distribution around 0.
  double normal(double deviation);

 private:
  std::uint64_t key_, item_, used_ = 0;
  ops::Philox4 numbers_{};
};

/// What is done to an image's 8-bit values, one after the other; each result is rounded.
struct Distortion {
  double brightness = 0;              ///< is added
  double contrast = 1;                ///< is multiplied by
  bool contrast_first = true;         ///< before saturation and hue, else after them
  double saturation = 1;              ///< HSV's saturation is multiplied by it
  double hue = 0;                     ///< is added to HSV's hue, in units of 2 degrees (OpenCV's)
  std::array<int, 3> order{0, 1, 2};  ///< channel c becomes channel order[c]
  bool needs_colours() const { return saturation != 1 || hue != 0 || order != std::array{0, 1, 2}; }
};

/// Throws bad_input for values that make no sense.
void check_distortion(const caffe::DistortionParameter& settings, const std::string& layer);
Distortion draw_distortion(const caffe::DistortionParameter& settings, ItemDraws& draws);
/// What AlexNet adds to B, G and R: the principal components of ImageNet's colours, each times its eigenvalue
/// and a normal number of standard deviation `noise`.
std::array<double, 3> draw_lighting(double noise, ItemDraws& draws);
/// Adds `light` to every pixel of a B, G, R image and rounds.
void add_light(const std::array<double, 3>& light, Image& image);
using Pixel = std::array<double, 3>;  ///< B, G, R
/// HSV's saturation times `factor`; it ends at 1.
Pixel saturated(const Pixel& pixel, double factor);
/// `turn` is added to HSV's hue: in sixths of the circle.
Pixel turned(const Pixel& pixel, double turn);
/// Images of 1 channel, or of 3 (B, G, R).
void distort(const Distortion& distortion, Image& image);

}  // namespace banyan::data
