// image_data_param { pair_size }: lines that stay together when they are shuffled.
#include <algorithm>
#include <set>

#include "banyan/data/epoch_order.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;

TEST(EpochOrder, KeepsRecordsTogether) {
  const EpochOrder order(12, true, {7, 3, 0}, {}, 3);
  std::set<std::uint64_t> seen;
  bool moved = false;
  for (std::uint64_t i = 0; i < 12; ++i) {
    const std::uint64_t found = order.record(1, i);
    seen.insert(found);
    moved |= found != i;
    EXPECT_EQ(found % 3, i % 3);
    if (i % 3 > 0) {
      EXPECT_EQ(found, order.record(1, i - 1) + 1);
    }
  }
  EXPECT_EQ(seen.size(), 12u);
  EXPECT_TRUE(moved);
  const EpochOrder plain(12, false, {}, {}, 3);
  for (std::uint64_t i = 0; i < 12; ++i) EXPECT_EQ(plain.record(0, i), i);
}

class ImagePairs : public FolderTest {
 protected:
  std::string make(int images, const std::string& more) {
    std::string list;
    for (int i = 0; i < images; ++i) {
      const std::string name = "pair " + std::to_string(i) + ".png";
      write_file(path(name), encode_image(gradient_image(3, 8, 8), "png"));
      list += name + " " + std::to_string(i) + "\n";
    }
    write_file(path("pairs"), list);
    return "name: 'data' type: 'ImageData' top: 'data' top: 'label' image_data_param { source: '" +
           path("pairs") + "' root_folder: '" + folder_ + "/' " + more + "}";
  }
};

TEST_F(ImagePairs, StayTogetherInShuffledEpochs) {
  Replica replica(make(12, "batch_size: 4 shuffle: true pair_size: 2"));
  std::vector<int> epochs[2];
  for (std::vector<int>& labels : epochs) {
    for (int batch = 0; batch < 3; ++batch) {
      const std::vector<int> found = replica.step();
      labels.insert(labels.end(), found.begin(), found.end());
    }
    for (std::size_t i = 0; i < 12; i += 2) {
      EXPECT_EQ(labels[i] % 2, 0);
      EXPECT_EQ(labels[i + 1], labels[i] + 1);
    }
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (std::vector<int>& labels : epochs) std::sort(labels.begin(), labels.end());
  EXPECT_EQ(epochs[0], epochs[1]);
  EXPECT_EQ(epochs[0].back(), 11);
}

TEST_F(ImagePairs, RefuseWhatWouldDivideThem) {
  const auto message = [&](int images, const std::string& more) {
    const std::string text = make(images, more);
    return bad_input_of([&] { Replica(text).step(); });
  };
  EXPECT_THAT(message(11, "batch_size: 4 shuffle: true pair_size: 2"),
              HasSubstr("keeps 2 records together, which do not divide the 11 of the source"));
  EXPECT_THAT(message(12, "batch_size: 3 pair_size: 2"),
              HasSubstr("pair_size 2 must divide the batch_size, which is 3"));
  EXPECT_THAT(message(12, "batch_size: 4 pair_size: 0"), HasSubstr("pair_size must be positive"));
  EXPECT_THAT(message(12, "batch_size: 4 pair_size: 2 rand_skip: 3"), HasSubstr("could begin within a pair"));
}

}  // namespace
}  // namespace banyan::data
