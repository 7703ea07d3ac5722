#include "train/sources.hpp"

#include <gtest/gtest.h>

#include "train/part_bench.hpp"
#include "train/training_run.hpp"

namespace banyan {
namespace {

class SourcesTest : public TrainingRun {
 protected:
  std::unique_ptr<Net> net(const std::string& layer) {
    return bench_.net("layer { name: '" + layer +
                      "' type: 'Data' top: 'data' top: 'label' data_param { source: '" + path("db") +
                      "' batch_size: 2 backend: LMDB } }");
  }
  std::uint64_t consumed(const Net& net) {
    Sources sources;
    sources.add(net, "any");
    caffe::BanyanState state;
    sources.save(state);
    return state.source(0).consumed();
  }
  void take_batches(Net& net, int batches) {
    for (int i = 0; i < batches; ++i) {
      Pass pass = bench_.pass();
      net.forward(pass);
    }
  }
  PartBench bench_;
};

TEST_F(SourcesTest, ThoseOfOneNameGoOnInTheirOrder) {
  const auto first = net("images"), second = net("images"), third = net("images");
  Sources saved;
  saved.add(*first, "train");
  saved.add(*second, "train");
  take_batches(*first, 3);
  take_batches(*second, 1);
  caffe::BanyanState state;
  saved.save(state);
  const auto again = net("images"), second_again = net("images");
  take_batches(*third, 1);
  Sources restored;
  restored.add(*again, "train");
  restored.add(*second_again, "train");
  restored.add(*third, "train");  // a state with fewer of them: the last begins again
  restored.restore(state);
  EXPECT_EQ(consumed(*again), 6u);
  EXPECT_EQ(consumed(*second_again), 2u);
  EXPECT_EQ(consumed(*third), 0u);
}

TEST_F(SourcesTest, GoOnWhereTheSavedOnesStood) {
  const auto train = net("images"), test = net("images"), other = net("others");
  Sources saved;
  saved.add(*train, "train");
  saved.add(*test, "test0");
  saved.add(*other, "train");
  take_batches(*train, 3);
  take_batches(*other, 1);
  caffe::BanyanState state;
  saved.save(state);
  ASSERT_EQ(state.source_size(), 3);
  EXPECT_EQ(state.source(0).net(), "train");
  EXPECT_EQ(state.source(1).net(), "test0");
  EXPECT_EQ(state.source(2).layer(), "others");

  const auto again = net("images"), unknown = net("unknown");
  Sources restored;
  restored.add(*unknown, "train");
  restored.add(*again, "train");
  restored.restore(state);
  EXPECT_EQ(consumed(*again), 6u);
  EXPECT_EQ(consumed(*unknown), 0u);
}

}  // namespace
}  // namespace banyan
