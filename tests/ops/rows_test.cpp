// Operators on rows, selections along an axis and norms, against plain loops.
#include "banyan/ops/rows.hpp"

#include <algorithm>
#include <array>

#include "banyan/base/text.hpp"
#include "banyan/ops/norms.hpp"
#include "banyan/ops/selection.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;
using ops::Channels;

class Rows : public DeviceTest {
 protected:
  Tensor f64(const Values& values) {
    return make_as(DType::f64, {static_cast<std::int64_t>(values.size())}, values);
  }
};

TEST_P(Rows, Reduce) {
  using ops::RowSum;
  for (const auto& [rows, length] :
       {std::pair<std::int64_t, std::int64_t>{1, 40001}, {300, 7}, {5, 1}, {0, 3}, {4, 0}})
    for (const RowSum what : {RowSum::values, RowSum::magnitudes, RowSum::squares})
      for (const double by : {1.0, 7.0, 0.0}) {
        SCOPED_TRACE(cat(rows, " x ", length, " / ", by));
        const Values x = rounded(random_values(rows * length, 1)), dy = rounded(random_values(rows, 2));
        Values y(dy.size(), 0), dx;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::size_t row = i / static_cast<std::size_t>(length);
          const double factor = by == 0 ? 0 : -2 / by;
          y[row] += factor * (what == RowSum::values       ? x[i]
                              : what == RowSum::magnitudes ? std::abs(x[i])
                                                           : x[i] * x[i]);
          dx.push_back(factor * dy[row] *
                       (what == RowSum::values       ? 1
                        : what == RowSum::magnitudes ? (x[i] > 0 ? 1 : -1)
                                                     : 2 * x[i]));
        }
        const Tensor input = make({rows, length}, x), gradient = make({rows}, dy), divisor = f64({by});
        Tensor out = empty({rows}), result = empty({rows, length});
        ops::reduce_rows(context(), input, what, -2, divisor, out);
        ops::reduce_rows_backward(context(), input, gradient, what, -2, divisor, result);
        expect_near(values(out), y, 4 * epsilon() + 1e-11);  // added in f64, in another order
        expect_near(values(result), dx, 8 * epsilon());
      }
}

TEST_P(Rows, Tile) {
  for (const std::int64_t length : {1, 3, 5000}) {
    const Values x = rounded(random_values(4 * length, 1)), dy = rounded(random_values(12 * length, 2));
    Values y, dx(x.size(), 0);
    for (std::int64_t row = 0; row < 4; ++row)
      for (std::int64_t t = 0; t < 3; ++t)
        for (std::int64_t i = 0; i < length; ++i) {
          const auto from = static_cast<std::size_t>(row * length + i);
          dx[from] += dy[y.size()];
          y.push_back(x[from]);
        }
    const Tensor input = make({4 * length}, x), gradient = make({12 * length}, dy);
    Tensor out = empty({12 * length}), result = empty({4 * length});
    ops::tile_rows(context(), input, length, 3, out);
    ops::tile_rows_backward(context(), gradient, length, 3, result);
    expect_near(values(out), y, 0);
    expect_near(values(result), dx, 4 * epsilon());
  }
}

TEST_P(Rows, GatherAndAdd) {
  for (const auto& [rows, length, count] :
       {std::array<std::int64_t, 3>{3, 5, 40}, {100, 1, 3}, {7, 4000, 11}, {2, 3, 0}}) {
    const Values table = rounded(random_values(rows * length, 1)),
                 dy = rounded(random_values(count * length, 2)),
                 before = rounded(random_values(rows * length, 4));
    Values indices = random_values(count, 3, 0, static_cast<double>(rows));
    for (double& index : indices) index = std::floor(index);
    if (count > 2) indices[2] = static_cast<double>(rows), indices[1] = 0.5;
    Values y, sums = before;
    for (std::int64_t i = 0; i < count * length; ++i) {
      const double index = indices[static_cast<std::size_t>(i / length)];
      const bool valid = index == std::floor(index) && index < static_cast<double>(rows);
      const std::size_t at =
          valid ? static_cast<std::size_t>(static_cast<std::int64_t>(index) * length + i % length) : 0;
      y.push_back(valid ? table[at] : 0);
      if (valid) sums[at] += dy[static_cast<std::size_t>(i)];
    }
    const Tensor source = make({rows, length}, table), which = make({count}, indices),
                 gradient = make({count, length}, dy);
    Tensor out = empty({count, length}), result = make({rows, length}, before), noted = f64({0, 0});
    ops::note_outside(context(), which, 1, rows, noted);
    ops::gather_rows(context(), source, rows, which, out);
    ops::add_to_rows(context(), gradient, which, rows, result);
    expect_near(values(out), y, 0);
    expect_near(values(result), sums, 40 * epsilon());
    expect_near(values(noted), count > 2 ? Values{2, 0.5} : Values{0, 0}, 0);
  }
}

TEST_P(Rows, NotesTheFirstNumberOutsideAndKeepsIt) {
  Tensor noted = f64({0, 0});
  const Tensor spaced = make({6}, {0, 9, 1, 9, 2, 9}), wrong = make({6}, {0, 1, 1.5, 2, 3, -1});
  ops::note_outside(context(), spaced, 2, 3, noted);
  EXPECT_EQ(values(noted), (Values{0, 0}));
  ops::note_outside(context(), wrong, 1, 3, noted);
  EXPECT_EQ(values(noted), (Values{3, 1.5}));
  ops::note_outside(context(), spaced, 1, 3, noted);
  EXPECT_EQ(values(noted), (Values{3, 1.5}));
  Values many(5000, 2.0);
  many[4321] = many[4400] = 3;
  const Tensor long_one = make({5000}, many);
  noted = f64({0, 0});
  ops::note_outside(context(), long_one, 1, 3, noted);
  EXPECT_EQ(values(noted), (Values{4322, 3}));
  // Enough for several threads, each of which finds one.
  many.assign(70000, 2.0);
  many[69000] = 4;
  many[20000] = 3;
  const Tensor longer = make({70000}, many);
  noted = f64({0, 0});
  ops::note_outside(context(), longer, 1, 3, noted);
  EXPECT_EQ(values(noted), (Values{20001, 3}));
}

TEST_P(Rows, Largest) {
  const Channels few{3, 9, 5}, lines{50, 6, 1}, many{1, 5, 9000};
  for (const auto& [over, ranks] :
       {std::pair{few, 4}, {few, 1}, {lines, 4}, {lines, 1}, {lines, 6}, {many, 4}, {many, 1}}) {
    SCOPED_TRACE(ranks);
    const std::int64_t n = over.outer * over.channels * over.inner;
    Values x = random_values(n, 1, 0, 4);
    for (double& value : x) value = std::floor(value);  // many are equal
    const std::int64_t stride = ranks * over.inner + 2;
    Values places(static_cast<std::size_t>(over.outer * stride), -7), largest = places;
    for (std::int64_t o = 0; o < over.outer; ++o)
      for (std::int64_t i = 0; i < over.inner; ++i) {
        std::vector<std::pair<double, std::int64_t>> line;
        for (std::int64_t c = 0; c < over.channels; ++c)
          line.emplace_back(x[static_cast<std::size_t>((o * over.channels + c) * over.inner + i)], c);
        std::sort(line.rbegin(), line.rend());
        for (int rank = 0; rank < ranks; ++rank) {
          const auto to = static_cast<std::size_t>(o * stride + rank * over.inner + i);
          places[to] = static_cast<double>(line[static_cast<std::size_t>(rank)].second);
          largest[to] = line[static_cast<std::size_t>(rank)].first;
        }
      }
    const Tensor input = make({n}, x);
    Tensor where = make({over.outer * stride}, Values(places.size(), -7)),
           what = make({over.outer * stride}, Values(places.size(), -7)), none;
    ops::largest(context(), input, over, ranks, stride, where, what);
    expect_near(values(where), places, 0);
    expect_near(values(what), largest, 0);
    ops::largest(context(), input, over, ranks, stride, none, where);
    expect_near(values(where), largest, 0);
  }
}

TEST_P(Rows, LargestPutsNaNFirst) {
  const double none = std::nan("");
  const Tensor x = make({12}, {1, 5, none, 2, 5, 0, 3, none, 9, 3, 9, none});  // 6 channels at 2 positions
  for (const int ranks : {1, 3}) {
    Tensor where = empty({ranks * 2}), undefined;
    ops::largest(context(), x, {1, 6, 2}, ranks, ranks * 2, where, undefined);
    Values places{1, 5, 5, 3, 4, 0};
    places.resize(static_cast<std::size_t>(ranks) * 2);
    EXPECT_EQ(values(where), places);
  }
}

TEST_P(Rows, ReduceParts) {
  using Kind = ops::PartReduction::Kind;
  const Channels over{3, 7, 550};  // more positions than are taken at a time
  const std::int64_t n = over.outer * over.channels * over.inner;
  const Values x = rounded(random_values(n, 1)), dy = rounded(random_values(over.outer * 2 * over.inner, 2));
  const Tensor input = make({n}, x), gradient = make({over.outer * 2 * over.inner}, dy);
  for (const auto& [kind, k] :
       {std::pair{Kind::sum, 1}, {Kind::mean, 1}, {Kind::largest, 2}, {Kind::largest, 9}}) {
    Tensor out = empty({over.outer * 2 * over.inner}), result = empty({n});
    Values y(dy.size()), dx(x.size());
    for (const std::int64_t part : {0, 1}) {
      const std::int64_t first = part == 0 ? 0 : 3, count = part == 0 ? 3 : 4;
      const ops::PartReduction what{kind, k, first, count, part, 2};
      ops::reduce_part(context(), input, over, what, out);
      ops::reduce_part_backward(context(), input, gradient, over, what, result);
      for (std::int64_t o = 0; o < over.outer; ++o)
        for (std::int64_t i = 0; i < over.inner; ++i) {
          std::vector<std::pair<double, std::size_t>> line;
          for (std::int64_t c = first; c < first + count; ++c) {
            const auto at = static_cast<std::size_t>((o * over.channels + c) * over.inner + i);
            line.emplace_back(x[at], at);
          }
          std::sort(line.rbegin(), line.rend());
          const std::size_t used = kind == Kind::largest
                                       ? std::min<std::size_t>(static_cast<std::size_t>(k), line.size())
                                       : line.size();
          const double each = kind == Kind::sum ? 1 : 1 / static_cast<double>(used);
          const auto to = static_cast<std::size_t>((o * 2 + part) * over.inner + i);
          for (std::size_t rank = 0; rank < used; ++rank) {
            y[to] += line[rank].first * each;
            dx[line[rank].second] = dy[to] * each;
          }
        }
    }
    expect_near(values(out), y, 4 * epsilon());
    expect_near(values(result), dx, 4 * epsilon());
  }
}

TEST_P(Rows, ReduceEveryFourthChannel) {
  const Channels over{3, 9, 40};  // a diagonal of 3 x 3
  const std::int64_t n = over.outer * over.channels * over.inner;
  const Values x = rounded(random_values(n, 1)), dy = rounded(random_values(over.outer * over.inner, 2));
  const Tensor input = make({n}, x), gradient = make({over.outer * over.inner}, dy);
  for (const auto kind : {ops::PartReduction::Kind::sum, ops::PartReduction::Kind::largest}) {
    const bool largest = kind == ops::PartReduction::Kind::largest;
    const ops::PartReduction what{kind, 1, 0, 3, 0, 1, 4};
    Tensor out = empty({over.outer * over.inner}), result = make({n}, Values(x.size(), -7));
    ops::reduce_part(context(), input, over, what, out);
    ops::reduce_part_backward(context(), input, gradient, over, what, result);
    Values y(dy.size(), 0), dx(x.size(), -7);  // other channels are left alone
    for (std::size_t i = 0; i < dy.size(); ++i) {
      const auto inner = static_cast<std::size_t>(over.inner);
      const std::size_t first = i / inner * 9 * inner + i % inner;
      std::size_t best = first;
      for (std::size_t k = 0; k < 3; ++k) {
        const std::size_t at = first + 4 * k * inner;
        y[i] += x[at];
        dx[at] = largest ? 0 : dy[i];
        if (x[at] >= x[best]) best = at;
      }
      if (!largest) continue;
      y[i] = x[best];
      dx[best] = dy[i];
    }
    expect_near(values(out), y, 4 * epsilon());
    expect_near(values(result), dx, 4 * epsilon());
  }
}

TEST_P(Rows, Norms) {
  for (const Channels& over :
       {Channels{4, 6, 5}, Channels{70, 9, 1}, Channels{2, 9000, 1}, Channels{0, 3, 2}}) {
    SCOPED_TRACE(over.channels);
    const std::int64_t n = over.outer * over.channels * over.inner, positions = over.outer * over.inner;
    const Values x = rounded(random_values(n, 1)), dy = rounded(random_values(n, 2));
    const auto position = [&](std::size_t i) {
      const auto at = static_cast<std::int64_t>(i);
      return static_cast<std::size_t>(at / over.inner / over.channels * over.inner + at % over.inner);
    };
    Values squares(static_cast<std::size_t>(positions), 0.25), products(squares.size(), 0), y, dx;
    for (std::size_t i = 0; i < x.size(); ++i) {
      squares[position(i)] += x[i] * x[i];
      products[position(i)] += x[i] * dy[i];
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double square = squares[position(i)], root = std::sqrt(square);
      y.push_back(x[i] / root);
      dx.push_back((dy[i] - x[i] * products[position(i)] / square) / root);
    }
    const Tensor input = make({n}, x);
    Tensor gradient = make({n}, dy), of_x(device(), {positions}, DType::f64),
           of_both(device(), {positions}, DType::f64), out = empty({n});
    ops::dot_products(context(), input, input, over, 0.25, of_x);
    ops::dot_products(context(), input, gradient, over, 0, of_both);
    ops::divide_by_norm(context(), input, of_x, over, out);
    ops::divide_by_norm_backward(context(), input, gradient, of_x, of_both, over, gradient);
    expect_near(values(of_x), squares, 1e-13);
    expect_near(values(of_both), products, 1e-13);
    expect_near(values(out), y, 4 * epsilon());
    expect_near(values(gradient), dx, 8 * epsilon());
  }
}

TEST_P(Rows, DeviationStatistics) {
  // 4 values each: deviations 3 and 0.
  const Tensor moments = f64({4, 5, -7, 36, 0});
  Tensor mean_inv_std = f64({0, 0, 0, 0}), stretch = f64({0, 0});
  ops::deviation_statistics(context(), moments, 0.5, true, mean_inv_std, stretch);
  expect_near(values(mean_inv_std), {5, -7, 1 / 3.5, 2}, 1e-15);
  expect_near(values(stretch), {3.5 / 3, 1}, 1e-15);
  ops::deviation_statistics(context(), moments, 0.5, false, mean_inv_std, stretch);
  expect_near(values(mean_inv_std), {5, -7, 1, 1}, 0);
  expect_near(values(stretch), {0, 0}, 0);
}

BANYAN_ON_ALL_DEVICES(Rows);

}  // namespace
}  // namespace banyan
