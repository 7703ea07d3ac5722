// The Data and ImageData layers on CPU devices, without a net around them.

#include <algorithm>

#include "banyan/base/log.hpp"
#include "data/data_test_tools.hpp"
#include "data/source_replica.hpp"

namespace banyan::data {
namespace {

using testing::HasSubstr;

std::string data_text(const std::string& source, int batch, const std::string& more = "",
                      const std::string& transform = "") {
  return "name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: '" + source +
         "' backend: LMDB batch_size: " + std::to_string(batch) + " " + more + "} transform_param { " +
         transform + " }";
}

class DataLayer : public FolderTest {};

TEST_F(DataLayer, ServesRecordsInOrderAndWraps) {
  make_numbered_lmdb(path("db"), 5, 1, 2, 3);
  Replica replica(data_text(path("db"), 3));
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{3, 1, 2, 3}));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{3}));
  EXPECT_EQ(replica.source().consumed(), 0u);
  EXPECT_EQ(replica.step(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(replica.source().consumed(), 3u);
  EXPECT_EQ(replica.step(), (std::vector<int>{3, 4, 0}));
  const std::vector<double> pixels = replica.values(0);
  EXPECT_EQ(pixels[0], 3);
  EXPECT_EQ(pixels[17], 0);
}

TEST_F(DataLayer, TheLabelIsOptional) {
  make_numbered_lmdb(path("db"), 5);
  std::string text = data_text(path("db"), 3);
  text.replace(text.find("top: 'label'"), 12, "");
  Replica replica(text);
  replica.step();
  EXPECT_EQ(replica.values(0)[4], 1);
}

TEST_F(DataLayer, RecordsWithSeveralLabelsGiveEachALine) {
  LmdbWriter writer(path("db"));
  const std::uint8_t pixel = 1;
  for (int i = 0; i < 4; ++i) {
    std::string record = raw_datum(1, 1, 1, &pixel, i) + '\x28' + static_cast<char>(10 + i);
    if (i == 3) record += "\x28\x01";
    writer.put(key_of(static_cast<std::uint64_t>(i)), record);
  }
  writer.close();
  Replica replica(data_text(path("db"), 3));
  EXPECT_EQ(replica.outputs[1]->shape, (Shape{3, 2}));
  replica.step();
  EXPECT_EQ(replica.values(1), (std::vector<double>{0, 10, 1, 11, 2, 12}));
  EXPECT_THAT(bad_input_of([&] { replica.step(); }),
              HasSubstr("the item is 2, but its batch began with one of 3"));
}

/// What a batch holds for each global sample: label and pixels.
using Batch = std::vector<std::pair<int, std::vector<double>>>;

std::vector<Batch> train(const std::string& text, int devices, int steps, std::uint64_t from = 0) {
  std::vector<Batch> batches(steps);
  for (int rank = 0; rank < devices; ++rank) {
    Replica replica(text, rank, devices);
    replica.source().seek(from);
    for (int k = 0; k < steps; ++k) {
      Batch& batch = batches[k];
      const std::vector<int> labels = replica.step();
      const std::vector<double> pixels = replica.values(0);
      for (std::size_t i = 0; i < labels.size(); ++i) {
        const std::size_t global = i * static_cast<std::size_t>(devices) + static_cast<std::size_t>(rank);
        if (batch.size() <= global) batch.resize(global + 1);
        const std::size_t length = pixels.size() / labels.size();
        const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(i * length);
        batch[global] = {labels[i], {first, first + static_cast<std::ptrdiff_t>(length)}};
      }
    }
  }
  return batches;
}

TEST_F(DataLayer, NDevicesSeeWhatOneDeviceSees) {
  LmdbWriter writer(path("db"));
  for (int i = 0; i < 23; ++i) {
    Image image = gradient_image(3, 6, 6);
    for (std::uint8_t& pixel : image.pixels) pixel = static_cast<std::uint8_t>(pixel + i);
    const auto file = encode_image(image, "png");
    writer.put(key_of(static_cast<std::uint64_t>(i)),
               encoded_datum({reinterpret_cast<const char*>(file.data()), file.size()}, i));
  }
  writer.close();
  for (const char* more :
       {"", "epoch_end: PARTIAL", "shuffle: true", "shuffle: true epoch_end: PARTIAL threads: 3"}) {
    const std::string transform = "crop_size: 5 pad: 1 mirror: true mean_value: 10 scale: 0.1";
    const std::vector<Batch> alone = train(data_text(path("db"), 12, more, transform), 1, 6);
    for (const int devices : {2, 3, 4})
      EXPECT_EQ(train(data_text(path("db"), 12 / devices, more, transform), devices, 6), alone)
          << more << devices;
    // batch_size as a total, even if not a multiple of the number of devices.
    EXPECT_EQ(
        train(data_text(path("db"), 12, std::string(more) + " batch_size_is_total: true", transform), 8, 6),
        alone);
  }
}

TEST_F(DataLayer, SeekResumesWhereConsumedSaid) {
  make_numbered_lmdb(path("db"), 23, 1, 6, 6);
  for (const char* more : {"", "epoch_end: PARTIAL shuffle: true"}) {
    const std::string text = data_text(path("db"), 4, more, "crop_size: 4 mirror: true");
    const std::vector<Batch> whole = train(text, 2, 8);
    Replica replica(text, 1, 2);
    for (int i = 0; i < 5; ++i) replica.step();
    const std::vector<Batch> rest = train(text, 2, 3, replica.source().consumed());
    EXPECT_EQ(rest, (std::vector<Batch>(whole.begin() + 5, whole.end())));
    replica.source().seek(0);  // also after the start
    EXPECT_EQ(replica.step()[0], whole[0][1].first);
    EXPECT_EQ(replica.source().consumed(), 8u);
  }
}

TEST_F(DataLayer, PartialEpochsGiveUnevenAndEmptyShares) {
  make_numbered_lmdb(path("db"), 9);
  const std::string text = data_text(path("db"), 2, "epoch_end: PARTIAL");
  Replica first(text, 0, 4), last(text, 3, 4);
  EXPECT_EQ(first.step().size(), 2u);
  EXPECT_EQ(last.step().size(), 2u);
  EXPECT_EQ(first.step(), (std::vector<int>{8}));
  EXPECT_EQ(last.step(), (std::vector<int>{}));
  EXPECT_EQ(last.outputs[0]->shape, (Shape{0, 1, 2, 2}));
  EXPECT_EQ(last.source().consumed(), 9u);
  EXPECT_EQ(first.step()[0], 0);
  EXPECT_EQ(last.step()[0], 3);
}

/// Labels of three passes of 5, 5 and 2 batches: first samples only, by batch.
std::vector<std::vector<int>> test_passes(const std::string& text, int devices) {
  std::vector<std::vector<int>> batches(12);
  for (int rank = 0; rank < devices; ++rank) {
    Replica replica(text, rank, devices, Phase::test);
    std::size_t base = 0;
    std::uint64_t consumed = 0;
    for (const int test_iter : {5, 5, 2}) {
      replica.source().begin_test_pass(test_iter);
      for (int t = rank; t < test_iter; t += devices) {
        EXPECT_EQ(replica.source().consumed(), consumed);
        batches[base + static_cast<std::size_t>(t)] = replica.step();
      }
      base += static_cast<std::size_t>(test_iter);
      consumed += static_cast<std::uint64_t>(4 * test_iter);
      EXPECT_EQ(replica.source().consumed(), consumed) << "rank " << rank << " of " << devices;
    }
  }
  return batches;
}

TEST_F(DataLayer, TestPassesDealWholeBatchesTheSameForAnyNumberOfDevices) {
  make_numbered_lmdb(path("db"), 11);
  const std::string text = data_text(path("db"), 4);
  const auto alone = test_passes(text, 1);
  EXPECT_EQ(alone[0], (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(alone[2], (std::vector<int>{8, 9, 10, 0}));
  for (const int devices : {2, 3, 4, 8}) EXPECT_EQ(test_passes(text, devices), alone) << devices;
}

TEST_F(DataLayer, TestPassesAreNeitherOverdrawnNorUsedInTraining) {
  make_numbered_lmdb(path("db"), 11);
  Replica test(data_text(path("db"), 4), 0, 2, Phase::test), training(data_text(path("db"), 4));
  test.step();  // unless announced, a pass is one batch per device
  EXPECT_EQ(test.source().consumed(), 8u);
  test.source().begin_test_pass(2);
  test.step();
  EXPECT_THROW(test.step(), Error);
  EXPECT_THROW(training.source().begin_test_pass(2), Error);
}

TEST_F(DataLayer, AnUnfinishedTestPassBeginsAgain) {
  make_numbered_lmdb(path("db"), 11);
  Replica replica(data_text(path("db"), 2), 0, 1, Phase::test);
  replica.source().begin_test_pass(3);
  replica.step();
  replica.source().begin_test_pass(3);
  EXPECT_EQ(replica.step(), (std::vector<int>{0, 1}));
}

TEST_F(DataLayer, ATestPassThatEndsEarlyCountsAsComplete) {
  make_numbered_lmdb(path("db"), 11);
  for (int rank = 0; rank < 2; ++rank) {
    Replica replica(data_text(path("db"), 2), rank, 2, Phase::test);
    replica.source().begin_test_pass(4);
    if (rank == 1) replica.step();
    replica.source().end_test_pass();
    EXPECT_EQ(replica.source().consumed(), 8u);
    replica.source().begin_test_pass(4);
    EXPECT_EQ(replica.step()[0], rank == 0 ? 8 : 10);
    replica.step();
    replica.source().end_test_pass();  // of a complete one: nothing
    EXPECT_EQ(replica.source().consumed(), 16u);
  }
}

TEST_F(DataLayer, WritesTheNetsTypeAndLayout) {
  LmdbWriter writer(path("db"));
  const std::vector<std::uint8_t> pixels = {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23};
  for (std::uint64_t i = 0; i < 2; ++i) writer.put(key_of(i), raw_datum(3, 2, 2, pixels.data(), 5));
  writer.close();
  Replica plain(data_text(path("db"), 2)), last(data_text(path("db"), 2), 0, 1, Phase::train, true),
      exact(data_text(path("db"), 2), 0, 1, Phase::train, false, DType::f64);
  plain.step();
  last.step();
  exact.step();
  EXPECT_EQ(last.outputs[0]->layout, Layout::channels_last);
  EXPECT_EQ(last.outputs[0]->data.data<float>()[1], 10);  // in memory the channel is innermost
  EXPECT_EQ(last.values(0), plain.values(0));             // logically the same
  EXPECT_EQ(exact.values(0), plain.values(0));
}

TEST_F(DataLayer, ABrokenRecordStopsItsBatchAndIsNamed) {
  LmdbWriter writer(path("db"));
  const std::uint8_t pixels[8] = {};
  for (std::uint64_t i = 0; i < 6; ++i)
    writer.put(key_of(i), i == 4 ? "junk" : raw_datum(1, 2, 2, pixels, 0));
  writer.close();
  Replica replica(data_text(path("db"), 2));
  replica.step();
  replica.step();
  EXPECT_THAT(bad_input_of([&] { replica.step(); }),
              testing::AllOf(HasSubstr(path("db")), HasSubstr("record 4 "), HasSubstr("key \"00000004\"")));
}

TEST_F(DataLayer, SizesMustAgreeWithinABatchOnly) {
  LmdbWriter writer(path("db"));
  const std::uint8_t pixels[16] = {};
  for (std::uint64_t i = 0; i < 3; ++i) {
    const int side = 2 + static_cast<int>(i % 2);
    writer.put(key_of(i), raw_datum(1, side, side, pixels, 0));
  }
  writer.close();
  Replica single(data_text(path("db"), 1));
  single.step();
  single.step();
  EXPECT_EQ(single.outputs[0]->shape, (Shape{1, 1, 3, 3}));
  Replica two(data_text(path("db"), 2));
  EXPECT_THAT(bad_input_of([&] { two.step(); }),
              testing::AllOf(HasSubstr("record 1 "), HasSubstr("1 x 3 x 3"), HasSubstr("1 x 2 x 2")));
}

TEST_F(DataLayer, BadSettingsAreNamed) {
  make_numbered_lmdb(path("db"), 3);
  const auto message = [&](const std::string& text) { return bad_input_of([&] { Replica replica(text); }); };
  EXPECT_THAT(message("name: 'd' type: 'Data' top: 'x' data_param { source: 'y' batch_size: 2 }"),
              testing::AllOf(HasSubstr("layer \"d\""), HasSubstr("LMDB \"y\": there is no such folder")));
  EXPECT_THAT(message(data_text(path("db"), 0)), HasSubstr("data_param.batch_size must be positive"));
  EXPECT_THAT(message("name: 'd' type: 'Data' top: 'x' data_param { batch_size: 2 backend: LMDB }"),
              HasSubstr("data_param.source is missing"));
  EXPECT_THAT(message("name: 'd' type: 'Data' top: 'x' input_param { shape { dim: 2 } }"),
              HasSubstr("data_param.source is missing; input_param is a setting of layers of type Input"));
  const std::string data = "name: 'd' type: 'Data' top: 'x' data_param { source: 'y' batch_size: 2 ";
  EXPECT_THAT(message(data + "mining_hard_param { } }"),
              HasSubstr("mining_hard_param is not supported: it names a list of `key label number`"));
  EXPECT_THAT(message(data + "side: 7 }"), HasSubstr("side is not supported: it is the length of the grid"));
  EXPECT_THAT(message("name: 'd' type: 'ImageData' top: 'x' top: 'y' image_data_param { source: 'y' "
                      "dataset_share_per_node: 0.5 }"),
              HasSubstr("is not supported (except 1): it leaves out a part of the list"));
  EXPECT_THAT(message(data_text(path("none"), 2)),
              testing::AllOf(HasSubstr("no such folder"), HasSubstr("layer \"data\"")));
  EXPECT_THAT(message(data_text(path("db"), 2, "", "crop_size: 9")),
              testing::AllOf(HasSubstr("record 0 "), HasSubstr("crop_size 9 is larger")));
}

TEST_F(DataLayer, InterruptedReadingIsAborted) {
  make_numbered_lmdb(path("db"), 3);
  Replica replica(data_text(path("db"), 2));
  replica.step();
  replica.source().interrupt();
  try {
    replica.step();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::aborted);
  }
}

int wraps = 0;  ///< messages of a wrap

TEST_F(DataLayer, TheFirstDeviceReportsEveryWrap) {
  make_numbered_lmdb(path("db"), 6);
  Replica first(data_text(path("db"), 2), 0, 2), second(data_text(path("db"), 2), 1, 2);
  set_log_sink([](Severity severity, const std::string& message, const std::source_location&) {
    wraps += severity == Severity::info && message == "Restarting data prefetching from start.";
  });
  for (int i = 0; i < 6; ++i) first.step();  // 24 items
  EXPECT_EQ(wraps, 4);
  for (int i = 0; i < 6; ++i) second.step();
  EXPECT_EQ(wraps, 4);
  set_log_sink(nullptr);
}

class ImageDataLayer : public FolderTest {
 protected:
  std::string make(int images, const std::string& more) {
    std::string list;
    for (int i = 0; i < images; ++i) {
      const std::string name = "image " + std::to_string(i) + (i % 2 ? ".png" : ".jpg");
      write_file(path(name), encode_image(gradient_image(3, 8 + i % 3, 8), i % 2 ? "png" : "jpg"));
      list += name + " " + std::to_string(i) + "\n";
    }
    write_file(path("list"), list);
    return "name: 'data' type: 'ImageData' top: 'data' top: 'label' image_data_param { source: '" +
           path("list") + "' root_folder: '" + folder_ + "/' " + more + "}";
  }
};

TEST_F(ImageDataLayer, ReadsResizesAndDeals) {
  const std::string text = make(7, "batch_size: 2 new_height: 6 new_width: 5");
  Replica replica(text, 1, 2);
  EXPECT_EQ(replica.outputs[0]->shape, (Shape{2, 3, 6, 5}));
  EXPECT_EQ(replica.step(), (std::vector<int>{1, 3}));
  EXPECT_EQ(replica.step(), (std::vector<int>{5, 0}));
  Replica scaled(make(7, "batch_size: 1 short_side: 4"));  // 8 x 8, 9 x 8, 10 x 8
  for (const std::int64_t height : {4, 5, 5}) {
    scaled.step();
    EXPECT_EQ(scaled.outputs[0]->shape, (Shape{1, 3, height, 4}));
  }
  Replica large_enough(make(7, "batch_size: 1 min_height: 9 min_width: 4"));
  for (const auto& [height, width] : {std::pair{9, 9}, std::pair{9, 8}, std::pair{10, 8}}) {
    large_enough.step();
    EXPECT_EQ(large_enough.outputs[0]->shape, (Shape{1, 3, height, width}));
  }
  Replica wide(make(7, "batch_size: 1 min_height: 11 min_width: 16"));  // twice as wide
  wide.step();
  EXPECT_EQ(wide.outputs[0]->shape, (Shape{1, 3, 16, 16}));
  Replica gray(make(7, "batch_size: 1 is_color: false"));
  gray.step();
  EXPECT_EQ(gray.outputs[0]->shape, (Shape{1, 1, 8, 8}));
}

TEST_F(ImageDataLayer, ShuffleVisitsEveryImageOnceAnEpochInTheSameOrderForAnyN) {
  const std::string more = "new_height: 6 new_width: 5 shuffle: true epoch_end: PARTIAL batch_size: ";
  const auto alone = train(make(11, more + "6"), 1, 4);
  EXPECT_EQ(train(make(11, more + "3"), 2, 4), alone);
  EXPECT_EQ(train(make(11, more + "2"), 3, 4), alone);
  std::vector<int> first, second;
  for (int k = 0; k < 4; ++k)
    for (const auto& [label, pixels] : alone[k]) (k < 2 ? first : second).push_back(label);
  EXPECT_NE(first, second);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(second, first);
}

TEST_F(ImageDataLayer, SeveralLabelsPerLine) {
  make(3, "");
  write_file(path("list"), std::string("image 0.jpg 1 2.5 -3\nimage 1.png 4 5 6\nimage 2.jpg 7 8 9\n"));
  const auto text = [&](const std::string& more) {
    return "name: 'data' type: 'ImageData' top: 'data' top: 'label' image_data_param { source: '" +
           path("list") + "' root_folder: '" + folder_ + "/' new_height: 6 new_width: 5 " + more + "}";
  };
  // Random parts of an image keep its labels.
  for (const std::string transform : {"", "transform_param { crop_size: 4 multi_scale: true }"}) {
    Replica replica(text("batch_size: 2 label_dim: 3") + transform);
    EXPECT_EQ(replica.outputs[1]->shape, (Shape{2, 3}));
    replica.step();
    EXPECT_EQ(replica.values(1), (std::vector<double>{1, 2.5, -3, 4, 5, 6}));
    replica.step();
    EXPECT_EQ(replica.values(1), (std::vector<double>{7, 8, 9, 1, 2.5, -3}));
  }
  Replica other_name(text("batch_size: 1 label_size: 3"));
  EXPECT_EQ(other_name.outputs[1]->shape, (Shape{1, 3}));
  const auto message = [&](const std::string& more) {
    return bad_input_of([&] { Replica(text(more)).step(); });
  };
  EXPECT_THAT(message("label_dim: 0"), HasSubstr("label_dim must be from 1"));
  EXPECT_THAT(message("label_dim: 3 label_size: 3"), HasSubstr("two names of the same"));
  EXPECT_THAT(message("label_num: 3"), HasSubstr("is MultiLabelImageData's (PG-CNN): write label_dim"));
  EXPECT_THAT(message("label_dim: 4"), HasSubstr("list:1: expected a number as a label"));
}

/// Of a branch for PASCAL; only the list says so.
TEST_F(ImageDataLayer, ClassesOfEachImage) {
  make(3, "");
  for (int i = 0; i < 3; ++i)
    std::filesystem::copy(path(i % 2 == 0 ? cat("image ", i, ".jpg") : cat("image ", i, ".png")),
                          path(cat("image_", i)));
  write_file(path("list"), std::string("image_0 3 1;0\nimage_1 2\nimage_2 1;\n"));
  const auto text = [&](const std::string& more) {
    return "name: 'data' type: 'ImageData' top: 'data' top: 'label' image_data_param { source: '" +
           path("list") + "' root_folder: '" + folder_ + "/' new_height: 6 new_width: 5 batch_size: 3 " +
           more + "}";
  };
  for (const int unknown : {-1, 255}) {
    Replica replica(text(unknown == -1 ? "" : "ignore_label: 255"));
    EXPECT_EQ(replica.outputs[1]->shape, (Shape{3, 4}));
    replica.step();
    EXPECT_EQ(replica.values(1), (std::vector<double>{double(unknown), 1, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0}));
  }
  EXPECT_THAT(bad_input_of([&] { Replica(text("label_dim: 1")).step(); }),
              HasSubstr("expected an integer label after the last space, found \"1;0\""));
}

TEST_F(ImageDataLayer, RandomSkipStartsFurtherAndIsInThePosition) {
  const std::string text = make(7, "batch_size: 1 rand_skip: 5");
  Replica replica(text), other(text, 1, 2);
  const std::uint64_t skipped = replica.source().consumed();
  EXPECT_LT(skipped, 5u);
  EXPECT_EQ(other.source().consumed(), skipped);
  EXPECT_EQ(replica.step()[0], static_cast<int>(skipped));
}

TEST_F(ImageDataLayer, BadSettingsAndImagesAreNamed) {
  const auto message = [&](const std::string& text) { return bad_input_of([&] { Replica(text).step(); }); };
  EXPECT_THAT(message(make(3, "new_height: 4")), HasSubstr("both of new_height and new_width"));
  EXPECT_THAT(message(make(3, "short_side: 4 new_height: 4 new_width: 4")), HasSubstr("give one of them"));
  EXPECT_THAT(message(make(3, "min_height: 4")), HasSubstr("both of min_height and min_width"));
  EXPECT_THAT(message(make(3, "min_height: 4 min_width: 4 short_side: 4")), HasSubstr("give one of"));
  const std::string too_large = make(3, "min_height: 30000 min_width: 30000");
  write_file(path("list"), std::string("image 1.png 1\n"));
  EXPECT_THAT(message(too_large), HasSubstr("min_height 30000 and min_width 30000 would make"));
  EXPECT_THAT(message(make(3, "batch_size: 3")),
              testing::AllOf(HasSubstr("image 1.png"), HasSubstr("3 x 9 x 8")));
  const std::string text = make(3, "");
  std::filesystem::resize_file(path("image 0.jpg"), 300);
  EXPECT_THAT(message(text), testing::AllOf(HasSubstr("image 0.jpg"), HasSubstr("damaged JPEG")));
}

}  // namespace
}  // namespace banyan::data
