// AnchorTarget and Proposal with boxes that are given one by one (makefile/frcnn).
#include "banyan/base/error.hpp"
#include "layers/bench.hpp"

namespace banyan::testing {
namespace {

// What base_size: 16 ratio: [0.5, 1, 2] scale: [8, 16, 32] stands for.
constexpr const char* kNine =
    "anchor: [-84, -40, 99, 55, -176, -88, 191, 103, -360, -184, 375, 199, -56, -56, 71, 71, -120, -120, "
    "135, 135, "
    "-248, -248, 263, 263, -36, -80, 51, 95, -80, -168, 95, 183, -168, -344, 183, 359]";

TEST(GivenAnchors, AreThoseOfRatiosAndScales) {
  const std::vector<Shape> shapes{Shape{1, 18, 20, 24}, Shape{2, 5}, Shape{1, 3}};
  const auto run = [&](const std::string& anchors) {
    Bench bench("type: 'AnchorTarget' anchor_target_param { allowed_border: 40 " + anchors + " }", shapes, 4);
    bench.set_input(0, Values(static_cast<std::size_t>(shapes[0].count()), 0));
    bench.set_input(1, {20, 30, 180, 200, 1, 200, 100, 320, 190, 2});
    bench.set_input(2, {320, 384, 1});
    bench.forward();
    Values all;
    for (std::size_t i = 0; i < 4; ++i) {
      const Values values = bench.output(i);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  EXPECT_EQ(run(kNine), run(""));
  EXPECT_NE(run(kNine), run("scale: [4, 8, 16]"));

  const auto propose = [&](const std::string& anchors) {
    Bench bench("type: 'Proposal' proposal_param { post_nms_topn: 30 " + anchors + " }",
                {shapes[0], Shape{1, 36, 20, 24}, Shape{1, 3}}, 1);
    bench.set_input(0, spread_values(shapes[0].count(), 1));
    bench.set_input(1, spread_values(2 * shapes[0].count(), 2));
    bench.set_input(2, {320, 384, 1});
    bench.forward();
    return bench.output();
  };
  EXPECT_EQ(propose(kNine), propose(""));
}

TEST(GivenAnchors, AreFourNumbersEach) {
  const auto refusal = [](const std::string& settings) -> std::string {
    try {
      Bench("type: 'Proposal' proposal_param { " + settings + " }",
            {Shape{1, 2, 3, 3}, Shape{1, 4, 3, 3}, Shape{1, 3}}, 1);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal("anchor: [0, 0, 9, 9]"), "none");
  EXPECT_NE(refusal("anchor: [0, 0, 9]").find("anchor is given 3 times; expected four for each box"),
            std::string::npos);
  EXPECT_NE(refusal("anchor: [0, 0, 9, 9] scale: 8").find("give either anchor or ratio and scale, not both"),
            std::string::npos);
  EXPECT_NE(refusal("anchor: [0, 5, 9, 2]").find("anchor 0 from 0, 5 to 9, 2 is empty"), std::string::npos);
  EXPECT_NE(refusal("anchor: [0, 0, 9, 9, 1, 1, 2, 2]").find("as there are 2 anchors"), std::string::npos);
}

}  // namespace
}  // namespace banyan::testing
