// Weights and states in HDF5 form, against files written and read by HDF5's own interface.

#include "io/hdf5_model.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <stdexcept>

#include "banyan/io/atomic_file.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_maker.hpp"
#include "io/io_test_tools.hpp"

namespace banyan::io {
namespace {

#ifdef BANYAN_WITH_HDF5

using testing::HasSubstr;

caffe::LayerParameter& add_layer(caffe::NetParameter& net, const std::string& name, int blobs,
                                 const std::string& shared = "") {
  caffe::LayerParameter& layer = *net.add_layer();
  layer.set_name(name);
  for (int i = 0; i < blobs; ++i) {
    if (!shared.empty()) layer.add_param()->set_name(shared + std::to_string(i));
    const std::vector<float> values = {static_cast<float>(10 * net.layer_size() + i), 1, 2, 3, 4, 5};
    *layer.add_blobs() = encode_blob({2, 3}, values.data());
  }
  return layer;
}

std::string saved(const TemporaryFolder& folder, const caffe::NetParameter& net) {
  const std::string path = folder.file("m.caffemodel.h5");
  write_file(path, hdf5_model(net, path));
  return path;
}

TEST(Hdf5Model, HasCaffesLayout) {
  const TemporaryFolder folder;
  caffe::NetParameter net;
  add_layer(net, "data", 0);
  caffe::LayerParameter& ip = add_layer(net, "ip", 2);
  const std::vector<double> doubles = {0.1, 0.2};
  *add_layer(net, "norm", 0).add_blobs() = encode_blob({2}, doubles.data());
  ip.mutable_blobs(0)->add_diff(7);
  for (int i = 0; i < 5; ++i) ip.mutable_blobs(0)->add_diff(8);
  const std::string path = saved(folder, net);
  std::vector<hsize_t> shape;
  EXPECT_EQ(hdf5_values(path, "data/ip/0", &shape), (std::vector<double>{20, 1, 2, 3, 4, 5}));
  EXPECT_EQ(shape, (std::vector<hsize_t>{2, 3}));
  EXPECT_EQ(hdf5_values(path, "data/ip/1")[0], 21);
  EXPECT_EQ(hdf5_values(path, "diff/ip/0"), (std::vector<double>{7, 8, 8, 8, 8, 8}));
  EXPECT_EQ(hdf5_values(path, "data/norm/0"), doubles);
  EXPECT_EQ(hdf5_model(net, "x"), hdf5_model(net, "x"));  // no times in it
}

TEST(Hdf5Model, ComesBack) {
  const TemporaryFolder folder;
  caffe::NetParameter net;
  add_layer(net, "inception/1x1", 2);
  add_layer(net, "inception/1x1/relu", 1);
  add_layer(net, "none", 0);
  add_layer(net, "inception", 1);
  const ModelWeights model = read_weights(saved(folder, net));
  ASSERT_EQ(model.layers.size(), 4u);
  const LayerWeights* layer = model.find("inception/1x1");
  ASSERT_NE(layer, nullptr);
  ASSERT_EQ(layer->blobs.size(), 2u);
  EXPECT_EQ(layer->blobs[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(layer->blobs[1].floats[0], 11);
  EXPECT_EQ(model.find("inception/1x1/relu")->blobs.size(), 1u);
  EXPECT_TRUE(model.find("none")->blobs.empty());
  EXPECT_EQ(model.find("inception")->blobs[0].at(0), 40);
}

TEST(Hdf5Model, SharedBlobsAreStoredOnce) {
  const TemporaryFolder folder;
  caffe::NetParameter net;
  add_layer(net, "a", 2, "w");
  add_layer(net, "b", 2, "w");
  const ModelWeights model = read_weights(saved(folder, net));
  EXPECT_TRUE(model.shared_once);
  EXPECT_EQ(model.find("a")->blobs.size(), 2u);
  EXPECT_TRUE(model.find("b")->blobs.empty());
}

TEST(Hdf5Model, NamesThatAreNoGroupsAreRefused) {
  const auto refusal = [](const std::vector<std::pair<std::string, int>>& layers) {
    caffe::NetParameter net;
    for (const auto& [name, blobs] : layers) add_layer(net, name, blobs);
    return error_of([&] { check_hdf5_names(net); });
  };
  for (const char* name : {"", "/a", "a/", "a//b", ".", "a/./b"})
    EXPECT_THAT(refusal({{name, 1}}), HasSubstr("is not one that a group can have")) << name;
  EXPECT_THAT(refusal({{"a", 1}, {"a", 1}}), HasSubstr("another layer has the same name"));
  EXPECT_THAT(refusal({{"a", 2}, {"a/1/x", 1}}), HasSubstr("blob 1 would be \"a/1\""));
  caffe::NetParameter fine;
  for (const char* name : {"a", "a/2", "a/b", "..", "1"}) add_layer(fine, name, 2);
  EXPECT_NO_THROW(check_hdf5_names(fine));
}

/// As Caffe writes it, and with h5py's types.
TEST(Hdf5Model, ReadsOtherWritersFiles) {
  const TemporaryFolder folder;
  const std::string path = folder.file("other.h5");
  {
    Hdf5Maker file(path);
    for (const char* group : {"data", "data/conv", "data/relu"}) file.group(group);
    file.add("data/conv/0", {2, 1, 1, 1}, {1, 2}, H5T_IEEE_F64BE);
    file.add("data/conv/2", {1}, {3}, H5T_NATIVE_INT);
  }
  const ModelWeights model = read_weights(path);
  ASSERT_EQ(model.layers.size(), 2u);
  ASSERT_EQ(model.layers[0].blobs.size(), 3u);
  EXPECT_EQ(model.layers[0].blobs[0].doubles, (std::vector<double>{1, 2}));
  EXPECT_TRUE(model.layers[0].blobs[1].missing);
  EXPECT_EQ(model.layers[0].blobs[2].floats, std::vector<float>{3});
}

/// The library itself asks for that in newer versions only.
TEST(Hdf5File, NumbersWithBitsOutsideOfTheirBytesAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.h5");
  const std::vector<float> floats{1, 2};
  const std::vector<std::uint8_t> bytes{1, 2};
  const auto file = Hdf5File::create_in_memory("x");
  file->write("floats", {2}, floats.data());
  file->write("bytes", {2}, bytes.data());
  const std::string whole = file->bytes();
  // Of the stored types: class, three bytes of which the last but one is the place of a sign, four of size;
  // offset, precision; place and bits of exponent and mantissa.
  const std::string type_of_bytes{"\x10\0\0\0\x01\0\0\0\0\0\x08\0", 12},
      type_of_floats{"\x11\x20\x1f\0\x04\0\0\0\0\0\x20\0\x17\x08\0\x17", 16};
  struct Damage {
    std::string type, dataset;
    std::size_t at;
    char value;
  };
  for (const Damage& damage : std::vector<Damage>{{type_of_bytes, "bytes", 8, 1},
                                                  {type_of_bytes, "bytes", 9, 64},
                                                  {type_of_bytes, "bytes", 10, 9},
                                                  {type_of_bytes, "bytes", 10, 0},
                                                  {type_of_floats, "floats", 8, 16},
                                                  {type_of_floats, "floats", 10, 33},
                                                  {type_of_floats, "floats", 2, 32},
                                                  {type_of_floats, "floats", 12, 31},
                                                  {type_of_floats, "floats", 15, 100}}) {
    std::string damaged = whole;
    const std::size_t type = damaged.find(damage.type);
    ASSERT_NE(type, std::string::npos) << damage.dataset;
    damaged[type + damage.at] = damage.value;
    write_file(path, damaged);
    const auto opened = Hdf5File::open(path);
    EXPECT_THAT(error_of([&] { opened->dataset(damage.dataset); }), HasSubstr("dataset \"" + damage.dataset))
        << damage.dataset << ", byte " << damage.at;
  }
  write_file(path, whole);
  EXPECT_EQ(Hdf5File::open(path)->dataset("floats")->values<float>(), floats);
}

/// A chunk cannot have more bytes than the file, and what is not in chunks has exactly its values.
TEST(Hdf5File, ValuesForWhichTheFileIsTooSmallAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.h5");
  const std::vector<float> values(5 * 2 * 3 * 4, 1);
  const auto file = Hdf5File::create_in_memory("x");
  file->append_rows("data", {2, 3, 4}, 5, values.data());
  file->write("whole", {7, 11}, values.data());
  std::string bytes = file->bytes();
  const auto number = [](std::uint64_t value, std::size_t size) {
    std::string text;
    for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(value >> 8 * i);
    return text;
  };
  const auto row = [&](std::uint64_t height) { return number(2, 8) + number(height, 8) + number(4, 8); };
  for (const std::uint64_t rows : {std::uint64_t{5}, ~std::uint64_t{0}}) {  // the shape, and the largest one
    const std::size_t at = bytes.find(number(rows, 8) + row(3));
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at + 8, 24, row(3'000'000));
  }
  const std::size_t node = bytes.find(std::string("TREE\x01", 5));  // of chunks
  ASSERT_NE(node, std::string::npos);
  bytes.replace(node + 24, 4, number(0x7fffffff, 4));
  write_file(path, bytes);
  const auto opened = Hdf5File::open(path);
  EXPECT_THAT(error_of([&] { opened->dataset("data"); }),
              HasSubstr("its shape is (5, 2, 3000000, 4), but only"));
  bytes = file->bytes();
  for (std::size_t at = 0; (at = bytes.find(number(7, 8) + number(11, 8), at)) != std::string::npos;)
    bytes.replace(at + 8, 8, number(12, 8));
  write_file(path, bytes);
  const auto larger = Hdf5File::open(path);
  EXPECT_THAT(error_of([&] { larger->dataset("whole"); }),
              HasSubstr("its shape is (7, 12), but only 308 bytes of values are stored"));
}

TEST(Hdf5Model, OtherFilesAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.h5");
  const auto refusal = [&] { return error_of([&] { read_weights(path); }); };
  Hdf5Maker(path).add("labels", {2}, {1, 2});
  EXPECT_THAT(refusal(), HasSubstr("without a group \"data\""));
  EXPECT_THAT(error_of([&] { read_hdf5_state(path); }), HasSubstr("expected a solver state"));
  {
    Hdf5Maker file(path);
    file.group("data");
  }
  EXPECT_THAT(refusal(), HasSubstr("found no layer"));
  {
    Hdf5Maker file(path);
    file.group("data");
    file.group("data/ip");
    file.add("data/ip/weights", {1}, {1});
  }
  EXPECT_THAT(refusal(), HasSubstr("\"data/ip/weights\": expected LAYER/NUMBER"));
  caffe::NetParameter net;
  add_layer(net, "ip", 2);
  const std::string whole = hdf5_model(net, path);
  for (std::size_t size = 8; size < whole.size(); size += 97) {
    write_file(path, whole.substr(0, size));
    EXPECT_THAT(refusal(), HasSubstr("x.h5")) << size;
  }
}

TEST(Hdf5State, HasCaffesLayoutAndComesBack) {
  const TemporaryFolder folder;
  const std::string path = folder.file("s.solverstate.h5");
  caffe::SolverState state;
  state.set_iter(12);
  state.set_current_step(2);
  state.set_learned_net("run/net_iter_12.caffemodel.h5");
  const std::vector<float> floats = {1, 2};
  const std::vector<double> doubles = {0.1};
  for (int i = 0; i < 11; ++i)  // "10" comes before "2" in the file
    *state.add_history() = i == 10 ? encode_blob({1}, doubles.data()) : encode_blob({1, 2}, floats.data());
  state.mutable_banyan()->set_seed(77);
  write_file(path, hdf5_state(state, path));
  EXPECT_EQ(hdf5_values(path, "iter"), std::vector<double>{12});
  EXPECT_EQ(hdf5_values(path, "current_step"), std::vector<double>{2});
  EXPECT_EQ(hdf5_values(path, "history/9"), (std::vector<double>{1, 2}));
  EXPECT_EQ(read_hdf5_state(path).SerializeAsString(), state.SerializeAsString());
  state.clear_banyan();
  write_file(path, hdf5_state(state, path));
  EXPECT_FALSE(read_hdf5_state(path).has_banyan());
}

/// Runs where Python has h5py: it reads what is written here.
TEST(Hdf5State, IsReadByH5py) {
  if (std::system("python3 -c 'import h5py' > /dev/null 2>&1") != 0) GTEST_SKIP() << "Python has no h5py";
  const TemporaryFolder folder;
  const std::string path = folder.file("s.solverstate.h5");
  caffe::SolverState state;
  state.set_iter(12);
  state.set_learned_net("net.caffemodel.h5");
  const std::vector<float> values = {1, 2.5};
  *state.add_history() = encode_blob({1, 2}, values.data());
  write_file(path, hdf5_state(state, path));
  const std::string program =
      "import h5py, sys; f = h5py.File(sys.argv[1], 'r'); assert f['iter'][()] == 12; "
      "assert f['learned_net'][()] == b'net.caffemodel.h5'; assert f['history/0'][()].tolist() == [[1, 2.5]]";
  EXPECT_EQ(std::system(("python3 -c \"" + program + "\" " + path).c_str()), 0);
}

std::string refusal_of(const std::function<void()>& read) {
  const TemporaryFolder folder;
  const std::string path = folder.file("some.h5");
  write_file(path, "anything");
  try {
    rehearse_hdf5(path, read);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RehearseHdf5, WhatCrashesOrHangsIsRefused) {
  EXPECT_THAT(refusal_of([] { ::raise(SIGSEGV); }),
              HasSubstr("some.h5\" is damaged: HDF5's library crashes"));
  EXPECT_THAT(refusal_of([] { ::_exit(1); }), HasSubstr("damages memory"));
  const auto endless = [] {
    for (std::atomic<int> i = 0;; ++i) {
    }
  };
  EXPECT_THAT(refusal_of(endless), HasSubstr("does not come to an end"));
}

TEST(RehearseHdf5, WhatEndsIsNot) {
  EXPECT_EQ(refusal_of([] {}), "");
  EXPECT_EQ(refusal_of([] { throw std::runtime_error("once more, then"); }), "");
  EXPECT_NO_THROW(rehearse_hdf5("/nowhere.h5", [] { FAIL(); }));
  const TemporaryFolder folder;
  caffe::NetParameter net;
  add_layer(net, "ip", 1);
  const std::string path = saved(folder, net);
  EXPECT_EQ(refusal_of([&] { read_hdf5_model(path); }), "") << "in a copy of the process too";
}

#else

TEST(Hdf5Model, IsRefusedInABuildWithoutIt) {
  EXPECT_THAT(error_of([] { Hdf5File::open("x.h5"); }), testing::HasSubstr("libhdf5-dev"));
}

#endif

}  // namespace
}  // namespace banyan::io
