// trainer convert: weights between kinds of files, and nets to ONNX.
#include "banyan/io/array_names.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/binary_proto.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/weights.hpp"
#include "banyan/net/parameter_values.hpp"
#include "banyan/train/model.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_model.hpp"
#include "proto/onnx_subset.pb.h"
#include "tools/program_test.hpp"

namespace banyan::tools {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kNet = R"(name: "small"
  layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 5 dim: 5 } } }
  layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 2 kernel_size: 1 } }
  layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" }
  layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" })";

io::BlobData blob_of(std::vector<std::int64_t> shape, std::vector<float> values) {
  io::BlobData blob;
  blob.shape = std::move(shape);
  blob.floats = std::move(values);
  return blob;
}

class Convert : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("net.prototxt", kNet);
    io::ModelWeights weights;
    weights.name = "small";
    weights.layers.resize(3);
    weights.layers[0].name = "data";
    weights.layers[1] = {
        "conv", "Convolution", {blob_of({2, 3, 1, 1}, {1, 2, 3, 4, 5, 6}), blob_of({2}, {7, 8})}};
    weights.layers[2] = {"bn", "BatchNorm", {blob_of({2}, {1, 2}), blob_of({2}, {3, 4}), blob_of({1}, {2})}};
    io::write_binary_proto(path("net.caffemodel"), io::to_proto(weights));
  }
  void expect_weights(const std::string& name) const {
    const io::ModelWeights weights = io::read_weights(path(name));
    const io::LayerWeights* conv = weights.find("conv");
    const io::LayerWeights* bn = weights.find("bn");
    ASSERT_TRUE(conv != nullptr && bn != nullptr) << name;
    ASSERT_EQ(conv->blobs.size(), 2u);
    EXPECT_THAT(conv->blobs[0].shape, ElementsAre(2, 3, 1, 1));
    EXPECT_THAT(conv->blobs[0].floats, ElementsAre(1, 2, 3, 4, 5, 6));
    ASSERT_EQ(bn->blobs.size(), 3u);
    EXPECT_THAT(bn->blobs[2].floats, ElementsAre(2));
  }
};

TEST_F(Convert, ThereAndBackByEveryWay) {
  int number = 0;
  std::vector<std::string> kinds = {"safetensors", "npz", "caffemodel"};
  if (io::has_hdf5()) kinds.emplace_back("caffemodel.h5");
  for (const std::string& kind : kinds)
    for (const std::string names : {"index", "torch"}) {
      const std::string there = cat("there", ++number, ".", kind), back = cat("back", number, ".caffemodel");
      const bool arrays = !kind.starts_with("caffemodel");
      expect_done("trainer convert net.caffemodel " + there + (arrays ? " --names=" + names : ""));
      expect_done("trainer convert " + there + " " + back + " --model=net.prototxt");
      expect_weights(back);
      EXPECT_EQ(io::read_weights(path(back)).find("bn")->type, "BatchNorm");
    }
  std::vector<std::string> names;
  for (const io::NamedArray& array : io::read_safetensors(path("there2.safetensors")))
    names.push_back(array.name);
  EXPECT_THAT(names,
              ElementsAre("conv.weight", "conv.bias", "bn.running_mean", "bn.running_var", "bn.factor"));
  EXPECT_EQ(io::read_npz(path("there3.npz")).at(0).name, "conv/0");
}

TEST_F(Convert, ChecksAgainstANet) {
  expect_done("trainer convert net.caffemodel net.npz --model=net.prototxt");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string net = kNet;
    net.replace(net.find(from), from.size(), to);
    write("other.prototxt", net);
    return std::string("trainer convert net.caffemodel out.npz --model=other.prototxt");
  };
  expect_bad_input(with("num_output: 2", "num_output: 3"),
                   "net.caffemodel: layer \"conv\" (Convolution), blob 0: the net needs shape (3, 3, 1, 1)");
  expect_bad_input(with("name: \"conv\"", "name: \"conv1\""),
                   "net.caffemodel: weights of layer \"conv1\" (Convolution) are missing");
  expect_bad_input(with("type: \"BatchNorm\"", "type: \"Sigmoid\""), "layer \"bn\" (Sigmoid)");
  expect_bad_input(with("layer { name: \"bn\" type: \"BatchNorm\" bottom: \"conv\" top: \"conv\" }", ""),
                   "the net has no layer \"bn\"");
  EXPECT_FALSE(std::filesystem::exists(path("out.npz")));
}

/// HDF5 holds a shared blob with its owner only.
TEST_F(Convert, SharedBlobsOfHdf5AreThoseOfTheNet) {
  if (!io::has_hdf5()) GTEST_SKIP() << "built without HDF5";
  const auto layer = [](const std::string& name, const std::string& bottom, const std::string& bias) {
    return "layer { name: '" + name + "' type: 'InnerProduct' bottom: '" + bottom + "' top: '" + name +
           "' param { name: 'w' } param { name: '" + bias + "' } inner_product_param { num_output: 2 } }";
  };
  write("twins.prototxt",
        "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 1 } } }" +
            layer("a", "x", "b") + layer("both", "x", "b") + layer("weight", "x", "other"));
  caffe::NetParameter net = io::read_net_text(path("twins.prototxt"));
  const std::vector<std::vector<float>> values = {{1, 2}, {3, 4}, {5, 6}};
  for (int l = 1; l < 4; ++l) {
    *net.mutable_layer(l)->add_blobs() = io::encode_blob({2, 1}, values[0].data());
    *net.mutable_layer(l)->add_blobs() = io::encode_blob({2}, values[l < 3 ? 1 : 2].data());
  }
  io::write_file(path("twins.caffemodel.h5"), io::hdf5_model(net, "twins"));
  expect_bad_input("trainer convert twins.caffemodel.h5 twins.npz", "--model=NET says which that is");
  expect_done("trainer convert twins.caffemodel.h5 twins.caffemodel --model=twins.prototxt");
  const io::ModelWeights weights = io::read_weights(path("twins.caffemodel"));
  for (const char* name : {"a", "both", "weight"}) {
    const io::LayerWeights* found = weights.find(name);
    ASSERT_NE(found, nullptr) << name;
    ASSERT_EQ(found->blobs.size(), 2u) << name;
    EXPECT_THAT(found->blobs[0].floats, ElementsAre(1, 2)) << name;
    EXPECT_EQ(found->blobs[1].floats, values[name == std::string("weight") ? 2 : 1]) << name;
  }
}

TEST_F(Convert, ByAMapFromTorchvision) {
  io::write_safetensors(path("torch.safetensors"),
                        {{"features.0.weight", blob_of({2, 3, 1, 1}, {3, 2, 1, 6, 5, 4})},
                         {"features.0.bias", blob_of({2}, {7, 8})},
                         {"features.1.running_mean", blob_of({2}, {0.5f, 1})},
                         {"features.1.running_var", blob_of({2}, {1.5f, 2})},
                         {"unused", blob_of({1}, {1})}});
  write("map",
        "features.0.weight conv/0 bgr\nfeatures.0.bias conv/1\nfeatures.1.running_mean bn/0\n"
        "features.1.running_var bn/1\n=2 bn/2\n");
  const std::string command =
      "trainer convert torch.safetensors out.caffemodel --map=map --model=net.prototxt";
  const Result result = run(command);
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("map does not name 1 of the arrays: \"unused\""));
  expect_weights("out.caffemodel");
  expect_bad_input(command, "\"out.caffemodel\" exists; remove it, or pass --overwrite");
  expect_done(command + " --overwrite");
  expect_bad_input("trainer convert torch.safetensors other.caffemodel", "or a map (--map)");
  expect_bad_input("trainer convert net.caffemodel other.npz --map=map", "--map is for arrays");
}

/// Every blob of the net is named, once, and there is nothing else.
TEST_F(Convert, TorchvisionsResNet50) {
  std::ostringstream map;
  map << std::ifstream(BANYAN_SOURCE "/models/resnet50/torchvision.map").rdbuf();
  ModelOptions options;
  options.model = BANYAN_SOURCE "/models/resnet50/train.prototxt";
  const Model model(options, true);
  io::NamedArrays arrays;
  std::istringstream lines(map.str());
  for (std::string line, layer; std::getline(lines, line);) {
    if (line[0] == '#') continue;
    const std::size_t space = line.find(' '), slash = line.find('/');
    layer = line.substr(space + 1, slash - space - 1);
    for (const auto& each : model.net().layers())
      if (each->name() == layer)
        arrays.push_back(
            {line.substr(0, space), blob_of(each->parameters().at(line[slash + 1] - '0').shape.dims(), {})});
  }
  EXPECT_EQ(arrays.size(), 267u);  // 53 convolutions, as many normalizations of 4 blobs, a weight and a bias
  io::ModelWeights weights = io::from_arrays_by_map(arrays, map.str(), "torchvision.map");
  check_weights(model.net(), weights, "resnet50");
  EXPECT_EQ(weights.find("res3a_proj_bn")->type, "SyncBN");
}

TEST_F(Convert, ToOnnx) {
  const Result result = run("trainer convert --model=net.prototxt --weights=net.caffemodel net.onnx");
  EXPECT_EQ(result.code, 0) << result.output;
  banyan_onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(read("net.onnx")));
  std::vector<std::string> nodes;
  for (const auto& node : model.graph().node()) nodes.push_back(node.op_type());
  EXPECT_THAT(nodes, ElementsAre("Conv", "BatchNormalization", "Relu"));
  EXPECT_EQ(model.graph().name(), "small");
  EXPECT_THAT(result.output, HasSubstr("Wrote the net \"small\" to net.onnx"));
  expect_bad_input("trainer convert --weights=net.caffemodel a.onnx", "--model is missing");
  expect_bad_input("trainer convert net.caffemodel a.onnx", "--model is missing");
  expect_bad_input("trainer convert --model=net.prototxt a.onnx",
                   "the weights of the net are missing: convert IN a.onnx, or --weights=IN");
  expect_bad_input("trainer convert net.onnx a.npz", "ONNX files can be written, not read");
  expect_bad_input("trainer convert net.onnx a.onnx --model=net.prototxt",
                   "ONNX files can be written, not read");
  expect_bad_input("trainer convert --model=net.prototxt --weights=net.caffemodel net.npz a.onnx",
                   "the weights are given twice: by \"net.npz\" and by --weights");
  write("spp.prototxt",
        std::string(kNet) +
            "layer { name: 'm' type: 'SPP' bottom: 'conv' top: 'm' spp_param { pyramid_height: 2 } }");
  expect_bad_input("trainer convert --model=spp.prototxt --weights=net.caffemodel a.onnx",
                   "layer \"m\" (SPP) cannot become ONNX");
}

/// The same files, whichever way the weights are given.
TEST_F(Convert, ToOnnxFromAFile) {
  expect_done("trainer convert --model=net.prototxt --weights=net.caffemodel net.onnx");
  expect_done("trainer convert net.caffemodel net.safetensors");
  for (const std::string from : {"net.caffemodel", "net.safetensors"}) {
    expect_done("trainer convert " + from + " again.onnx --overwrite --model=net.prototxt");
    EXPECT_EQ(read("again.onnx"), read("net.onnx")) << from;
  }
  write("map", "conv/0 conv/0\nconv/1 conv/1\nbn/0 bn/0\nbn/1 bn/1\nbn/2 bn/2\n");
  expect_done("trainer convert net.safetensors mapped.onnx --model=net.prototxt --map=map");
  EXPECT_EQ(read("mapped.onnx"), read("net.onnx"));
  expect_bad_input("trainer convert net.caffemodel a.onnx --model=net.prototxt --map=map",
                   "--map is for arrays");
  std::string net = kNet;
  net.erase(0, net.find('\n'));
  write("unnamed.prototxt", net);
  const Result result = run("trainer convert net.caffemodel unnamed.onnx --model=unnamed.prototxt");
  EXPECT_THAT(result.output, HasSubstr("Wrote the net to unnamed.onnx"));
}

TEST_F(Convert, RefusesWrongArgumentsAndFiles) {
  expect_bad_input("trainer convert", "expected convert IN OUT");
  expect_bad_input("trainer convert a.npz b.npz c.npz", "found 3 arguments after it");
  expect_bad_input("trainer convert a.npz", "convert needs two files");
  expect_bad_input("trainer convert net.caffemodel out.h5x", "expected a name that ends in .caffemodel");
  std::filesystem::create_directory(path("folder.npz"));
  expect_bad_input("trainer convert net.caffemodel folder.npz --overwrite", "\"folder.npz\" is a folder");
  expect_bad_input("trainer convert net.txt out.npz", "\"net.txt\": expected a name that ends in");
  expect_bad_input("trainer convert none.npz out.caffemodel", "none.npz");
  expect_bad_input("trainer convert net.caffemodel out.npz --level=1", "--level belongs to a net");
  expect_bad_input("trainer convert net.caffemodel out.npz --phase=TEST", "--phase belongs to a net");
  expect_bad_input("trainer convert a.npz out.caffemodel --names=torch", "--names is for arrays");
  expect_bad_input("trainer convert net.caffemodel out.npz --names=pytorch",
                   "--names=pytorch: expected index, torch");
  expect_bad_input("trainer convert net.caffemodel out.npz --weights=net.caffemodel",
                   "--weights is for ONNX");
  for (const char* empty : {"empty.npz", "empty.safetensors", "empty.caffemodel"}) {
    write(empty, "");
    expect_bad_input(cat("trainer convert ", empty, " out.npz"), empty);
  }
  write("text.safetensors", "this is a text, not a file of tensors");
  expect_bad_input("trainer convert text.safetensors out.npz", "text.safetensors: ");
  expect_failure("trainer convert net.caffemodel nowhere/out.npz", "nowhere/out.npz", 1);
  expect_failure("trainer convert net.caffemodel /proc/out.npz", "/proc/out.npz", 1);
  EXPECT_THAT(run("trainer --help").output, AllOf(HasSubstr("  convert "), HasSubstr("--map=FILE")));
  EXPECT_FALSE(std::filesystem::exists(path("out.npz")));
}

}  // namespace
}  // namespace banyan::tools
