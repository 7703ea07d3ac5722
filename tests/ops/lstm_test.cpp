#include "banyan/ops/lstm.hpp"

#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Rows of `width` cells with the formulas of the operators, cell by cell.
struct Reference {
  std::int64_t rows, width;
  std::vector<double> gates, cont, before, dc, dh;  // inputs
  std::vector<double> c, h, dgates, dbefore;        // results

  Reference(std::int64_t row_count, std::int64_t row_width)
      : rows(row_count),
        width(row_width),
        gates(random_values(4 * rows * width, 1, -3, 3)),
        before(random_values(rows * width, 2)),
        dc(random_values(rows * width, 3)),
        dh(random_values(rows * width, 4)),
        c(before),
        h(before),
        dgates(gates),
        dbefore(before) {
    for (std::int64_t row = 0; row < rows; ++row)
      cont.push_back(row % 3 == 0 ? 0 : row % 3 == 1 ? 1 : 0.5);  // begins, continues, in between
  }
  void compute(bool with_dc, bool with_dh) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t d = 0; d < width; ++d) {
        const std::int64_t cell = row * width + d, gate = 4 * row * width + d;
        const double i = sigmoid(gates[gate]), f = sigmoid(gates[gate + width]),
                     o = sigmoid(gates[gate + 2 * width]), g = std::tanh(gates[gate + 3 * width]);
        c[cell] = cont[row] * f * before[cell] + i * g;
        h[cell] = o * std::tanh(c[cell]);
        const double tanh_c = std::tanh(c[cell]), of_h = with_dh ? dh[cell] : 0;
        const double of_c = (with_dc ? dc[cell] : 0) + of_h * o * (1 - tanh_c * tanh_c);
        dgates[gate] = of_c * g * i * (1 - i);
        dgates[gate + width] = of_c * cont[row] * before[cell] * f * (1 - f);
        dgates[gate + 2 * width] = of_h * tanh_c * o * (1 - o);
        dgates[gate + 3 * width] = of_c * i * (1 - g * g);
        dbefore[cell] = of_c * cont[row] * f;
      }
  }
};

class Lstm : public DeviceTest {};

TEST_P(Lstm, IsItsFormulaCellByCell) {
  // 33 x 129 cells: several blocks of a GPU, several threads of a CPU.
  for (const auto& [rows, width] : {std::pair{1, 1}, {3, 2}, {33, 129}, {0, 4}}) {
    Reference expected(rows, width);
    const Tensor gates = make({rows, 4 * width}, expected.gates), cont = make({rows}, expected.cont),
                 before = make({rows, width}, expected.before);
    Tensor activated = empty({rows, 4 * width}), c = empty({rows, width}), h = empty({rows, width});
    ops::lstm_forward(context(), gates, cont, before, activated, c, h);
    Tensor in_place = make({rows, 4 * width}, expected.gates), c2 = empty({rows, width}),
           h2 = empty({rows, width});
    ops::lstm_forward(context(), in_place, cont, before, in_place, c2, h2);
    EXPECT_EQ(values(in_place), values(activated));
    EXPECT_EQ(values(h2), values(h));
    for (const auto& [with_dc, with_dh] : {std::pair{true, true}, {true, false}, {false, true}}) {
      expected.compute(with_dc, with_dh);
      expect_near(values(c), expected.c, 8 * epsilon());
      expect_near(values(h), expected.h, 8 * epsilon());
      const Tensor dc = with_dc ? make({rows, width}, expected.dc) : Tensor(),
                   dh = with_dh ? make({rows, width}, expected.dh) : Tensor();
      Tensor dgates = empty({rows, 4 * width}), dbefore = empty({rows, width}), none;
      ops::lstm_backward(context(), activated, cont, before, c, dc, dh, dgates, dbefore, 0);
      expect_near(values(dgates), expected.dgates, 16 * epsilon());
      expect_near(values(dbefore), expected.dbefore, 16 * epsilon());
      Tensor only_gates = empty({rows, 4 * width}), only_before = empty({rows, width});
      ops::lstm_backward(context(), activated, cont, before, c, dc, dh, only_gates, none, 0);
      ops::lstm_backward(context(), activated, cont, before, c, dc, dh, none, only_before, 0);
      EXPECT_EQ(values(only_gates), values(dgates));
      EXPECT_EQ(values(only_before), values(dbefore));
      if (!with_dc) continue;
      Tensor over_gates = make({rows, 4 * width}, values(activated)),
             over_dc = make({rows, width}, expected.dc);
      ops::lstm_backward(context(), over_gates, cont, before, c, over_dc, dh, over_gates, over_dc, 0);
      EXPECT_EQ(values(over_gates), values(dgates)) << "in place";
      EXPECT_EQ(values(over_dc), values(dbefore)) << "in place";
    }
  }
}

TEST_P(Lstm, HoldsGradientsOfGatesWithinABound) {
  constexpr std::int64_t kRows = 33, kWidth = 129;
  Reference expected(kRows, kWidth);
  const Tensor gates = make({kRows, 4 * kWidth}, expected.gates), cont = make({kRows}, expected.cont),
               before = make({kRows, kWidth}, expected.before), dc = make({kRows, kWidth}, expected.dc),
               dh = make({kRows, kWidth}, expected.dh);
  Tensor activated = empty({kRows, 4 * kWidth}), c = empty({kRows, kWidth}), h = empty({kRows, kWidth}),
         free = empty({kRows, 4 * kWidth}), held = empty({kRows, 4 * kWidth}),
         free_before = empty({kRows, kWidth}), held_before = empty({kRows, kWidth});
  ops::lstm_forward(context(), gates, cont, before, activated, c, h);
  ops::lstm_backward(context(), activated, cont, before, c, dc, dh, free, free_before, 0);
  ops::lstm_backward(context(), activated, cont, before, c, dc, dh, held, held_before, 0.0625);
  std::vector<double> within = values(free);
  int changed = 0;
  for (double& value : within) {
    const double bounded = std::clamp(value, -0.0625, 0.0625);
    changed += bounded != value ? 1 : 0;
    value = bounded;
  }
  EXPECT_GT(changed, 100);
  EXPECT_EQ(values(held), within);
  EXPECT_EQ(values(held_before), values(free_before));
}

TEST_P(Lstm, RefusesTensorsThatDoNotFit) {
  const Tensor cont = empty({2}), before = empty({2, 3});
  Tensor gates = empty({2, 11}), c = empty({2, 3}), h = empty({2, 3});
  EXPECT_THROW(ops::lstm_forward(context(), gates, cont, before, gates, c, h), Error);
}

BANYAN_ON_ALL_DEVICES(Lstm);

}  // namespace
}  // namespace banyan
