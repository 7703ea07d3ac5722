// torchvision.map, which models/generate.py writes for some nets: each blob is named once, and, where Python
// has torch and torchvision, the arrays are torchvision's and the converted net computes what torchvision's
// does.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>

#include "banyan/io/array_names.hpp"
#include "banyan/io/arrays.hpp"
#include "banyan/net/parameter_values.hpp"
#include "banyan/train/model.hpp"
#include "python_script.hpp"
#include "tools/program_test.hpp"

namespace banyan::tools {
namespace {

struct Mapped {
  const char *folder, *torchvisions;
  std::size_t arrays;  ///< of a state dict, without numbers of batches
  bool light;          ///< an image runs in a moment
};
constexpr Mapped kMapped[] = {
    {"densenet121", "densenet121", 606,
     true},  // 120 convolutions, 121 normalizations of 4, a weight and a bias
    {"mobilenet_v2", "mobilenet_v2", 262, true},  // 52, 52
    {"resnet18", "resnet18", 102, true},          // 20, 20
    {"squeezenet", "squeezenet1_1", 52, true},    // 26 convolutions with biases
    {"vgg16", "vgg16", 32, false},
};

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

class TorchvisionMaps : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (std::system("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "models/generate.py needs python3";
    std::string names;
    for (const Mapped& net : kMapped) names += cat(" ", net.folder);
    ASSERT_EQ(
        std::system(
            ("python3 -B '" BANYAN_SOURCE "/models/generate.py' --out='" + folder_ + "'" + names).c_str()),
        0);
  }

  static std::unique_ptr<Model> model_of(const std::string& file, const std::string& weights = "") {
    ModelOptions options;
    options.model = file;
    options.keep_blobs = true;
    if (!weights.empty()) options.weights = {weights};
    return std::make_unique<Model>(options, weights.empty());
  }

  /// Arrays of a map with the shapes of the blobs that they are for.
  static Shapes arrays_of(const std::string& map, const Net& net) {
    Shapes arrays;
    std::istringstream lines(map);
    for (std::string line; std::getline(lines, line);) {
      if (line[0] == '#' || line[0] == '=') continue;
      std::istringstream words(line);
      std::string array, place;
      words >> array >> place;
      const std::size_t slash = place.rfind('/');
      for (const auto& layer : net.layers())
        if (layer->name() == place.substr(0, slash)) {
          const bool added =
              arrays.emplace(array, layer->parameters().at(place[slash + 1] - '0').shape.dims()).second;
          EXPECT_TRUE(added) << array << " is there twice";
        }
    }
    return arrays;
  }

  /// With the weights of FOLDER.npz, the net FOLDER/PREFIXdeploy.prototxt gives the scores of FOLDER_run.npz.
  void expect_torchvisions_scores(const std::string& folder, const std::string& prefix) {
    const std::string files = cat(folder, "/", prefix), deploy = files + "deploy.prototxt",
                      weights = cat(folder, "_", prefix, "weights.caffemodel");
    SCOPED_TRACE(files);
    expect_done(cat("trainer convert ", folder, ".npz ", weights, " --map=", files,
                    "torchvision.map --model=", deploy));
    const auto model = model_of(path(deploy), path(weights));
    const io::NamedArrays run = io::read_npz(path(cat(folder, "_run.npz")));
    const auto values = [&](const std::string& name) {
      const auto found =
          std::find_if(run.begin(), run.end(), [&](const auto& array) { return array.name == name; });
      return found == run.end() ? std::vector<double>()
                                : std::vector<double>(found->data.floats.begin(), found->data.floats.end());
    };
    Net& ours = model->net();
    ours.set_input("data", values("image"));
    Pass pass = model->next_pass();
    ours.forward(pass);
    const auto& layers = ours.definition().layer();
    const auto& last = layers[layers.size() - 1];
    ASSERT_EQ(last.type(), "Softmax");
    const std::vector<double> scores =
                                  values_of(model->context(), ours.find_blob(last.bottom(0))->data).values,
                              expected = values("scores");
    ASSERT_EQ(scores.size(), expected.size());
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      difference = std::max(difference, std::abs(scores[i] - expected[i]));
    }
    EXPECT_GT(largest, 0);
    // f32 in other orders of summation, through up to 121 layers; a wrong stride or border changes whole
    // digits.
    EXPECT_LE(difference, 1e-4 * largest);
  }
};

TEST_F(TorchvisionMaps, NameEveryBlobOnce) {
  for (const Mapped& net : kMapped)
    for (const std::string prefix : {"", "sync_bn_"}) {
      const std::string files = cat(net.folder, "/", prefix);
      if (!std::filesystem::exists(path(files + "deploy.prototxt"))) continue;
      SCOPED_TRACE(files);
      const auto model = model_of(path(files + "deploy.prototxt"));
      const std::string map = read(files + "torchvision.map");
      const Shapes shapes = arrays_of(map, model->net());
      EXPECT_EQ(shapes.size(), net.arrays);
      io::NamedArrays arrays;
      for (const auto& [name, shape] : shapes) {
        arrays.emplace_back().name = name;
        arrays.back().data.shape = shape;
      }
      io::ModelWeights weights = io::from_arrays_by_map(arrays, map, "torchvision.map");
      check_weights(model->net(), weights, net.folder);
    }
}

TEST_F(TorchvisionMaps, FitTorchvisionsNets) {
  std::string arguments = "'" + folder_ + "'";
  for (const Mapped& net : kMapped) {
    std::int64_t side = 0;  // of the image
    if (net.light)
      side = model_of(path(cat(net.folder, "/deploy.prototxt")))->net().find_blob("data")->shape[2];
    arguments += cat(" ", net.folder, "=", net.torchvisions, ",", side);
  }
  const ScriptRun run = run_python("tools/torchvision_nets.py", arguments, path("log"));
  if (run.lacks_modules)
    GTEST_SKIP() << "needs Python with torch and torchvision (BANYAN_PYTHON): " << run.report;
  ASSERT_EQ(run.code, 0) << run.report;
  for (const Mapped& net : kMapped) {
    SCOPED_TRACE(net.folder);
    const std::string map = cat(net.folder, "/torchvision.map");
    Shapes torchvisions;
    std::istringstream lines(read(cat(net.folder, ".shapes")));
    for (std::string line, name; std::getline(lines, line);) {
      std::istringstream words(line);
      words >> name;
      for (std::int64_t length = 0; words >> length;) torchvisions[name].push_back(length);
    }
    EXPECT_EQ(arrays_of(read(map), model_of(path(cat(net.folder, "/deploy.prototxt")))->net()), torchvisions);
    if (!net.light) continue;

    for (const std::string prefix : {"", "sync_bn_"})
      if (std::filesystem::exists(path(cat(net.folder, "/", prefix, "deploy.prototxt"))))
        expect_torchvisions_scores(net.folder, prefix);
  }
}

}  // namespace
}  // namespace banyan::tools
