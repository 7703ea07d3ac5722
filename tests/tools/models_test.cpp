// The nets of models/, those that generate.py writes and those that are there as files: the trainer accepts
// all files, the parameters are as many as the papers' authors or torchvision have, and fit into the deploy
// net. They also train on two devices, and give the same results in their deploy nets, with small images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "banyan/base/text.hpp"
#include "banyan/io/upgrade.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/train/commands.hpp"
#include "banyan/train/model.hpp"
#include "banyan/train/session.hpp"
#include "net/net_test_tools.hpp"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using Shapes = std::map<std::string, Shape>;

/// `parameters`: weights, biases, slopes; those that do not learn (lr_mult 0) and the training's auxiliary
/// classifiers count, running statistics do not.
struct Known {
  const char* name;
  std::int64_t parameters;
  const char* data;             ///< of the train net, as for --shape
  const char* small = nullptr;  ///< where it differs: as small as the layers allow; fewer weights, for runs
  const char* training_only = "";  ///< parts of the names of layers that deploy nets lack, between spaces
};

// clang-format off
const std::vector<Known> kNets{
    // torchvision's numbers
    {"vgg16", 138357544, "data:1,3,224,224", "data:1,3,32,32"},
    {"resnet18", 11689512, "data:2,3,64,64"},
    {"resnet50", 25557032, "data:2,3,64,64"},
    {"resnet101", 44549160, "data:2,3,64,64"},
    {"resnext50", 25028904, "data:2,3,64,64"},
    {"densenet121", 7978856, "data:2,3,64,64"},
    {"mobilenet_v2", 3504872, "data:2,3,64,64"},
    {"squeezenet", 1235496, "data:2,3,64,64"},
    // those of the published Caffe models
    {"lenet", 431080, "data:4,1,28,28"},
    {"lenet_sync_bn", 431080 + 2 * (20 + 50), "data:4,1,28,28"},  // with slopes and biases
    {"cifar10_quick", 145578, "data:4,3,32,32"},
    {"alexnet", 60965224, "data:1,3,227,227", "data:1,3,67,67"},
    {"caffenet", 60965224, "data:1,3,227,227", "data:1,3,67,67"},
    // 6998552 without the auxiliary classifiers
    {"googlenet", 13378280, "data:2,3,224,224", "data:1,3,224,224", "loss1/ loss2/"},
    {"inception_bn", 11295240, "data:2,3,64,64"},
    {"mobilenet_v1", 4231976, "data:2,3,64,64"},
    {"shufflenet_v1", 1865728, "data:2,3,64,64"},
    {"mnist_siamese", 431102, "data:4,1,28,28;data_p:4,1,28,28", nullptr, "_p"},
    {"mnist_autoencoder", 2837314, "data:4,1,28,28"},
    {"c3d", 78409573, "data:1,48,112,112", "data:1,48,32,32"},
    // ResNet-50's, and for each of its 16 blocks of C channels C x C / 8 weights, C / 16 + C biases
    {"se_resnet50", 25557032 + 3 * (256 * 32 + 16 + 256) + 4 * (512 * 64 + 32 + 512) +
                        6 * (1024 * 128 + 64 + 1024) + 3 * (2048 * 256 + 128 + 2048), "data:2,3,64,64"},
    // 853018 and, of 20 layers, 269722 without projections: two of 1 x 1, each with slope and bias
    {"cifar10_resnet56", 853018 + 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64, "data:4,3,32,32"},
    {"cifar10_resnet20", 269722 + 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64, "data:4,3,32,32"},
    // VGG-16's convolutions (14714688), fc6, fc7, three scores, three bilinear enlargements, two scales
    {"fcn8s", 14714688 + (7 * 7 * 512 * 4096 + 4096) + (4096 * 4096 + 4096) + (4096 + 512 + 256 + 3) * 21 +
                  21 * (4 * 4 + 4 * 4 + 16 * 16) + 512 + 256, "data:1,3,32,32;label:1,1,32,32"},
    // its convolutions forth and back, the last to 11 classes, slopes and biases
    {"segnet", 14714688 + 14718795 + 2 * 4224 + 2 * 3712, "data:1,3,360,480;label:1,1,360,480",
     "data:1,3,32,64;label:1,1,32,64"},
    // 46782550 without the auxiliary classifier: 3 x 3 from 1024 to 256 channels, normalization, 150 scores
    {"pspnet50", 46782550 + 9 * 1024 * 256 + 2 * 256 + 256 * 150 + 150, "data:1,3,473,473;label:1,1,473,473",
     "data:1,3,41,41;label:1,1,41,41", "conv_aux"},
    // Inception-BN's with 101 instead of 1000 classes; flow: 10 instead of 3 channels
    {"tsn_rgb", 11295240 - 899 * 1025, "data:1,9,224,224"},
    {"tsn_flow", 11295240 - 899 * 1025 + 7 * 64 * 7 * 7, "data:1,30,224,224"},
    // CaffeNet without fc7 and fc8; an LSTM of 256 over 4096 features; 101 classes
    {"lrcn", 60965224 - 4096 * 4097 - 1000 * 4097 + 4 * 256 * (4096 + 256 + 1) + 101 * 257, "clips:1,48,227,227",
     "clips:1,48,67,67"},
    // convolutions with biases, slopes, 512 features of 7 x 6 x 512, 10572 identities
    {"sphereface20", 11655424 + 4672 + (512 * 7 * 6 * 512 + 512) + 512 * 10572, "data:2,3,112,96", nullptr,
     "fc6"},
};

/// Nets that are files of models/: NAME is models/FOLDER/PREFIX{train_test,deploy,solver}.prototxt.
struct Kept { const char *name, *folder, *prefix; };
constexpr Kept kKept[] = {
    {"lenet", "lenet", ""},
    {"lenet_sync_bn", "lenet", "sync_bn_"},
    {"cifar10_quick", "cifar10_quick", ""},
    {"cifar10_resnet20", "cifar10_resnet20", ""},
};
// clang-format on

Shapes shapes_of(const std::string& text) {
  Shapes shapes;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) shapes.insert(parse_shape_flag(part));
  return shapes;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What generate.py writes, and copies of the others under the same names: all of them.
class Models : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    copy_kept();
    generate("");
  }
  static void copy_kept() {
    folder_ = fs::path(testing::TempDir()) / ("models_" + std::to_string(::getpid()));
    has_python_ = std::system("command -v python3 >/dev/null") == 0;
    for (const Kept& net : kKept) {
      fs::create_directories(folder_ / net.name);
      for (const auto& [from, to] : std::map<std::string, std::string>{
               {"train_test", "train_val"}, {"deploy", "deploy"}, {"solver", "solver"}})
        fs::copy_file(cat(BANYAN_SOURCE "/models/", net.folder, "/", net.prefix, from, ".prototxt"),
                      file(net.name, to));
    }
  }
  static void generate(const std::string& name) {
    if (has_python_)
      generated_ = std::system(
          cat("python3 -B '" BANYAN_SOURCE "/models/generate.py' --out='", folder_.string(), "' ", name)
              .c_str());
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }
  void SetUp() override {
    if (!has_python_) GTEST_SKIP() << "models/generate.py needs python3";
    ASSERT_EQ(generated_, 0);
  }
  static std::string file(const std::string& net, const std::string& name) {
    return folder_ / net / (name + ".prototxt");
  }

  static inline fs::path folder_;
  static inline bool has_python_ = false;
  static inline int generated_ = -1;
};

TEST_F(Models, TheTrainerAcceptsAllFiles) {
  std::string files;
  int nets = 0;
  for (const auto& net : fs::directory_iterator(folder_)) {
    ++nets;
    for (const auto& entry : fs::directory_iterator(net))
      if (entry.path().extension() == ".prototxt" && !entry.path().string().ends_with("train_val.prototxt"))
        files += " '" + entry.path().string() + "'";
  }
  EXPECT_EQ(nets, static_cast<int>(kNets.size()));
  const std::string log = folder_ / "log";
  // Paths in the files of models/ begin at the repository's folder.
  const int status = std::system(
      ("cd '" BANYAN_SOURCE "' && '" BANYAN_BIN "/trainer' check" + files + " >'" + log + "' 2>&1").c_str());
  std::ifstream lines(log);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  int checked = 0;
  for (std::string line; std::getline(lines, line);) {
    checked += line.find("; nothing wrong") != std::string::npos;
    EXPECT_TRUE(line.find("; nothing wrong") != std::string::npos || line.starts_with("note: ")) << line;
  }
  EXPECT_GE(checked, 2 * nets);
}

/// The learnable values of a net that is set up but not run.
std::int64_t parameters_of(const std::string& path, Phase phase, const Shapes& shapes) {
  ModelOptions options;
  options.model = path;
  options.phase = phase;
  options.shapes = shapes;
  const Model model(options, true);
  std::int64_t count = 0;
  for (const LearnableParameter& parameter : model.net().parameters())
    if (!parameter.is_statistic) count += parameter.count;
  return count;
}

TEST_F(Models, GoogLeNetIsDeployedWithoutItsAuxiliaryClassifiers) {
  EXPECT_EQ(parameters_of(file("googlenet", "deploy"), Phase::test, {}), 6998552);
}

TEST_F(Models, ThePageListsThem) {
  const std::string list = folder_ / "list";
  ASSERT_EQ(std::system(("python3 -B '" BANYAN_SOURCE "/models/generate.py' --list >'" + list + "'").c_str()),
            0);
  EXPECT_THAT(text_of(BANYAN_SOURCE "/models/README.md"), testing::HasSubstr(text_of(list)))
      << "put the output of models/generate.py --list there";
}

TEST_F(Models, ThePageListsThoseThatAreFiles) {
  const std::string page = text_of(BANYAN_SOURCE "/models/README.md");
  for (const Kept& kept : kKept) {
    const auto known = std::find_if(kNets.begin(), kNets.end(),
                                    [&](const Known& net) { return net.name == std::string(kept.name); });
    ASSERT_NE(known, kNets.end()) << kept.name;
    std::string count = std::to_string(known->parameters);
    for (int i = static_cast<int>(count.size()) - 3; i > 0; i -= 3)
      count.insert(static_cast<std::size_t>(i), ",");
    EXPECT_THAT(page, testing::ContainsRegex(cat("\n[|] `", kept.folder, "`[^\n]* ", count, " [|]")))
        << kept.name;
  }
}

/// Only the net at hand is generated, since each test may run in a process of its own.
class EveryModel : public Models, public testing::WithParamInterface<Known> {
 protected:
  static void SetUpTestSuite() { copy_kept(); }
  void SetUp() override {
    if (fs::exists(folder_ / GetParam().name)) return;  // kept, or generated before
    generate(GetParam().name);
    Models::SetUp();
  }
  /// The spellings of its batch normalization: the prefixes of its files.
  static std::vector<std::string> spellings() {
    std::vector<std::string> prefixes{""};
    if (fs::exists(file(GetParam().name, "sync_bn_train_val"))) prefixes.emplace_back("sync_bn_");
    return prefixes;
  }
};

TEST_P(EveryModel, HasAsManyParametersAsPublished) {
  for (const std::string& prefix : spellings()) {
    EXPECT_EQ(
        parameters_of(file(GetParam().name, prefix + "train_val"), Phase::train, shapes_of(GetParam().data)),
        GetParam().parameters)
        << prefix;
  }
}

const char* small_data(const Known& net) { return net.small != nullptr ? net.small : net.data; }

/// `LAYER/INDEX SHAPE` of all parameters of a net without storage.
std::set<std::string> parameters_in(const std::string& path, Phase phase, const Shapes& shapes) {
  ModelOptions options;
  options.model = path;
  options.phase = phase;
  options.shapes = shapes;
  options.fold = false;
  const Model model(options, true);
  std::set<std::string> found;
  for (const auto& layer : model.net().layers())
    for (std::size_t i = 0; i < layer->parameters().size(); ++i)
      found.insert(cat(layer->name(), "/", i, " ", layer->parameters()[i].shape.to_string()));
  return found;
}

/// By names and shapes, at full size, even where a run takes long.
TEST_P(EveryModel, ItsDeployNetTakesTheParametersOfItsTrainNet) {
  std::vector<std::string> training_only;
  std::istringstream parts(GetParam().training_only);
  for (std::string part; parts >> part;) training_only.push_back(part);
  for (const std::string& prefix : spellings()) {
    SCOPED_TRACE(prefix);
    const std::set<std::string> trained = parameters_in(file(GetParam().name, prefix + "train_val"),
                                                        Phase::train, shapes_of(GetParam().data)),
                                deployed =
                                    parameters_in(file(GetParam().name, prefix + "deploy"), Phase::test, {});
    EXPECT_FALSE(deployed.empty());
    for (const std::string& parameter : deployed)
      EXPECT_TRUE(trained.contains(parameter)) << parameter << " is not in the train net";
    for (const std::string& parameter : trained)
      EXPECT_NE(deployed.contains(parameter), std::any_of(training_only.begin(), training_only.end(),
                                                          [&](const std::string& part) {
                                                            return parameter.find(part) != std::string::npos;
                                                          }))
          << parameter;
  }
}

void replace_dims(caffe::BlobShape& shape, std::int64_t from, std::int64_t to) {
  for (auto& dim : *shape.mutable_dim())
    if (dim == from) dim = to;
}

/// What the files say about the sizes of images, for those of Known::small.
void make_small(const std::string& name, caffe::LayerParameter& layer) {
  if (name == "c3d" && layer.type() == "Reshape")
    replace_dims(*layer.mutable_reshape_param()->mutable_shape(), 112, 32);
  if (name == "lrcn" && layer.type() == "Reshape")
    replace_dims(*layer.mutable_reshape_param()->mutable_shape(), 227, 67);
  if (name == "segnet" && layer.type() == "Upsample") layer.clear_upsample_param();  // twice the size
  if (name == "pspnet50") {  // 6 x 6 instead of 60 x 60 pixels, the least that has 6 x 6 bins
    if (layer.interp_param().height() == 60) {
      layer.mutable_interp_param()->set_height(6);
      layer.mutable_interp_param()->set_width(6);
    }
    if (layer.type() == "Pooling" && layer.pooling_param().pool() == caffe::PoolingParameter::AVE) {
      auto& pooling = *layer.mutable_pooling_param();
      for (auto* sizes : {pooling.mutable_kernel_size(), pooling.mutable_stride()})
        for (auto& size : *sizes) size /= 10;
    }
  }
  if (name == "fcn8s" && layer.type() == "Convolution") {
    auto& convolution = *layer.mutable_convolution_param();
    // Two devices would take more than 3 GB for their weights.
    if (convolution.num_output() == 4096) convolution.set_num_output(64);
    // Scores that begin at 0 tell nothing about what is before them.
    if (layer.name().starts_with("score")) convolution.mutable_weight_filler()->set_type("xavier");
  }
}

caffe::NetParameter small_net(const std::string& name, const std::string& path) {
  caffe::NetParameter net = io::read_net_text(path);
  io::upgrade_net(net, path);
  for (auto& layer : *net.mutable_layer()) make_small(name, layer);
  return net;
}

/// The net with data from the test: every source is an Input.
caffe::NetParameter with_inputs(caffe::NetParameter net, const Shapes& shapes) {
  make_up_data(net, shapes);
  for (auto& layer : *net.mutable_layer()) {
    if (layer.type() == "DummyData") {
      layer.set_type("Input");
      *layer.mutable_input_param()->mutable_shape() = layer.dummy_data_param().shape();
      layer.clear_dummy_data_param();
    }
    // Tests use the statistics of the one batch that has been seen.
    if (layer.type() == "SyncBN") layer.mutable_bn_param()->set_momentum(0);
  }
  return net;
}

void feed_all(NetBench& bench, Net& net) {
  int number = 0;  // no two blobs are equal
  for (const auto& layer : net.definition().layer()) {
    if (layer.type() != "Input") continue;
    for (const std::string& top : layer.top()) {
      Tensor& data = net.find_blob(top)->data;
      std::vector<float> values = wavy<float>(data.count(), number);
      if (top.find("label") != std::string::npos)
        for (std::int64_t i = 0; i < data.count(); ++i) values[i] = static_cast<float>((i + number) % 3);
      copy_from_host(bench.context, values.data(), data);
      ++number;
    }
  }
}

/// With small images.
class TrainedModel : public EveryModel {};

/// Forward, backward, sums over the devices, update.
TEST_P(TrainedModel, AnIterationOnTwoDevices) {
  for (const std::string& prefix : spellings()) {
    SCOPED_TRACE(prefix);
    const std::string path = file(GetParam().name, prefix + "train_val");
    caffe::SolverParameter solver;
    caffe::NetParameter& net = *solver.mutable_train_net_param();
    net = small_net(GetParam().name, path);
    make_up_data(net, shapes_of(small_data(GetParam())));
    solver.set_base_lr(1e-6f);
    solver.set_lr_policy("fixed");
    solver.set_random_seed(1);
    solver.set_max_iter(2);
    TrainOptions options;
    options.solver = solver_settings(solver, path);
    options.solver_path = path;
    options.devices = {{DeviceKind::cpu, 0}, {DeviceKind::cpu, 1}};
    options.threads_per_device = 1;
    Session session(options);
    session.step(1);
    EXPECT_EQ(session.iteration(), 1);
    EXPECT_TRUE(std::isfinite(session.metrics().loss));
  }
}

TEST_P(TrainedModel, GivesTheSameInItsDeployNet) {
  for (const std::string& prefix : spellings()) {
    SCOPED_TRACE(prefix);
    NetBench bench;
    NetOptions options;
    options.phase = Phase::train;
    const caffe::NetParameter definition =
        with_inputs(small_net(GetParam().name, file(GetParam().name, prefix + "train_val")),
                    shapes_of(small_data(GetParam())));
    std::string weights;
    {
      Net train(definition, options, bench.context, bench.activity);
      fill_parameters(train);
      feed_all(bench, train);
      bench.pass.update_statistics = true;
      train.forward(bench.pass);
      EXPECT_TRUE(std::isfinite(loss_of(bench, train)));
      EXPECT_GT(loss_of(bench, train), 0);
      train.zero_gradients();
      train.backward(bench.pass);
      Tensor unusable(*bench.device, Shape{1}, DType::f64);
      ops::count_not_finite(bench.context, train.flat_gradients(), unusable);
      EXPECT_EQ(values_of<double>(bench.context, unusable)[0], 0);
      weights = to_proto(train, false).SerializeAsString();
    }
    bench.pass.update_statistics = false;
    options.phase = Phase::test;
    options.reuse_memory = false;  // keeps all blobs
    Net test(definition, options, bench.context, bench.activity);
    load_weights(test, io::parse_weights(weights, "train net"), "train net");
    feed_all(bench, test);
    test.forward(bench.pass);

    caffe::NetParameter deployed = small_net(GetParam().name, file(GetParam().name, prefix + "deploy"));
    for (auto& layer : *deployed.mutable_layer())
      if (layer.type() == "Input") {
        auto& shape = *layer.mutable_input_param()->mutable_shape(0);
        shape.clear_dim();
        for (const std::int64_t dim : test.find_blob(layer.top(0))->shape.dims()) shape.add_dim(dim);
      }
    Net deploy(deployed, options, bench.context, bench.activity);
    load_weights(deploy, io::parse_weights(weights, "train net"), "train net");
    for (const auto& layer : deployed.layer())
      if (layer.type() == "Input")
        copy_from_host(bench.context,
                       values_of<float>(bench.context, test.find_blob(layer.top(0))->data).data(),
                       deploy.find_blob(layer.top(0))->data);
    deploy.forward(bench.pass);

    const auto& last = deployed.layer(deployed.layer_size() - 1);
    const std::string result = last.type() == "Softmax" ? last.bottom(0) : last.top(0);
    const std::vector<float> expected = values_of<float>(bench.context, test.find_blob(result)->data);
    EXPECT_EQ(values_of<float>(bench.context, deploy.find_blob(result)->data), expected);
    EXPECT_GT(*std::max_element(expected.begin(), expected.end()),
              *std::min_element(expected.begin(), expected.end()));
  }
}

std::string name_of(const testing::TestParamInfo<Known>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Nets, EveryModel, testing::ValuesIn(kNets), name_of);
INSTANTIATE_TEST_SUITE_P(Nets, TrainedModel, testing::ValuesIn(kNets), name_of);

}  // namespace
}  // namespace banyan
