// Curve: values over iterations in bounded memory, and how a chart of some of them is drawn with characters.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "live/canvas.hpp"

namespace banyan::live {

class Curve {
 public:
  /// Values of neighbouring iterations; of each bin the extremes are kept.
  struct Bin {
    double first = 0;                                                   ///< iteration
    double low = std::numeric_limits<double>::infinity(), high = -low;  ///< of the finite ones
    bool lost = false;                                                  ///< some are not finite
    bool empty() const { return low > high; }
  };
  static constexpr std::size_t kMostBins = 1024;

  /// Iterations ascend.
  void add(std::int64_t iteration, double value);
  const std::vector<Bin>& bins() const { return bins_; }
  double last() const { return last_; }  ///< NaN before the first

 private:
  std::vector<Bin> bins_;
  std::int64_t per_bin_ = 1, in_last_ = 0;  ///< values
  double last_ = std::numeric_limits<double>::quiet_NaN();
};

struct Series {
  std::string name;  ///< "training", "test0"
  Curve curve;
};

inline constexpr double kLogFrom = 100;

struct Chart {
  std::string title;
  std::vector<Series> series;
  /// Added last if there is none.
  Series& named(const std::string& name);
};

/// Six significant digits at most, as short as they say it: 0.1234, 1.2e-05, nan.
std::string short_number(double value, int digits = 4);

/// The chart within this rectangle: a line with title and last values, the curves, a line of iterations. On a
/// log scale, which the title says, where positive values differ by more than kLogFrom times. In braille (2 x
/// 4 dots a character) or, without UTF-8, in three heights a character.
void draw_chart(const Chart& chart, Canvas& canvas, int x, int y, int width, int height, bool braille);

}  // namespace banyan::live
