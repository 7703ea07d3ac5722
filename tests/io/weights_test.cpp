#include "banyan/io/weights.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "banyan/io/binary_proto.hpp"
#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

const std::vector<float> kSix = {1, -2, 3.5f, 4, 5, 6};

Wire shape(const std::vector<std::uint64_t>& dims, bool packed = true) {
  Wire message;
  if (packed) {
    std::string bytes;
    for (const auto dim : dims) bytes += static_cast<char>(dim);  // each below 128: one byte
    return message.bytes(1, bytes);
  }
  for (const auto dim : dims) message.number(1, dim);
  return message;
}

Wire net_with(const Wire& layer, std::uint64_t list = 100) {
  return Wire().bytes(1, "net").message(list, layer);
}

/// A current layer "c" with one blob.
Wire net_with_blob(const Wire& blob) {
  return net_with(Wire().bytes(1, "c").bytes(2, "Convolution").message(7, blob));
}

BlobData only_blob(const Wire& net) {
  const ModelWeights model = parse_weights(net.data(), "test");
  EXPECT_EQ(model.layers.size(), 1u);
  EXPECT_EQ(model.layers.at(0).blobs.size(), 1u);
  return model.layers.at(0).blobs.at(0);
}

std::string parse_error(const Wire& net) {
  return error_of([&] { parse_weights(net.data(), "m.caffemodel"); });
}

TEST(Weights, CurrentFormatAsWrittenByTheSchema) {
  caffe::NetParameter net;
  net.set_name("net");
  net.add_layer()->set_name("data");
  caffe::LayerParameter* layer = net.add_layer();
  layer->set_name("conv");
  layer->set_type("Convolution");
  layer->mutable_convolution_param()->set_num_output(2);
  *layer->add_blobs() = encode_blob({2, 3}, kSix.data());
  const double bias[] = {0.1, 0.2};
  *layer->add_blobs() = encode_blob({2}, bias);
  const float scalar = 7;
  *layer->add_blobs() = encode_blob({}, &scalar);
  EXPECT_FALSE(layer->blobs(2).has_shape());  // as Caffe leaves it
  *layer->add_blobs() = encode_blob({0, 5}, &scalar);

  const TemporaryFolder folder;
  write_binary_proto(folder.file("m.caffemodel"), net);
  const ModelWeights model = read_weights(folder.file("m.caffemodel"));
  EXPECT_EQ(model.name, "net");
  ASSERT_EQ(model.layers.size(), 2u);
  EXPECT_TRUE(model.layers[0].blobs.empty());
  const LayerWeights* conv = model.find("conv");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->type, "Convolution");
  ASSERT_EQ(conv->blobs.size(), 4u);
  EXPECT_EQ(conv->blobs[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_FALSE(conv->blobs[0].legacy_shape);
  EXPECT_EQ(conv->blobs[0].floats, kSix);
  EXPECT_EQ(conv->blobs[1].doubles, (std::vector<double>{0.1, 0.2}));
  EXPECT_TRUE(conv->blobs[2].shape.empty());
  EXPECT_EQ(conv->blobs[2].floats, std::vector<float>{7});
  EXPECT_EQ(conv->blobs[3].count(), 0u);
  std::vector<double> copied(6);
  conv->blobs[0].copy_to(copied.data());
  EXPECT_EQ(copied[2], 3.5);
  EXPECT_EQ(model.find("fc"), nullptr);
}

TEST(Weights, PackedAndSingleValuesAndDims) {
  for (const bool packed_dims : {true, false}) {
    Wire singles;
    singles.message(7, shape({2, 3}, packed_dims));
    for (const float value : kSix) singles.single(5, value);
    EXPECT_EQ(only_blob(net_with_blob(singles)).floats, kSix);
  }
  const Wire two_pieces =
      Wire().packed<float>(5, {1, -2}).packed<float>(5, {3.5f, 4, 5, 6}).message(7, shape({6}));
  EXPECT_EQ(only_blob(net_with_blob(two_pieces)).floats, kSix);
  Wire doubles;
  doubles.message(7, shape({2})).single(8, 0.5).single(8, 1.5);
  EXPECT_EQ(only_blob(net_with_blob(doubles)).doubles, (std::vector<double>{0.5, 1.5}));
}

TEST(Weights, LegacyShapeWinsOverShape) {
  const BlobData blob = only_blob(net_with_blob(
      Wire().number(1, 1).number(2, 1).number(3, 2).number(4, 3).message(7, shape({9})).packed(5, kSix)));
  EXPECT_TRUE(blob.legacy_shape);
  EXPECT_EQ(blob.shape, (std::vector<std::int64_t>{1, 1, 2, 3}));
}

TEST(Weights, BlobsOfC3dHaveFiveAxesAndTheirValuesNext) {
  const BlobData blob = only_blob(net_with_blob(
      Wire().number(1, 1).number(2, 1).number(3, 1).number(4, 2).number(5, 3).packed(6, kSix).packed(7,
                                                                                                     kSix)));
  EXPECT_EQ(blob.shape, (std::vector<std::int64_t>{1, 1, 1, 2, 3}));
  EXPECT_EQ(blob.floats, kSix);
  // Elsewhere field 6 holds differences.
  EXPECT_EQ(
      only_blob(net_with_blob(Wire().message(7, shape({6})).packed(5, kSix).packed<float>(6, {1}))).floats,
      kSix);
}

TEST(Weights, PrecedenceOfDoublesFloatsRaw) {
  const std::vector<float> raw = {9, 9};
  const Wire all =
      Wire().message(7, shape({2})).packed<double>(8, {1, 2}).packed<float>(5, {3, 4}).packed(12, raw);
  EXPECT_EQ(only_blob(net_with_blob(all)).doubles, (std::vector<double>{1, 2}));
  const Wire both = Wire().message(7, shape({2})).packed<float>(5, {3, 4}).number(10, 1).packed(12, raw);
  EXPECT_EQ(only_blob(net_with_blob(both)).floats, (std::vector<float>{3, 4}));
}

TEST(Weights, NvidiaRawValues) {
  const Wire base = Wire().message(7, shape({2}));
  EXPECT_EQ(only_blob(net_with_blob(Wire(base).number(10, 1).packed<float>(12, {3, 4}))).floats,
            (std::vector<float>{3, 4}));
  EXPECT_EQ(only_blob(net_with_blob(Wire(base).number(10, 0).packed<double>(12, {3, 4}))).doubles,
            (std::vector<double>{3, 4}));
  EXPECT_EQ(only_blob(net_with_blob(Wire(base).packed<float>(12, {3, 4}))).floats,
            (std::vector<float>{3, 4}));
  // Halves: 1, -2, the largest (65504), the smallest subnormal (2^-24), infinity, minus zero.
  const std::vector<std::uint16_t> halves = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x7c00, 0x8000};
  const BlobData blob =
      only_blob(net_with_blob(Wire().message(7, shape({6})).number(10, 2).packed<std::uint16_t>(12, halves)));
  EXPECT_EQ(blob.floats, (std::vector<float>{1, -2, 65504, 0x1p-24f, INFINITY, -0.0f}));
  EXPECT_TRUE(std::signbit(blob.floats[5]));
  expect_contains(parse_error(net_with_blob(Wire(base).number(10, 3).packed<float>(12, {3, 4}))),
                  "raw values of type 3");
  expect_contains(parse_error(net_with_blob(Wire(base).number(10, 1).bytes(12, "abc"))), "take 3 bytes");
}

TEST(Weights, V1AndV0Layers) {
  const Wire blob = Wire().number(1, 1).number(2, 1).number(3, 2).number(4, 3).packed(5, kSix);
  const ModelWeights v1 = parse_weights(
      net_with(Wire().bytes(2, "b").bytes(4, "ip").number(5, 14).message(6, blob), 2).data(), "v1");
  EXPECT_EQ(v1.layers.at(0).name, "ip");
  EXPECT_EQ(v1.layers.at(0).type, "InnerProduct");
  EXPECT_EQ(v1.layers.at(0).blobs.at(0).floats, kSix);
  const Wire inner = Wire().bytes(1, "c0").bytes(2, "conv").message(50, blob);
  const ModelWeights v0 = parse_weights(net_with(Wire().message(1, inner).bytes(2, "b"), 2).data(), "v0");
  EXPECT_EQ(v0.layers.at(0).name, "c0");
  EXPECT_EQ(v0.layers.at(0).type, "Convolution");
  EXPECT_EQ(v0.layers.at(0).blobs.at(0).floats, kSix);
}

TEST(Weights, SettingsOfOtherBranchesAreSkipped) {
  // The same numbers as numbers (NVIDIA) and as messages of any content (PSPNet, yjxiong, Intel).
  Wire layer;
  layer.bytes(1, "bn").bytes(2, "SyncBN");
  for (const std::uint64_t field : {137, 140, 145, 146, 147, 148, 149, 150, 151, 152, 160}) {
    layer.number(field, 1).bytes(field, "\xff\xff not a message").single(field, 1.0f).single(field, 1.0);
  }
  layer.message(7, Wire().message(7, shape({1, 6})).packed(5, kSix));
  // BVLC's opencl branch has fields of other kinds at 10 to 13.
  layer.message(7, Wire().bytes(10, "x").bytes(11, "y").number(13, 1).message(7, shape({6})).packed(5, kSix));
  const ModelWeights model = parse_weights(net_with(layer).data(), "test");
  ASSERT_EQ(model.layers.at(0).blobs.size(), 2u);
  EXPECT_EQ(model.layers[0].blobs[1].floats, kSix);
}

TEST(Weights, ErrorsNameFileByteAndLayer) {
  const std::string wrong = parse_error(net_with_blob(Wire().message(7, shape({2, 2})).packed(5, kSix)));
  expect_contains(wrong, "m.caffemodel: byte ");
  expect_contains(wrong, "layer \"c\" blob 0: shape (2, 2) means 4 values, found 6");
  expect_contains(parse_error(net_with_blob(Wire())), "shape () means 1 values, found 0");
  expect_contains(parse_error(net_with_blob(Wire().message(7, shape({2})).bytes(5, "12345"))),
                  "take 5 bytes");
  expect_contains(parse_error(net_with_blob(Wire().message(7, Wire().number(1, ~std::uint64_t{0})))),
                  "(-1) is not valid");
  const std::uint64_t huge = std::uint64_t{1} << 40;
  expect_contains(parse_error(net_with_blob(Wire().message(7, Wire().number(1, huge).number(1, huge)))),
                  "is not valid");
  expect_contains(parse_error(net_with_blob(Wire().message(7, Wire().number(1, huge)))),
                  "means 1099511627776 values");
  expect_contains(parse_error(net_with_blob(Wire().message(7, shape(std::vector<std::uint64_t>(33, 1))))),
                  "32 axes");
}

TEST(Weights, OtherFilesAreRecognized) {
  const auto error = [](const std::string& bytes) { return error_of([&] { parse_weights(bytes, "f"); }); };
  expect_contains(error(""), "found an empty file");
  expect_contains(error("name: \"LeNet\"\nlayer { }"), "found text");
  expect_contains(error("\x89HDF\r\n\x1a\n and more"), "HDF5");
  expect_contains(error(Wire().bytes(1, "net").data()), "found no layer");
  caffe::SolverState state;
  state.set_iter(100);
  state.set_learned_net("lenet_iter_100.caffemodel");
  expect_contains(error(state.SerializeAsString()), "may be a .solverstate");
  expect_contains(error_of([] { read_weights("/nonexistent/m.caffemodel"); }), "/nonexistent/m.caffemodel");
}

/// A model that uses every encoding the reader knows.
std::string rich_model() {
  Wire net;
  net.bytes(1, "rich");
  net.message(100, Wire()
                       .bytes(1, "a")
                       .bytes(2, "Convolution")
                       .message(7, Wire().message(7, shape({2, 3})).packed(5, kSix)));
  net.message(
      2, Wire().bytes(4, "b").number(5, 4).message(
             6, Wire().number(1, 1).number(2, 1).number(3, 1).number(4, 2).single(5, 1.f).single(5, 2.f)));
  net.message(2, Wire().message(1, Wire().bytes(1, "c").bytes(2, "conv").message(50, Wire().single(5, 1.f))));
  net.message(
      100, Wire().bytes(1, "d").message(7, Wire().number(10, 2).message(7, shape({1, 2})).bytes(12, "abcd")));
  net.message(100, Wire().bytes(1, "e").single(9, 1.0).message(7, Wire().packed<double>(8, {1})));
  return net.data();
}

TEST(Weights, CutAtEveryByteGivesAnErrorOrAShorterNet) {
  const std::string bytes = rich_model();
  const ModelWeights whole = parse_weights(bytes, "whole");
  ASSERT_EQ(whole.layers.size(), 5u);
  std::size_t shorter = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    // A copy of exactly that length, so that AddressSanitizer detects reads beyond its end.
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<long>(size));
    try {
      const ModelWeights part = parse_weights({cut.data(), cut.size()}, "cut");
      ++shorter;
      ASSERT_LT(part.layers.size(), whole.layers.size());
      for (std::size_t i = 0; i < part.layers.size(); ++i)
        EXPECT_EQ(part.layers[i].name, whole.layers[i].name);
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::bad_input));
    }
  }
  EXPECT_EQ(shorter, 4u);  // the cuts between two layers
}

TEST(Weights, RandomDamageGivesAnErrorOrANet) {
  const std::string original = rich_model();
  std::mt19937 random(20240229);
  const auto below = [&](std::size_t bound) { return random() % bound; };
  int errors = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = original;
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
          break;
        case 2:
          text.erase(at, 1 + below(3));
          break;
        default:
          text.insert(at, 1 + below(3), static_cast<char>(random()));
          break;
      }
      if (text.empty()) text = "x";
    }
    const std::vector<char> damaged(text.begin(), text.end());
    try {
      const ModelWeights model = parse_weights({damaged.data(), damaged.size()}, "damaged");
      for (const LayerWeights& layer : model.layers) {
        for (const BlobData& blob : layer.blobs) ASSERT_LE(blob.count(), damaged.size());
      }
    } catch (const Error& error) {
      ASSERT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::bad_input)) << error.what();
      ++errors;
    }
  }
  // Most damage must be detected; damage that only changes values or skipped fields cannot be.
  EXPECT_GT(errors, 5000);
}

TEST(Weights, LyingLengthsAllocateNothing) {
  // A layer that claims 2^60 bytes, and a blob whose float data claims 1 TiB.
  const std::string huge_length = "\xff\xff\xff\xff\xff\xff\xff\xff\x0f";
  expect_contains(error_of([&] { parse_weights("\xa2\x06" + huge_length, "f"); }), "more bytes, found 0");
  expect_contains(error_of([&] { parse_weights("\xa2\x06\x04\x3a\x02\x2a\x7f", "f"); }), "f: byte ");
}

TEST(ShapesCompatible, OnesDoNotCount) {
  const auto blob = [](std::vector<std::int64_t> shape, bool legacy = false) {
    BlobData data;
    data.shape = std::move(shape);
    data.legacy_shape = legacy;
    return data;
  };
  EXPECT_TRUE(shapes_compatible(blob({2, 3}), {2, 3}));
  EXPECT_FALSE(shapes_compatible(blob({2, 3}), {3, 2}));
  EXPECT_FALSE(shapes_compatible(blob({2, 3}), {6}));
  EXPECT_TRUE(shapes_compatible(blob({1, 1, 1, 6}, true), {6}));
  EXPECT_TRUE(shapes_compatible(blob({1, 1, 4, 6}, true), {4, 6}));
  EXPECT_FALSE(shapes_compatible(blob({1, 1, 6, 4}, true), {4, 6}));
  EXPECT_TRUE(shapes_compatible(blob({1, 64}), {64}));        // yjxiong
  EXPECT_TRUE(shapes_compatible(blob({1, 64, 1, 1}), {64}));  // PSPNet
  EXPECT_TRUE(shapes_compatible(blob({}), {1}));
}

TEST(BlobCodec, DecodesWhatItEncodesAndNamesWhatIsWrong) {
  const BlobData floats = decode_blob(encode_blob({3, 2}, kSix.data()), "mean");
  EXPECT_EQ(floats.shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(floats.floats, kSix);
  caffe::BlobProto wrong;
  wrong.mutable_shape()->add_dim(2);
  expect_contains(error_of([&] { decode_blob(wrong, "mean.binaryproto"); }),
                  "mean.binaryproto: byte 0: shape (2) means 2 values, found 0");
}

}  // namespace
}  // namespace banyan::io
