// The pure decisions on memory: layouts, lifetimes, offsets.
#include <algorithm>

#include "banyan/net/layout_plan.hpp"
#include "banyan/net/lifetimes.hpp"
#include "banyan/net/memory_plan.hpp"
#include "net/net_test_tools.hpp"

namespace banyan {
namespace {

using testing::ElementsAre;

const Shape kImage{2, 3, 4, 4}, kGrey{2, 1, 4, 4}, kPixel{2, 3, 1, 1}, kMatrix{2, 3};
constexpr auto kLast = Layout::channels_last;
constexpr auto kPlain = Layout::contiguous;

TEST(ChooseLayouts, MattersForSeveralChannelsAndPositionsOnly) {
  EXPECT_TRUE(layout_matters(kImage));
  EXPECT_FALSE(layout_matters(kGrey));
  EXPECT_FALSE(layout_matters(kPixel));
  EXPECT_FALSE(layout_matters(kMatrix));
}

TEST(ChooseLayouts, GivesContiguousLayersContiguousInputs) {
  const auto choices =
      choose_layouts(LayoutRule::contiguous, {{&kImage, kLast}, {&kPixel, kLast}, {&kImage, kPlain}});
  EXPECT_EQ(choices[0].conversion, Conversion::copy);
  EXPECT_EQ(choices[0].layout, kPlain);
  EXPECT_EQ(choices[1].conversion, Conversion::relabel);
  EXPECT_EQ(choices[2].conversion, Conversion::none);
}

TEST(ChooseLayouts, BringsFollowersToOneLayout) {
  const auto mixed =
      choose_layouts(LayoutRule::follows, {{&kImage, kPlain}, {&kImage, kLast}, {&kMatrix, kPlain}});
  EXPECT_EQ(mixed[0].conversion, Conversion::copy);
  EXPECT_EQ(mixed[0].layout, kLast);
  EXPECT_EQ(mixed[1].conversion, Conversion::none);
  EXPECT_EQ(mixed[2].conversion, Conversion::none);
  const auto plain = choose_layouts(LayoutRule::follows, {{&kImage, kPlain}, {&kGrey, kPlain}});
  EXPECT_EQ(plain[0].conversion, Conversion::none);
  EXPECT_EQ(plain[1].conversion, Conversion::none);
}

TEST(ChooseLayouts, LeavesOthersAlone) {
  for (const Layout layout : {kPlain, kLast})
    EXPECT_EQ(choose_layouts(LayoutRule::channels_last, {{&kImage, layout}})[0].conversion, Conversion::none);
}

TEST(PlanMemory, SharesWhatDoesNotOverlap) {
  // A chain of three: the third may take the first one's place.
  const MemoryPlan plan = plan_memory({{100, {{0, 1}}}, {50, {{1, 2}}}, {100, {{2, 3}}}}, 16);
  EXPECT_EQ(plan.sum, 112 + 64 + 112);
  EXPECT_EQ(plan.total, 112 + 64);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
}

TEST(PlanMemory, FillsGaps) {
  const MemoryPlan plan = plan_memory({{64, {{0, 9}}}, {32, {{0, 2}}}, {32, {{0, 9}}}, {16, {{3, 9}}}}, 16);
  EXPECT_EQ(plan.offsets[3], plan.offsets[1]);
  EXPECT_EQ(plan.total, 128);
}

TEST(PlanMemory, TriesSeveralOrders) {
  // With the largest first, both need 176 bytes.
  const std::vector<std::vector<Lifetime>> nets{
      {{48, {{3, 4}}}, {64, {{5, 5}}}, {64, {{3, 5}}}, {48, {{1, 3}}}},
      {{32, {{2, 4}}}, {64, {{0, 1}}}, {48, {{0, 3}}}, {32, {{1, 4}}}, {48, {{2, 5}}}}};
  for (const std::vector<Lifetime>& lifetimes : nets) {
    EXPECT_EQ(most_alive(lifetimes, 16), 160);
    EXPECT_EQ(plan_memory(lifetimes, 16).total, 160);
  }
}

TEST(PlanMemory, IgnoresEmptyTensors) {
  const MemoryPlan plan = plan_memory({{0, {{0, 9}}}, {16, {{0, 9}}}, {0, {{3, 3}}}}, 16);
  EXPECT_EQ(plan.total, 16);
}

bool alive(const Lifetime& life, int step) {
  return std::any_of(life.spans.begin(), life.spans.end(),
                     [&](const Span& span) { return span.first <= step && step <= span.last; });
}

TEST(PlanMemory, NeverOverlapsInSpaceAndTime) {
  std::uint64_t state = 1;
  const auto draw = [&](int n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state >> 33) % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lives;
    for (int i = 0; i < 30; ++i) {
      Lifetime life{draw(100), {}};
      for (int first = draw(20); first < 28 && life.spans.size() < 3; first += 2 + draw(9)) {
        life.spans.push_back({first, std::min(27, first + draw(8))});
        first = life.spans.back().last;
      }
      lives.push_back(life);
    }
    const MemoryPlan plan = plan_memory(lives, 8);
    std::int64_t busiest = 0;
    for (int step = 0; step < 28; ++step) {
      std::int64_t live = 0;
      for (const Lifetime& l : lives)
        if (alive(l, step)) live += (l.size + 7) / 8 * 8;
      busiest = std::max(busiest, live);
    }
    EXPECT_EQ(most_alive(lives, 8), busiest);
    EXPECT_GE(plan.total, busiest);
    for (std::size_t a = 0; a < lives.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        bool in_time = false;
        for (int step = 0; step < 28; ++step)
          in_time = in_time || (alive(lives[a], step) && alive(lives[b], step));
        const bool in_space = plan.offsets[a] < plan.offsets[b] + lives[b].size &&
                              plan.offsets[b] < plan.offsets[a] + lives[a].size;
        ASSERT_FALSE(in_time && in_space && lives[a].size > 0 && lives[b].size > 0);
        ASSERT_EQ(plan.offsets[a] % 8, 0);
      }
  }
}

TEST(PlanSeparate, GivesEachItsOwn) {
  EXPECT_THAT(plan_separate({{10, {{0, 0}}}, {10, {{5, 5}}}}, 16).offsets, ElementsAre(0, 16));
}

LayerUse use(std::vector<int> inputs, std::vector<int> outputs, bool backward, bool reads_in, bool reads_out,
             std::vector<bool> propagate) {
  LayerUse result;
  result.inputs = std::move(inputs);
  result.outputs = std::move(outputs);
  result.needs_backward = backward;
  result.reads_inputs = reads_in;
  result.reads_outputs = reads_out;
  result.propagate = std::move(propagate);
  result.converted_from.assign(result.inputs.size(), -1);
  return result;
}

std::string shown(const Span& span) {
  return span.used() ? std::to_string(span.first) + ".." + std::to_string(span.last) : "-";
}
std::string shown(const std::vector<Span>& spans) {
  std::string text;
  for (const Span& span : spans) text += (text.empty() ? "" : " ") + shown(span);
  return text.empty() ? "-" : text;
}
TensorSpans plain_lifetimes(const TensorUses& uses) {
  return find_lifetimes(uses, plain_schedule(static_cast<int>(uses.layers.size())));
}

TEST(FindLifetimes, ForwardOnlyEndsAtTheLastReader) {
  TensorUses uses;
  uses.layers = {use({}, {0}, false, false, false, {}), use({0}, {1}, false, true, true, {false}),
                 use({1}, {2}, false, true, true, {false})};
  uses.data_of = uses.grad_of = {0, 1, 2};
  uses.keeps_data = {false, false, true};
  uses.has_grad = {false, false, false};
  const TensorSpans spans = plain_lifetimes(uses);
  EXPECT_EQ(shown(spans.data[0]), "0..1");
  EXPECT_EQ(shown(spans.data[1]), "1..2");
  EXPECT_EQ(shown(spans.data[2]), "2..6");
  EXPECT_EQ(shown(spans.grad[1]), "-");
}

TEST(FindLifetimes, BackwardReadersKeepData) {
  // source 0 -> conv (reads inputs) 1 -> relu in place (reads outputs) 1 -> loss 2; steps 4..7 are backward
  TensorUses uses;
  uses.layers = {use({}, {0}, false, false, false, {}), use({0}, {1}, true, true, false, {false}),
                 use({1}, {1}, true, false, true, {true}), use({1}, {2}, true, false, false, {true})};
  uses.data_of = uses.grad_of = {0, 1, 2};
  uses.keeps_data = {false, false, true};
  uses.has_grad = {false, true, true};
  const TensorSpans spans = plain_lifetimes(uses);
  EXPECT_EQ(shown(spans.data[0]), "0..6");
  EXPECT_EQ(shown(spans.data[1]), "1..5");
  EXPECT_EQ(shown(spans.grad[0]), "-");
  EXPECT_EQ(shown(spans.grad[1]), "4..6");
  EXPECT_EQ(shown(spans.grad[2]), "4..4");
}

TEST(FindLifetimes, SharersLiveAsLongAsTheLastOfThem) {
  // 0 -> flatten 1 (shares 0) -> 2
  TensorUses uses;
  uses.layers = {use({}, {0}, false, false, false, {}), use({0}, {1}, false, false, false, {false}),
                 use({1}, {2}, false, false, false, {false})};
  uses.data_of = uses.grad_of = {0, 0, 2};
  uses.keeps_data = {false, false, false};
  uses.has_grad = {false, false, false};
  const TensorSpans spans = plain_lifetimes(uses);
  EXPECT_EQ(shown(spans.data[0]), "0..2");
  EXPECT_EQ(shown(spans.data[1]), "-");
}

TEST(FindLifetimes, KeepsGradientsThatNobodyConsumes) {
  TensorUses uses;
  uses.layers = {use({}, {0}, false, false, false, {}), use({0}, {1}, true, false, false, {true})};
  uses.data_of = uses.grad_of = {0, 1};
  uses.keeps_data = {false, true};
  uses.has_grad = {true, true};
  EXPECT_EQ(shown(plain_lifetimes(uses).grad[0]), "2..4");
}

}  // namespace
}  // namespace banyan
