// CustomData (FlowNet2): records that hold two images and the flow between them.
#include <algorithm>
#include <cmath>
#include <set>

#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;

constexpr int kPairHeight = 2, kPairWidth = 5, kPairPixels = kPairHeight * kPairWidth;

/// Two images of three channels, a flow, and where it is known. Byte i of the images is 7 * i + shift.
std::string pair_record(const std::vector<int>& flow, const std::vector<std::uint8_t>& known, int shift = 0) {
  std::string bytes;
  for (int i = 0; i < 6 * kPairPixels; ++i) bytes += static_cast<char>((7 * i + shift) & 0xff);
  for (const int value : flow) {
    bytes += static_cast<char>(value & 0xff);
    bytes += static_cast<char>(value >> 8 & 0xff);
  }
  for (const std::uint8_t byte : known) bytes += static_cast<char>(byte);
  caffe::Datum datum;
  datum.set_channels(9);
  datum.set_height(kPairHeight);
  datum.set_width(kPairWidth);
  datum.set_data(bytes);
  datum.set_label(shift);
  return datum.SerializeAsString();
}

std::vector<int> flow_values() {
  std::vector<int> values;
  for (int i = 0; i < 2 * kPairPixels; ++i) values.push_back(37 * i - 400);
  values[3] = 32767;
  values[4] = -32768;
  return values;
}

class CustomData : public FolderTest {
 protected:
  void write_records(const std::vector<std::string>& records) {
    LmdbWriter writer(path("db"));
    for (std::size_t i = 0; i < records.size(); ++i) writer.put(key_of(i), records[i]);
    writer.close();
  }
  /// As PWC-Net's nets write it.
  std::string pairs(const std::string& more = "batch_size: 1") {
    return "name: 'pairs' type: 'CustomData' top: 'a' top: 'b' top: 'flow' top: 'known' data_param { source: "
           "'" +
           path("db") +
           "' backend: LMDB slice_point: 3 slice_point: 6 slice_point: 8 encoding: UINT8 encoding: UINT8 "
           "encoding: UINT16FLOW encoding: BOOL1 verbose: true " +
           more + " }";
  }
  /// One blob and the label, which is the number of the record.
  std::string numbered(const std::string& more) {
    return "name: 'n' type: 'CustomData' top: 'data' top: 'label' data_param { source: '" + path("db") +
           "' " + more + " }";
  }
  std::vector<int> order(const std::string& more, int records) {
    return Replica(numbered(more + " batch_size: " + std::to_string(records))).step();
  }
  std::string refusal(const std::string& text) {
    return bad_input_of([&] { Replica(text).step(); });
  }
};

TEST_F(CustomData, EachTopIsStoredInAWayOfItsOwn) {
  const std::vector<int> flow = flow_values();
  write_records({pair_record(flow, {0b10000101, 0b11111110})});
  Replica replica(pairs());
  replica.step();
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{1, 3, 2, 5}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{1, 3, 2, 5}));
  EXPECT_EQ(replica.outputs[2]->shape, (Shape{1, 2, 2, 5}));
  EXPECT_EQ(replica.outputs[3]->shape, (Shape{1, 1, 2, 5}));
  for (std::size_t i = 0; i < 3 * kPairPixels; ++i) {
    EXPECT_EQ(replica.values(0)[i], 7 * i % 256);
    EXPECT_EQ(replica.values(1)[i], 7 * (i + 3 * kPairPixels) % 256);
  }
  const std::vector<double> read = replica.values(2);
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (i == 3)
      EXPECT_TRUE(std::isnan(read[i]));  // not known
    else
      EXPECT_EQ(read[i], flow[i] / 32.0);
  }
  EXPECT_EQ(read[4], -1024);
  EXPECT_EQ(replica.values(3), (std::vector<double>{1, 0, 1, 0, 0, 0, 0, 1, 0, 1}));
}

TEST_F(CustomData, FloatsHaveNoEncoding) {
  caffe::Datum datum;
  datum.set_channels(2);
  datum.set_height(1);
  datum.set_width(2);
  for (const float value : {0.5f, -1.5f, 2.0f, 3.25f}) datum.add_float_data(value);
  write_records({datum.SerializeAsString()});
  const std::string text = "name: 'f' type: 'CustomData' top: 'a' top: 'b' data_param { source: '" +
                           path("db") + "' batch_size: 1 slice_point: 1 ";
  Replica replica(text + "}");
  replica.step();
  EXPECT_EQ(replica.values(0), (std::vector<double>{0.5, -1.5}));
  EXPECT_EQ(replica.values(1), (std::vector<double>{2, 3.25}));
  EXPECT_THAT(refusal(text + "encoding: UINT8 }"),
              HasSubstr("floating-point numbers, which have no encoding"));
}

TEST_F(CustomData, SubtractsFromChannelsThenScales) {
  write_records({pair_record(flow_values(), {0, 0})});
  Replica replica(pairs("batch_size: 1 subtract: [1, 2, 3, 4] scale: 0.5"));
  replica.step();
  for (std::size_t i = 0; i < 3 * kPairPixels; ++i) {
    const auto channel = static_cast<double>(i / kPairPixels);
    EXPECT_EQ(replica.values(0)[i], (static_cast<double>(7 * i % 256) - 1 - channel) / 2);
    const auto second = static_cast<double>(7 * (i + 3 * kPairPixels) % 256);
    EXPECT_EQ(replica.values(1)[i], (second - (channel == 0 ? 4 : 0)) / 2);
  }
  EXPECT_EQ(replica.values(2)[0], -400 / 64.0);
}

TEST_F(CustomData, ReadsTheRecordsThatAreChosen) {
  make_numbered_lmdb(path("db"), 8);
  write_file(path("split"), std::string("1 2 1 1\n2\n1 1 2\n"));
  const std::string split = "preselection_file: '" + path("split") + "' preselection_label: ";
  EXPECT_EQ(order("", 8), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(order(split + "1", 5), (std::vector<int>{0, 2, 3, 5, 6}));
  EXPECT_EQ(order(split + "2", 3), (std::vector<int>{1, 4, 7}));
  EXPECT_EQ(order(split + "1 range_start: 1 range_end: 3", 3), (std::vector<int>{2, 3, 5}));
  EXPECT_EQ(order(split + "1 range_start: 3", 4), (std::vector<int>{5, 6, 5, 6}));
  EXPECT_EQ(order("range_start: -5 range_end: 1", 2), (std::vector<int>{0, 1}));
  EXPECT_EQ(order("range_start: 20 range_end: 30", 1), (std::vector<int>{7}));
}

TEST_F(CustomData, ARandomOrderIsDrawnOnce) {
  make_numbered_lmdb(path("db"), 40);
  const std::vector<int> first = order("rand_permute: true rand_permute_seed: 77", 40);
  EXPECT_EQ(first, order("rand_permute: true rand_permute_seed: 77", 40));
  EXPECT_NE(first, order("rand_permute: true rand_permute_seed: 78", 40));
  EXPECT_NE(first, order("rand_permute: true", 40));
  EXPECT_EQ(std::set<int>(first.begin(), first.end()).size(), 40u);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  std::vector<int> twice = first;
  twice.insert(twice.end(), first.begin(), first.end());
  EXPECT_EQ(order("rand_permute: true rand_permute_seed: 77", 80), twice);
  // A range of it, or an order of a range.
  EXPECT_EQ(order("rand_permute: true rand_permute_seed: 77 range_start: 10 range_end: 14", 5),
            std::vector<int>(first.begin() + 10, first.begin() + 15));
  std::vector<int> range = order(
      "rand_permute: true rand_permute_seed: 77 rand_permute_order: FIRST_RANGE_THEN_PERMUTE range_start: 10 "
      "range_end: 19",
      10);
  EXPECT_FALSE(std::is_sorted(range.begin(), range.end()));
  std::sort(range.begin(), range.end());
  EXPECT_EQ(range, (std::vector<int>{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
  // Within blocks; the last one is shorter.
  const std::vector<int> blocks = order("rand_permute: true block_size: 16", 40);
  EXPECT_FALSE(std::is_sorted(blocks.begin(), blocks.end()));
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(blocks[i] / 16, static_cast<int>(i) / 16);
  // And with shuffle another order in each epoch.
  const std::vector<int> epochs = order("shuffle: true", 80);
  EXPECT_EQ(std::set<int>(epochs.begin(), epochs.begin() + 40).size(), 40u);
  EXPECT_NE(std::vector<int>(epochs.begin(), epochs.begin() + 40),
            std::vector<int>(epochs.begin() + 40, epochs.end()));
}

TEST_F(CustomData, SeveralDevicesTogetherAreOne) {
  std::vector<std::string> records;
  for (int i = 0; i < 7; ++i) records.push_back(pair_record(flow_values(), {1, 2}, 3 * i));
  write_records(records);
  const std::string order = " rand_permute: true rand_permute_seed: 5";
  Replica one(pairs("batch_size: 4" + order)), first(pairs("batch_size: 2" + order), 0, 2),
      second(pairs("batch_size: 2" + order), 1, 2);
  for (int step = 0; step < 5; ++step) {
    one.step();
    first.step();
    second.step();
    for (const std::size_t output : {0u, 1u, 3u}) {
      const std::vector<double> whole = one.values(output);
      const std::size_t each = whole.size() / 4;
      for (std::size_t i = 0; i < 4; ++i) {
        const std::vector<double> part = (i % 2 == 0 ? first : second).values(output);
        for (std::size_t at = 0; at < each; ++at) ASSERT_EQ(part[i / 2 * each + at], whole[i * each + at]);
      }
    }
  }
}

TEST_F(CustomData, RefusesRecordsThatDoNotFit) {
  write_records({pair_record(flow_values(), {1, 2, 3})});
  EXPECT_THAT(refusal(pairs()),
              HasSubstr("record 0 (counted from 0; key \"00000000\"): the record says 9 x 2 x "
                        "5, which these encodings store in 102 bytes, but holds 103"));
  EXPECT_THAT(refusal("name: 'p' type: 'CustomData' top: 'a' top: 'b' data_param { source: '" + path("db") +
                      "' batch_size: 1 slice_point: 9 }"),
              HasSubstr("the record has 9 channels; the last slice_point is 9"));
  EXPECT_THAT(refusal("name: 'p' type: 'CustomData' top: 'a' data_param { source: '" + path("db") +
                      "' batch_size: 1 encoding: BOOL1 }"),
              HasSubstr("BOOL1 is for one channel; top 0 has 9"));
}

TEST_F(CustomData, RefusesWrongSettings) {
  make_numbered_lmdb(path("db"), 4);
  const auto says = [&](const std::string& more, const std::string& what) {
    EXPECT_THAT(refusal(numbered("batch_size: 1 " + more)), HasSubstr(what)) << more;
  };
  says("backend: LEVELDB", "data_param.backend must be LMDB");
  says("crop_size: 1", "data_param.crop_size is not possible");
  says("mean_file: 'm'", "data_param.mean_file is not supported; subtract takes numbers");
  says("permute_every_iter: 3", "data_param.permute_every_iter is not supported: shuffle: true gives");
  says("slice_point: 1 slice_point: 1", "data_param.slice_point must rise, from 1 on; number 2 is 1");
  says("slice_point: 1 slice_point: 2 slice_point: 3",
       "makes 4 blobs, or one more with labels; there are 2 tops");
  says("encoding: UINT8 encoding: UINT8", "data_param.encoding has 2 entries for 1 blobs");
  says("preselection_label: 1", "data_param.preselection_file and preselection_label come together");
  says("range_start: 3 range_end: 1", "range_end, 1, is before range_start, 3");
  says("subtract: [1, 2]", "the record has 1 channels; subtract has 2 numbers");
  write_file(path("split"), std::string("1 2 1\n"));
  const std::string split = "preselection_file: '" + path("split") + "' preselection_label: ";
  says(split + "1", "has 3 numbers for 4 records");
  write_file(path("split"), std::string("1 2\n1 two\n"));
  says(split + "1", "split:2: expected a whole number for each record, found \"two\"");
  write_file(path("split"), std::string("1 2 1 1\n"));
  says(split + "5", "has no record with the number 5");
  EXPECT_THAT(
      refusal(numbered("batch_size: 1") + " transform_param { scale: 2 }"),
      HasSubstr("transform_param is not possible in CustomData; DataAugmentation changes the images"));
}

}  // namespace
}  // namespace banyan::data
