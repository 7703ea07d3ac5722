#include "banyan/data/digits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "banyan/ops/random.hpp"

namespace banyan::data {

namespace {

constexpr double kPi = std::numbers::pi;

/// The random numbers of one image, in the order in which they are drawn.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint32_t stream, std::uint64_t index)
      : key_(ops::RandomKey{seed, stream, 0}.key()), index_(index) {}
  std::uint32_t bits() {
    if (used_ == 4) {
      block_ = ops::philox(key_, index_, counter_++);
      used_ = 0;
    }
    return block_.v[used_++];
  }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(ops::uniform01(bits()));
  }
  /// Sum of four uniform numbers, scaled to deviation 1: close enough to a Gaussian, and bounded.
  double bell() {
    const double sum = uniform(-1, 1) + uniform(-1, 1) + uniform(-1, 1) + uniform(-1, 1);
    return sum * std::sqrt(0.75);
  }

 private:
  std::uint64_t key_, index_, counter_ = 0;
  ops::Philox4 block_{};
  int used_ = 4;
};

struct Point {
  double x, y;  // in the glyph's box: x to the right, y down, both in [-1, 1]
};
using Stroke = std::vector<Point>;

/// Points of an ellipse's arc; angles in degrees, 0 to the right, growing clockwise (y points down).
Stroke arc(double cx, double cy, double rx, double ry, double from, double to) {
  Stroke stroke;
  constexpr int kPoints = 9;
  for (int i = 0; i < kPoints; ++i) {
    const double angle = (from + (to - from) * i / (kPoints - 1)) * kPi / 180;
    stroke.push_back({cx + rx * std::cos(angle), cy + ry * std::sin(angle)});
  }
  return stroke;
}

Stroke joined(Stroke first, const Stroke& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Two forms of a digit that people write in two ways.
std::vector<Stroke> glyph(int digit, bool variant) {
  switch (digit) {
    case 0:
      return {arc(0, 0, variant ? 0.5 : 0.65, 0.9, -90, 270)};
    case 1:
      if (variant) return {{{0, -0.9}, {0, 0.9}}};
      return {{{-0.4, -0.5}, {0.05, -0.9}, {0.05, 0.9}}};
    case 2:
      return {joined(arc(0, -0.42, 0.55, 0.48, -170, 40),
                     {{-0.1, 0.4}, {-0.6, 0.9}, {0.65, variant ? 0.75 : 0.9}})};
    case 3:
      if (variant)
        return {joined({{-0.5, -0.9}, {0.5, -0.9}, {0, -0.15}}, arc(-0.05, 0.38, 0.6, 0.52, -80, 150))};
      return {arc(-0.05, -0.45, 0.52, 0.45, -150, 90), arc(-0.05, 0.42, 0.6, 0.48, -90, 150)};
    case 4:
      if (variant) return {{{-0.45, -0.85}, {-0.5, 0.1}, {0.55, 0.1}}, {{0.4, -0.85}, {0.35, 0.9}}};
      return {{{0.2, -0.9}, {-0.65, 0.3}, {0.7, 0.3}}, {{0.3, -0.25}, {0.3, 0.9}}};
    case 5: {
      const Stroke belly = joined({{-0.4, -0.9}, {-0.45, -0.1}}, arc(-0.05, 0.35, 0.6, 0.53, -130, 140));
      return {belly, {{-0.4, -0.9}, {0.55, variant ? -0.8 : -0.9}}};
    }
    case 6:
      return {joined({{0.45, -0.85}, {-0.15, -0.55}, {-0.5, 0.1}},
                     arc(0, 0.4, 0.52, 0.5, 180, variant ? -170 : 530))};
    case 7:
      if (variant) return {{{-0.6, -0.85}, {0.6, -0.85}, {-0.15, 0.9}}, {{-0.35, 0.0}, {0.45, 0.0}}};
      return {{{-0.6, -0.85}, {0.6, -0.85}, {0.1, 0.1}, {-0.1, 0.9}}};
    case 8:
      return {arc(0, -0.45, 0.46, 0.43, 90, 450), arc(0, 0.43, 0.56, 0.46, -90, 270)};
    default: {
      const Stroke head = arc(0, -0.4, 0.52, 0.48, 0, 360);
      if (variant) return {joined(head, {{0.5, 0.2}, {0.42, 0.9}})};
      return {joined(head, {{0.45, 0.3}, {0.1, 0.75}, {-0.4, 0.88}})};
    }
  }
}

struct Canvas {
  std::array<double, kDigitSide * kDigitSide> ink{};

  /// A line with round ends from a to b (pixels); `radius` is half its width, its edge one pixel soft.
  void line(Point a, Point b, double radius, double brightness) {
    const double reach = radius + 1;
    const int left = std::max(0, static_cast<int>(std::floor(std::min(a.x, b.x) - reach)));
    const int right = std::min(kDigitSide - 1, static_cast<int>(std::ceil(std::max(a.x, b.x) + reach)));
    const int top = std::max(0, static_cast<int>(std::floor(std::min(a.y, b.y) - reach)));
    const int bottom = std::min(kDigitSide - 1, static_cast<int>(std::ceil(std::max(a.y, b.y) + reach)));
    const double dx = b.x - a.x, dy = b.y - a.y, length2 = std::max(dx * dx + dy * dy, 1e-9);
    for (int y = top; y <= bottom; ++y) {
      for (int x = left; x <= right; ++x) {
        const double t = std::clamp(((x - a.x) * dx + (y - a.y) * dy) / length2, 0.0, 1.0);
        const double ex = x - a.x - t * dx, ey = y - a.y - t * dy;
        const double cover = std::clamp(radius + 0.5 - std::sqrt(ex * ex + ey * ey), 0.0, 1.0);
        double& pixel = ink[y * kDigitSide + x];
        pixel = std::max(pixel, cover * brightness);
      }
    }
  }
};

/// From the glyph's box to pixels.
struct Map {
  double xx, xy, yx, yy, x, y;
  Point operator()(Point p) const { return {xx * p.x + xy * p.y + x, yx * p.x + yy * p.y + y}; }
};

Map random_map(Draws& draws) {
  const double angle = 0.15 * draws.bell(), shear = 0.18 * draws.bell();
  const double height = draws.uniform(7.8, 10.2), width = height * draws.uniform(0.75, 1.1);
  const double c = std::cos(angle), s = std::sin(angle);
  const double middle = (kDigitSide - 1) / 2.0, room = std::max(0.0, middle - height - 0.5);
  const double shift = std::min(room, 3.2);
  return {c * width,
          c * shear * width - s * height,
          s * width,
          s * shear * width + c * height,
          middle + draws.uniform(-shift, shift),
          middle + draws.uniform(-shift, shift)};
}

void draw_clutter(Draws& draws, Canvas& canvas) {
  const int pieces = static_cast<int>(draws.bits() % 3);
  for (int i = 0; i < pieces; ++i) {
    const Point from{draws.uniform(0, kDigitSide), draws.uniform(0, kDigitSide)};
    const double angle = draws.uniform(0, 2 * kPi), length = draws.uniform(1, 5);
    const Point to{from.x + length * std::cos(angle), from.y + length * std::sin(angle)};
    canvas.line(from, to, draws.uniform(0.3, 0.7), draws.uniform(0.25, 0.7));
  }
}

void draw_strokes(Draws& draws, int digit, Canvas& canvas) {
  const bool variant = draws.bits() % 2 == 1;
  const Map map = random_map(draws);
  const double radius = draws.uniform(0.7, 1.6), brightness = draws.uniform(0.7, 1.0);
  for (Stroke stroke : glyph(digit, variant)) {
    // A slow wave along the stroke bends it as a whole; independent jitter makes the hand unsteady.
    const double bend_x = 0.07 * draws.bell(), bend_y = 0.07 * draws.bell(),
                 phase = draws.uniform(0, 2 * kPi);
    for (std::size_t i = 0; i < stroke.size(); ++i) {
      const double wave = std::sin(phase + 2.5 * static_cast<double>(i) / static_cast<double>(stroke.size()));
      stroke[i].x += bend_x * wave + 0.03 * draws.bell();
      stroke[i].y += bend_y * wave + 0.03 * draws.bell();
    }
    for (std::size_t i = 1; i < stroke.size(); ++i)
      canvas.line(map(stroke[i - 1]), map(stroke[i]), radius, brightness);
  }
}

}  // namespace

int digit_label(std::uint64_t seed, std::uint32_t stream, std::uint64_t index) {
  return static_cast<int>(Draws(seed, stream, index).bits() % 10);
}

void draw_digit(std::uint64_t seed, std::uint32_t stream, std::uint64_t index, std::uint8_t* pixels) {
  Draws draws(seed, stream, index);
  const int digit = static_cast<int>(draws.bits() % 10);
  Canvas canvas;
  draw_clutter(draws, canvas);
  draw_strokes(draws, digit, canvas);
  const double noise = draws.uniform(5, 25), background = draws.uniform(0, 20);
  for (std::size_t i = 0; i < canvas.ink.size(); ++i) {
    const double value = background + (255 - background) * canvas.ink[i] + noise * draws.bell();
    pixels[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
  }
}

}  // namespace banyan::data
