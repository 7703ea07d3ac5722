// Layers that move, resize, cut or gather pixels, with every setting, against central differences in f64.
#include "layers/spatial_cases.hpp"

namespace banyan::testing {
namespace {

using namespace spatial_cases;

class SpatialGradient : public ::testing::TestWithParam<Case> {};

TEST_P(SpatialGradient, EqualsCentralDifferences) { check_gradients(gradient_case(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Layers, SpatialGradient, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace banyan::testing
