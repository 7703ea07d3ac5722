// docs/new_layer.md: its layer compiles, computes what it claims, and is the one shown on the page.
#include <cmath>
#include <fstream>
#include <sstream>

#include "../docs/examples/silu.cpp"
#include "layers/gradient_checker.hpp"

namespace banyan::testing {
namespace {

std::string read(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(std::string(BANYAN_SOURCE "/docs/") + file).rdbuf();
  return text.str();
}

TEST(OwnLayer, ComputesWhatItSays) {
  Bench bench("type: 'SiLU'", {Shape{2, 3, 4}}, 1);
  const Values x = spread_values(24, 1);
  bench.set_input(0, x);
  GradientChecker(bench).run();
  bench.set_input(0, x);
  bench.forward();
  Values expected;
  for (const double value : x) expected.push_back(value / (1 + std::exp(-value)));
  expect_near(bench.output(), expected, 1e-15);  // a few roundings
}

TEST(OwnLayer, IsWhatThePageShows) {
  const std::string code = read("examples/silu.cpp");
  EXPECT_GT(code.size(), 1000u);
  EXPECT_NE(read("new_layer.md").find("```cpp\n" + code + "```\n"), std::string::npos);
}

}  // namespace
}  // namespace banyan::testing
