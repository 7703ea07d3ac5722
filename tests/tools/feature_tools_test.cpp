// classification, extract_features, convert_cifar10.
#include "banyan/data/image_codec.hpp"
#include "banyan/data/lmdb_source.hpp"
#include "banyan/io/binary_proto.hpp"
#include "banyan/io/weights.hpp"
#include "proto/banyan.pb.h"
#include "tools/program_test.hpp"

namespace banyan::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Class c scores the mean of channel c, blue first: 4 x 4 pixels, averaged, then copied.
constexpr const char* kDeploy = R"(name: "mean"
  layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 10 dim: 3 dim: 4 dim: 4 } } }
  layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { pool: AVE global_pooling: true } }
  layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip" inner_product_param { num_output: 3 } })";

void write_weights(const std::string& path) {
  const float identity[] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, bias[] = {0, 0, 0.5f};
  io::ModelWeights weights;
  io::LayerWeights& layer = weights.layers.emplace_back();
  layer.name = "ip";
  layer.type = "InnerProduct";
  layer.blobs.resize(2);
  layer.blobs[0].shape = {3, 3};
  layer.blobs[0].floats.assign(identity, identity + 9);
  layer.blobs[1].shape = {3};
  layer.blobs[1].floats.assign(bias, bias + 3);
  io::write_binary_proto(path, io::to_proto(weights));
}

/// One colour.
void write_image(const std::string& path, int side, std::uint8_t blue, std::uint8_t green, std::uint8_t red) {
  data::Image image{3, side, side, {}};
  for (int i = 0; i < side * side; ++i) image.pixels.insert(image.pixels.end(), {blue, green, red});
  data::write_file(path, data::encode_image(image, "png"));
}

class FeatureTools : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("deploy.prototxt", kDeploy);
    write_weights(path("net.caffemodel"));
    write("labels", "blue\ngreen\nred, \"dark\"\n");
    write_image(path("a.png"), 4, 10, 30, 20);
    write_image(path("b.png"), 9, 100, 50, 0);
  }
};

TEST_F(FeatureTools, ExplainThemselves) {
  for (const std::string tool : {"classification", "extract_features", "convert_cifar10"}) {
    const Result help = run(tool + " --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.output, AllOf(HasSubstr("Usage: " + tool), HasSubstr("Exit codes: ")));
    expect_bad_input(tool, "expected ");
    expect_bad_input(tool + " --overwriet a b", "unknown flag --overwriet");
  }
  EXPECT_THAT(run("convert_imageset --help").output, HasSubstr("JPEG, PNG, BMP or (still) WebP"));
}

TEST_F(FeatureTools, ClassificationShowsTheBestClasses) {
  const std::string net = "classification deploy.prototxt net.caffemodel ";
  Result result = run(net + "'' labels a.png b.png");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("---------- Prediction for a.png ----------\n30.0000 - \"green\"\n"
                                       "20.5000 - \"red, \"dark\"\"\n10.0000 - \"blue\"\n"
                                       "---------- Prediction for b.png ----------\n100.0000 - \"blue\"\n"));
  result = run(net + "10,20,30 '' a.png --top=1 --scale=0.5 --json");
  EXPECT_THAT(result.output, HasSubstr("[{\"image\": \"a.png\", \"predictions\": [{\"class\": 1, \"label\": "
                                       "\"1\", \"score\": 5}]}]\n"));
  // A mean image gives the mean of each channel.
  caffe::BlobProto mean;
  mean.set_num(1);
  mean.set_channels(3);
  mean.set_height(1);
  mean.set_width(2);
  for (const float value : {9, 11, 0, 0, 0, 0}) mean.add_data(value);
  io::write_binary_proto(path("mean.binaryproto"), mean);
  EXPECT_THAT(run(net + "mean.binaryproto labels a.png --cpu=1").output,
              AllOf(HasSubstr("30.0000 - \"green\"\n"), HasSubstr("\n0.0000 - \"blue\"\n")));
}

TEST_F(FeatureTools, ClassificationFoldsUnlessItMustNot) {
  write("scaled.prototxt", std::string(kDeploy) +
                               "layer { name: 'scale' type: 'Scale' bottom: 'ip' top: 'scaled' scale_param { "
                               "filler { value: 2 } } }");
  const std::string command = "classification scaled.prototxt net.caffemodel '' labels a.png --top=1";
  const std::string folded = "Folded 1 layers into the 1 before them (--fold=off runs them).";
  for (const char* fold : {"", " --fold=on", " --fold=off"}) {
    const Result result = run(command + fold);
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("60.0000 - \"green\"\n"));
    EXPECT_EQ(result.output.find(folded) == std::string::npos, fold == std::string(" --fold=off"))
        << result.output;
  }
  expect_bad_input(command + " --fold=no", "--fold=no: expected on or off");
}

TEST_F(FeatureTools, ClassificationRefusesWhatDoesNotFit) {
  const std::string net = "classification deploy.prototxt net.caffemodel ";
  expect_bad_input(net + "1,2 labels a.png", "mean \"1,2\": expected 1 or 3 values, found 2");
  expect_bad_input(net + "none labels a.png", "none");
  expect_bad_input(net + "'' none a.png", "cannot open the labels \"none\"");
  write("empty", "");
  expect_bad_input(net + "'' empty a.png", "the labels \"empty\" are empty");
  write("two", "one\ntwo\n");
  expect_bad_input(net + "'' two a.png", "\"two\" has 2 labels; the net has 3 classes");
  expect_bad_input(net + "'' labels labels", "\"labels\": ");
  expect_bad_input(net + "'' labels empty", "\"empty\"");
  expect_bad_input(net + "'' labels a.png --top=0", "--top=0");
  write("train.prototxt",
        "layer { name: 'd' type: 'DummyData' top: 'd' dummy_data_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 "
        "} } }"
        "layer { name: 'r' type: 'ReLU' bottom: 'd' top: 'r' }");
  expect_bad_input("classification train.prototxt net.caffemodel '' labels a.png", "no Input layer");
  caffe::BlobProto mean;
  for (const auto set : {&caffe::BlobProto::set_num, &caffe::BlobProto::set_channels,
                         &caffe::BlobProto::set_height, &caffe::BlobProto::set_width})
    (mean.*set)(1);
  mean.add_data(1);
  io::write_binary_proto(path("gray.binaryproto"), mean);
  expect_bad_input(net + "gray.binaryproto labels a.png", "expected one image of 3 channels");
}

TEST_F(FeatureTools, ExtractFeaturesWritesFloats) {
  data::make_numbered_lmdb(path("images"), 5, 3, 4, 4);  // all pixels of record i are i
  write("net.prototxt", R"(
    layer { name: "data" type: "Data" top: "data" data_param { source: "images" backend: LMDB batch_size: 2 } }
    layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
    layer { name: "relu" type: "ReLU" bottom: "pool" top: "pool" relu_param { negative_slope: 1 } }
    layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip" inner_product_param { num_output: 3 } }
    layer { name: "ip2" type: "Power" bottom: "ip" top: "twice" power_param { scale: 2 } })");
  io::ModelWeights none;
  none.layers.emplace_back().name = "other";
  io::write_binary_proto(path("none.caffemodel"), io::to_proto(none));
  const std::string arguments =
      "extract_features none.caffemodel net.prototxt pool,twice pool_db,twice_db 2 lmdb";
  Result result = run(arguments);
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("Extracted features of 4 query images for feature blob pool"),
                                   HasSubstr("Successfully extracted the features!")));
  const auto source = data::open_lmdb(path("pool_db"));
  EXPECT_EQ(source->size(), 4u);
  const auto reader = source->reader();
  data::Record record;
  reader->read(3, record);
  EXPECT_THAT(reader->describe(3), HasSubstr("\"0000000003\""));
  EXPECT_EQ(record.channels, 3);
  EXPECT_EQ(record.height, 2);
  EXPECT_EQ(record.width, 2);
  ASSERT_NE(record.floats, nullptr);
  EXPECT_EQ(record.floats[11], 3);
  data::open_lmdb(path("twice_db"))->reader()->read(0, record);
  EXPECT_EQ(record.channels, 3);
  EXPECT_EQ(record.height, 1);
  expect_bad_input(arguments, "\"pool_db\" exists; remove it, or pass --overwrite");
  expect_bad_input(
      "extract_features none.caffemodel net.prototxt pool,twice pool_db,./pool_db 2 lmdb --overwrite",
      "\"./pool_db\" is being written already");
  EXPECT_EQ(data::open_lmdb(path("pool_db"))->size(), 4u);  // as it was
  expect_done(arguments + " CPU DEVICE_ID=0 --overwrite");
}

TEST_F(FeatureTools, ExtractFeaturesRefusesWrongArguments) {
  write("relu.prototxt",
        "layer { name: 'd' type: 'DummyData' top: 'd' dummy_data_param { shape { dim: 1 dim: 1 dim: 1 dim: 1 "
        "dim: 1 } } }"
        "layer { name: 'r' type: 'ReLU' bottom: 'd' top: 'r' }");
  const std::string net = "extract_features net.caffemodel relu.prototxt ";
  expect_bad_input(net + "r,d r 1 lmdb", "must be equal; found 2 and 1");
  expect_bad_input(net + "q r 1 lmdb", "unknown feature blob name \"q\"");
  expect_bad_input(net + "r r none lmdb", "BATCHES: expected a number >= 1, found \"none\"");
  expect_bad_input(net + "r r 0 lmdb", "BATCHES: expected a number >= 1, found \"0\"");
  expect_bad_input(net + "r r 1 hdf5", "expected lmdb or leveldb");
  expect_bad_input(net + "r r 1 lmdb TPU", "expected CPU or GPU, found \"TPU\"");
  expect_bad_input(net + "r r 1 lmdb CPU one", "DEVICE_ID: expected a number");
  expect_bad_input(net + "r, r,s 1 lmdb", "found 1 and 2");
  expect_bad_input(net + "r r 1 lmdb", "has 5 axes");
  expect_failure(net + "r /proc/features 1 lmdb", "/proc/features", 1);
  expect_bad_input("extract_features none relu.prototxt r r 1 lmdb", "none");
  EXPECT_FALSE(std::filesystem::exists(path("r")));
}

std::string cifar_batch(int records, int first) {
  std::string bytes;
  for (int i = 0; i < records; ++i)
    bytes += static_cast<char>((first + i) % 10) + std::string(3072, static_cast<char>(first + i));
  return bytes;
}

class Cifar : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    std::filesystem::create_directories(path("in"));
    std::filesystem::create_directories(path("out"));
    for (int batch = 1; batch <= 5; ++batch)
      write(cat("in/data_batch_", batch, ".bin"), cifar_batch(2, 2 * batch));
    write("in/test_batch.bin", cifar_batch(3, 100));
  }
};

TEST_F(Cifar, ConvertsAllBatches) {
  const Result result = run("convert_cifar10 in out lmdb");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("Wrote 10 images for training and 3 for testing"));
  const auto train = data::open_lmdb(path("out/cifar10_train_lmdb"));
  EXPECT_EQ(train->size(), 10u);
  const auto reader = train->reader();
  data::Record record;
  reader->read(9, record);
  EXPECT_THAT(reader->describe(9), HasSubstr("\"00009\""));
  EXPECT_EQ(record.label, 1);
  EXPECT_EQ(record.channels, 3);
  EXPECT_EQ(record.height, 32);
  EXPECT_EQ(record.bytes[3071], 11);
  EXPECT_EQ(data::open_lmdb(path("out/cifar10_test_lmdb"))->size(), 3u);
  const auto mean = io::read_binary_proto<caffe::BlobProto>(path("out/mean.binaryproto"));
  EXPECT_EQ(mean.channels(), 3);
  EXPECT_EQ(mean.data(3071), 6.5f);  // of 2 to 11
  expect_bad_input("convert_cifar10 in out", "exists; remove it, or pass --overwrite");
  expect_done("convert_cifar10 --overwrite --nomean in out/");
}

TEST_F(Cifar, RefusesWrongFiles) {
  expect_bad_input("convert_cifar10 none out", "there is no folder \"none\"");
  expect_bad_input("convert_cifar10 in none", "none");
  expect_failure("convert_cifar10 in /proc", "/proc", 1);
  expect_bad_input("convert_cifar10 in out hdf5", "expected lmdb or leveldb");
  write("in/data_batch_4.bin", cifar_batch(2, 0).substr(1));
  expect_bad_input("convert_cifar10 in out",
                   "in/data_batch_4.bin\" has 6145 bytes; expected records of 3073");
  write("in/data_batch_4.bin", "");
  expect_bad_input("convert_cifar10 in out", "has 0 bytes");
  write("in/data_batch_4.bin", "\x0b" + cifar_batch(1, 0).substr(1));
  expect_bad_input("convert_cifar10 in out", "record 0 has the label 11; expected 0 to 9");
  std::filesystem::remove(path("in/data_batch_4.bin"));
  expect_bad_input("convert_cifar10 in out", "data_batch_4.bin");
  EXPECT_TRUE(std::filesystem::is_empty(path("out")));
}

}  // namespace
}  // namespace banyan::tools
