// Blocks of several tensors as one tensor.
#include "banyan/ops/join.hpp"

#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

using Values = std::vector<double>;

class Join : public DeviceTest {};

TEST_P(Join, ManyAndFewBlocks) {
  for (const std::int64_t blocks : {0, 1, 3, 3000}) {
    SCOPED_TRACE(blocks);
    const std::vector<std::int64_t> lengths = {5, 1, 0, 18};
    const auto count = static_cast<std::size_t>(24 * blocks);
    Values whole(count);
    std::vector<Values> parts(4);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = i % 24;
      whole[i] = static_cast<double>(i);
      parts[at < 5 ? 0 : at < 6 ? 1 : 3].push_back(whole[i]);
    }
    std::vector<Tensor> tensors, split;
    for (std::size_t k = 0; k < 4; ++k) {
      tensors.push_back(make({blocks * lengths[k]}, parts[k]));
      split.push_back(make({blocks * lengths[k]}, Values(parts[k].size(), -1)));
    }
    Tensor joined = make({24 * blocks}, Values(count, -1));
    const ops::BlockParts what{blocks, lengths};
    ops::join_blocks(context(), {&tensors[0], nullptr, &tensors[2], &tensors[3]}, what, joined);
    Values expected = whole;
    for (std::size_t i = 5; i < count; i += 24) expected[i] = -1;
    EXPECT_EQ(values(joined), expected);
    ops::join_blocks(context(), {&tensors[0], &tensors[1], &tensors[2], &tensors[3]}, what, joined);
    EXPECT_EQ(values(joined), whole);
    ops::split_blocks(context(), joined, what, {&split[0], &split[1], &split[2], nullptr});
    for (const std::size_t k : {0, 1, 2}) EXPECT_EQ(values(split[k]), parts[k]);
    EXPECT_EQ(values(split[3]), Values(parts[3].size(), -1));
  }
}

/// So much that CPU devices write past their caches, where parts are whole cache lines.
TEST_P(Join, MoreThanCachesHold) {
  for (const std::int64_t first : {48, 47}) {
    const std::int64_t blocks = 40000, second = 80;
    const auto count = static_cast<std::size_t>(blocks * (first + second));
    Values whole(count);
    std::vector<Values> parts(2);
    for (std::size_t i = 0; i < count; ++i) {
      whole[i] = static_cast<double>(i);
      parts[static_cast<std::int64_t>(i) % (first + second) < first ? 0 : 1].push_back(whole[i]);
    }
    const Tensor one = make({blocks * first}, parts[0]), two = make({blocks * second}, parts[1]);
    Tensor joined = empty({blocks * (first + second)}), left = empty({blocks * first}),
           right = empty({blocks * second});
    const ops::BlockParts what{blocks, {first, second}};
    ops::join_blocks(context(), {&one, &two}, what, joined);
    EXPECT_EQ(values(joined), whole);
    ops::split_blocks(context(), joined, what, {&left, &right});
    EXPECT_EQ(values(left), parts[0]);
    EXPECT_EQ(values(right), parts[1]);
  }
}

TEST_P(Join, TakesEveryType) {
  for (const DType type : {DType::u8, DType::i32, DType::f32, DType::f64}) {
    const Tensor a = make_as(type, {2}, {1, 2}), b = make_as(type, {4}, {3, 4, 5, 6});
    Tensor both = make_as(type, {6}, Values(6));
    ops::join_blocks(context(), {&a, &b}, {2, {1, 2}}, both);
    EXPECT_EQ(values(both), (Values{1, 3, 4, 2, 5, 6}));
  }
}

TEST_P(Join, RefusesWhatDoesNotFit) {
  const Tensor a = empty({4}), b = empty({6});
  Tensor both = empty({10}), other = empty({6});
  EXPECT_THROW(ops::join_blocks(context(), {&a, &b}, {2, {2, 2}}, both), Error) << "b has blocks of 3";
  EXPECT_THROW(ops::join_blocks(context(), {&a, &b}, {2, {2, 3}}, other), Error) << "10 elements";
  EXPECT_THROW(ops::join_blocks(context(), {&a, &b}, {2, {5}}, both), Error) << "two parts";
  const Tensor bytes = make_as(DType::u8, {6}, Values(6));
  EXPECT_THROW(ops::join_blocks(context(), {&a, &bytes}, {2, {2, 3}}, both), Error) << "types differ";
}

BANYAN_ON_ALL_DEVICES(Join);

}  // namespace
}  // namespace banyan
