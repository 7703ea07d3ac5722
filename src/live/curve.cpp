#include "live/curve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace banyan::live {

void Curve::add(std::int64_t iteration, double value) {
  last_ = value;
  if (bins_.empty() || in_last_ >= per_bin_) {
    if (bins_.size() == kMostBins) {
      for (std::size_t i = 0; i < kMostBins / 2; ++i) {
        Bin one = bins_[2 * i];
        const Bin& other = bins_[2 * i + 1];
        one.low = std::min(one.low, other.low);
        one.high = std::max(one.high, other.high);
        one.lost = one.lost || other.lost;
        bins_[i] = one;
      }
      bins_.resize(kMostBins / 2);
      per_bin_ *= 2;
    }
    bins_.emplace_back().first = static_cast<double>(iteration);
    in_last_ = 0;
  }
  ++in_last_;
  Bin& bin = bins_.back();
  if (std::isfinite(value)) {
    bin.low = std::min(bin.low, value);
    bin.high = std::max(bin.high, value);
  } else {
    bin.lost = true;
  }
}

Series& Chart::named(const std::string& name) {
  for (Series& one : series)
    if (one.name == name) return one;
  return series.emplace_back(Series{name, {}});
}

std::string short_number(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

namespace {

/// Dots of a rectangle of cells, each of them of one curve.
class Dots {
 public:
  Dots(int width, int height, bool braille)
      : width_(width),
        height_(height),
        across_(braille ? 2 : 1),
        down_(braille ? 4 : 3),
        cells_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)) {}
  int columns() const { return width_ * across_; }
  int rows() const { return height_ * down_; }
  void set(int column, int row, Style style) {
    Cell& cell = cells_[static_cast<std::size_t>(row / down_ * width_ + column / across_)];
    // Bits of braille patterns: 1, 2, 4 and 0x40 down the left side, 8, 16, 32 and 0x80 down the right one.
    static constexpr int kBraille[2][4] = {{1, 2, 4, 0x40}, {8, 16, 32, 0x80}};
    cell.bits |= across_ == 2 ? kBraille[column % 2][row % 4] : 1 << row % 3;
    cell.style = style;
  }
  void draw(Canvas& canvas, int x, int y) const {
    for (int row = 0; row < height_; ++row)
      for (int column = 0; column < width_; ++column) {
        const Cell& cell = cells_[static_cast<std::size_t>(row * width_ + column)];
        // Bits from the top: of three dots in ASCII.
        static constexpr char kAscii[] = {' ', '\'', '-', '"', '.', ':', '=', '|'};
        if (cell.bits != 0)
          canvas.set(x + column, y + row,
                     across_ == 2 ? static_cast<char32_t>(0x2800 + cell.bits)
                                  : static_cast<char32_t>(kAscii[cell.bits]),
                     cell.style);
      }
  }

 private:
  struct Cell {
    int bits = 0;
    Style style = Style::plain;
  };
  int width_, height_, across_, down_;
  std::vector<Cell> cells_;
};

struct Range {
  bool log = false;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
  /// From 0 to count - 1; the middle where there is only one value. Halves, so that no difference overflows.
  int place(double value, int count) const {
    const auto on = [this](double x) { return log ? std::log(x) : x / 2; };
    const double size = on(high) - on(low);
    if (!(size > 0)) return (count - 1) / 2;
    const double share = (on(value) - on(low)) / size;
    return std::clamp(static_cast<int>(std::lround(share * (count - 1))), 0, count - 1);
  }
};

/// A line between what two neighbouring columns show, so that steep curves have no gaps.
void draw_series(const Curve& curve, const Range& xs, const Range& ys, Style style, Dots& dots) {
  struct Span {
    int low = 0, high = -1;
  };
  std::vector<Span> spans(static_cast<std::size_t>(dots.columns()));
  for (const Curve::Bin& bin : curve.bins()) {
    if (bin.empty()) continue;
    Span& span = spans[static_cast<std::size_t>(xs.place(bin.first, dots.columns()))];
    const int low = ys.place(bin.low, dots.rows()), high = ys.place(bin.high, dots.rows());
    span = span.high < span.low ? Span{low, high} : Span{std::min(span.low, low), std::max(span.high, high)};
  }
  const auto dot = [&](int column, double row) {
    dots.set(column, dots.rows() - 1 - static_cast<int>(std::lround(row)), style);
  };
  int before = -1;
  for (int column = 0; column < dots.columns(); ++column) {
    const Span& span = spans[static_cast<std::size_t>(column)];
    if (span.high < span.low) continue;
    for (int row = span.low; row <= span.high; ++row) dot(column, row);
    if (before >= 0) {
      const Span& last = spans[static_cast<std::size_t>(before)];
      const double from = (last.low + last.high) / 2.0, to = (span.low + span.high) / 2.0;
      const int steps = std::max(column - before, static_cast<int>(std::abs(to - from)));
      for (int i = 1; i < steps; ++i)
        dot(before + static_cast<int>(std::lround(static_cast<double>(i) * (column - before) / steps)),
            from + (to - from) * i / steps);
    }
    before = column;
  }
}

/// The last values, with as much beside them as fits; those that do not fit even so are left out, none is
/// cut.
void draw_legend(const Chart& chart, Canvas& canvas, int x, int y, int end) {
  struct Entry {
    std::string text;
    Style style;
  };
  std::vector<Entry> entries;
  const auto width = [&] {
    int sum = 0;
    for (const Entry& entry : entries) sum += 2 + static_cast<int>(entry.text.size());
    return sum;
  };
  for (const auto& [digits, first_name] : {std::pair{4, true}, std::pair{3, true}, std::pair{3, false}}) {
    entries.clear();
    for (std::size_t i = 0; i < chart.series.size(); ++i) {
      const Series& one = chart.series[i];
      if (one.curve.bins().empty()) continue;
      const bool named = chart.series.size() > 1 && (i > 0 || first_name);
      entries.push_back(
          {(named ? one.name + " " : "") + short_number(one.curve.last(), digits), curve_style(i)});
    }
    if (x + width() <= end) break;
  }
  for (const Entry& entry : entries) {
    if (x + 2 + static_cast<int>(entry.text.size()) > end) break;
    x = canvas.put(x + 2, y, entry.text, entry.style);
  }
}

}  // namespace

void draw_chart(const Chart& chart, Canvas& canvas, int x, int y, int width, int height, bool braille) {
  Range xs, ys;
  for (const Series& one : chart.series)
    for (const Curve::Bin& bin : one.curve.bins()) {
      xs.take(bin.first);
      if (bin.empty()) continue;
      ys.take(bin.low);
      ys.take(bin.high);
    }
  ys.log = ys.low > 0 && ys.high / ys.low > kLogFrom;
  const int at = canvas.put(x, y, chart.title + (ys.log ? " (log)" : ""), Style::bold, width);
  draw_legend(chart, canvas, at, y, x + width);
  constexpr int kLabels = 9;  // columns, with a blank
  const int plot_width = width - kLabels, plot_height = height - 2;
  if (plot_width < 1 || plot_height < 1 || xs.empty()) return;
  const auto label = [&](double value, int row) {
    const std::string text = short_number(value, 3);
    canvas.put(x + std::max(0, kLabels - 1 - static_cast<int>(text.size())), row, text, Style::dim,
               kLabels - 1);
  };
  if (!ys.empty()) {
    label(ys.high, y + 1);
    if (plot_height > 1 && ys.low < ys.high) label(ys.low, y + plot_height);
  }
  Dots dots(plot_width, plot_height, braille);
  if (!ys.empty())
    for (std::size_t i = chart.series.size(); i-- > 0;)
      draw_series(chart.series[i].curve, xs, ys, curve_style(i), dots);
  dots.draw(canvas, x + kLabels, y + 1);
  for (const Series& one : chart.series)
    for (const Curve::Bin& bin : one.curve.bins())
      if (bin.lost)
        canvas.set(x + kLabels + xs.place(bin.first, plot_width), y + 1, U'\u00d7', Style::warning);
  const std::string first = short_number(xs.low, 15), last = short_number(xs.high, 15);
  canvas.put(x + kLabels, y + height - 1, first, Style::dim, plot_width);
  const int right = x + width - static_cast<int>(last.size());
  if (xs.high > xs.low && right > x + kLabels + static_cast<int>(first.size()))
    canvas.put(right, y + height - 1, last, Style::dim);
}

}  // namespace banyan::live
