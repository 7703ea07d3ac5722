// Products at places, against loops.
#include "banyan/ops/local.hpp"
#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

class PlaceProductsTest : public DeviceTest {};

TEST_P(PlaceProductsTest, AddProductsAtEveryPlace) {
  // Fewer places than a run, a run, more; no terms leave zeros.
  for (const std::int64_t places : {1, 31, 32, 77})
    for (const std::int64_t terms : {0, 1, 5}) {
      const std::int64_t rows = 3, columns = 2;
      // a is terms x rows, b columns x terms.
      const ops::PlaceProducts over{rows,   columns,       terms,          places,
                                    places, rows * places, terms * places, places};
      const std::vector<double> a = rounded(
                                    random_values(std::max<std::int64_t>(terms, 1) * rows * places, 1)),
                                b = rounded(
                                    random_values(columns * std::max<std::int64_t>(terms, 1) * places, 2)),
                                before = rounded(random_values(rows * columns * places, 3));
      const Tensor left = make({std::max<std::int64_t>(terms, 1), rows, places}, a),
                   right = make({columns, std::max<std::int64_t>(terms, 1), places}, b);
      for (const double beta : {0.0, 1.0}) {
        Tensor c = make({rows, columns, places}, before);
        ops::place_products(context(), over, left, right, beta, c);
        std::vector<double> expected;
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j)
            for (std::int64_t place = 0; place < places; ++place) {
              double sum =
                  beta == 0 ? 0 : before[static_cast<std::size_t>((i * columns + j) * places + place)];
              for (std::int64_t t = 0; t < terms; ++t)
                sum += a[static_cast<std::size_t>((t * rows + i) * places + place)] *
                       b[static_cast<std::size_t>((j * terms + t) * places + place)];
              expected.push_back(sum);
            }
        expect_near(values(c), expected, 8 * epsilon());
      }
    }
}

TEST_P(PlaceProductsTest, NothingIsReadOutside) {
  const Tensor small = make({1, 4}, std::vector<double>(4, 1));
  Tensor c = empty({2, 1, 4});
  EXPECT_THROW(ops::place_products(context(), {2, 1, 1, 4, 4, 4, 4, 4}, small, small, 0, c), Error);
  Tensor nothing = empty({0, 1, 4});
  ops::place_products(context(), {0, 1, 1, 4, 4, 4, 4, 4}, small, small, 0, nothing);
}

BANYAN_ON_ALL_DEVICES(PlaceProductsTest);

}  // namespace
}  // namespace banyan
