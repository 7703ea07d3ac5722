// Promise 5: bad input gets one paragraph that says what, where and what was expected, and exit code 2.
#include <filesystem>

#include "banyan/data/image_codec.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "train/trainer_fixture.hpp"

namespace banyan {
namespace {

namespace fs = std::filesystem;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

class BadInput : public TrainerRun {
 protected:
  /// Trains the usual net with `from` replaced by `to`.
  void expect_net_refused(const std::string& from, const std::string& to,
                          const std::vector<std::string>& words,
                          const std::vector<std::string>& flags = {}) const {
    SCOPED_TRACE(to);
    write("bad", replaced(file("net"), from, to));
    write("bad_solver", solver_for("bad"));
    expect_refusal(train_with("bad_solver", flags), words);
  }
  void expect_flags_refused(std::vector<std::string> flags, const std::vector<std::string>& words) const {
    SCOPED_TRACE(flags.back());
    flags.push_back("--solver=" + path("solver"));
    expect_refusal(run(flags), words);
  }
};

TEST_F(BadInput, TheGoodFilesTrain) { EXPECT_EQ(train_with("solver", {"--cpu=2"}), 0) << file("log"); }

TEST_F(BadInput, Files) {
  expect_refusal(train_with("none"), {"none", "No such file"});
  write("lost", solver_for("nowhere.prototxt"));
  expect_refusal(train_with("lost"), {"nowhere.prototxt", "No such file"});
  expect_refusal(run({"--solver=" + folder_}), {folder_, "folder"});
  write("binary", std::string("\x00\x01\xff\xfe\x7f", 5));
  expect_refusal(train_with("binary"), {"binary", "expected text (.prototxt)"});
  write("empty", "");
  expect_refusal(train_with("empty"), {"empty"});
}

TEST_F(BadInput, Nets) {
  expect_net_refused("\"Convolution\"", "\"Convolutoin\"", {"Convolutoin", "\"conv\"", "Convolution"});
  expect_net_refused("num_output: 4", "num_outputs: 4", {"bad:", "num_outputs", "num_output"});
  expect_net_refused("num_output: 4", "num_output: four", {"bad:", "four"});
  expect_net_refused("num_output: 4", "num_output: 0", {"\"conv\"", "num_output"});
  expect_net_refused("kernel_size: 3", "kernel_size: 9", {"\"conv\"", "2 1 6 6", "kernel"});
  expect_net_refused("bottom: \"ip\" bottom: \"label\"", "bottom: \"ip\" bottom: \"nothing\"",
                     {"\"loss\"", "nothing"});
  expect_net_refused("bottom: \"ip\" bottom: \"label\"", "bottom: \"ip\" bottom: \"conv\"", {"\"loss\""});
  expect_net_refused("bottom: \"data\" top: \"conv\"", "bottom: \"ip\" top: \"conv\"", {"\"conv\"", "ip"});
  expect_net_refused("backend: LMDB", "backend: LEVELDB", {"LMDB"});
  expect_net_refused("batch_size: 2", "batch_size: 0", {"batch_size"});
  expect_net_refused("top: \"ip\"", "top: \"pi\"", {"\"loss\"", "\"ip\""});
  expect_net_refused("top: \"bn\"", "top: \"data\"", {"\"bn\"", "\"data\""});
  expect_net_refused("type: \"xavier\"", "type: \"xaver\"", {"xaver", "xavier"});
}

TEST_F(BadInput, Solvers) {
  for (const auto& [more, word] : std::vector<std::pair<std::string, std::string>>{
           {"max_itr: 4", "max_iter"},
           {"max_iter: 4 type: \"SGDD\"", "SGD"},
           {"max_iter: 4 lr_policy: 'fixe'", "lr_policy"},
           {"max_iter: -4", "max_iter"},
           {"", "max_iter is missing"},
           {"max_iter: 4 test_interval: 2 test_iter: -1", "test_iter"}}) {
    SCOPED_TRACE(more);
    write("bad_solver", solver_for("net", more));
    expect_refusal(train_with("bad_solver"), {"bad_solver", word});
  }
}

TEST_F(BadInput, Weights) {
  ASSERT_EQ(train_with("solver"), 0) << file("log");
  const std::string model = path("run/s_iter_4.caffemodel"), state = path("run/s_iter_4.solverstate");
  const auto with = [&](const std::string& flag) { return std::vector<std::string>{flag}; };
  expect_net_refused("num_output: 3", "num_output: 5", {"\"ip\"", "s_iter_4.caffemodel", "3", "5"},
                     with("--weights=" + model));
  expect_net_refused("num_output: 3", "num_output: 5", {"\"ip\""}, with("--snapshot=" + state));
  const std::string bytes = file("run/s_iter_4.caffemodel");
  for (const std::size_t size : {bytes.size() - 1, bytes.size() / 2, bytes.size() / 10, std::size_t{0}}) {
    write("cut.caffemodel", bytes.substr(0, size));
    expect_flags_refused({"--weights=" + path("cut.caffemodel")}, {"cut.caffemodel"});
  }
  expect_flags_refused({"--weights=" + path("none.caffemodel")}, {"none.caffemodel", "No such file"});
  expect_flags_refused({"--weights=" + model, "--snapshot=" + state}, {"--weights and --snapshot"});
  expect_flags_refused({"--snapshot=" + path("none.solverstate")}, {"none.solverstate", "No such file"});
  expect_flags_refused({"--snapshot=" + model}, {"s_iter_4.caffemodel"});
  const std::string saved = file("run/s_iter_4.solverstate");
  for (const std::size_t size : {saved.size() / 2, std::size_t{0}}) {
    write("cut.solverstate", saved.substr(0, size));
    expect_flags_refused({"--snapshot=" + path("cut.solverstate")}, {"cut.solverstate"});
  }
  fs::remove(model);
  expect_flags_refused({"--snapshot=" + state}, {"its model is missing"});
}

TEST_F(BadInput, Data) {
  const std::string source = path("db");
  expect_net_refused(source, path("none"), {"\"images\"", path("none")});
  data::LmdbWriter empty(path("empty"));
  empty.close();
  expect_net_refused(source, path("empty"), {"\"images\"", path("empty"), "empty"});
  make_small_lmdb(path("damaged"), 5);
  expect_net_refused(source, path("damaged"), {path("damaged"), "00000005", "\"images\""}, {"--cpu=2"});
  expect_net_refused("num_output: 3", "num_output: 2", {"\"loss\"", "label 2", "0 to 1"}, {"--cpu=2"});
  data::LmdbWriter uneven(path("uneven"));
  const std::vector<std::uint8_t> pixels(64);
  uneven.put("a", data::raw_datum(1, 6, 6, pixels.data(), 0));
  uneven.put("b", data::raw_datum(1, 8, 8, pixels.data(), 0));
  uneven.close();
  expect_net_refused(source, path("uneven"), {path("uneven"), "\"b\""});
}

TEST_F(BadInput, Images) {
  const auto jpeg = data::encode_image({1, 6, 6, std::vector<std::uint8_t>(36, 100)}, "jpg");
  const std::string good(jpeg.begin(), jpeg.end()), cut = good.substr(0, good.size() / 2);
  data::LmdbWriter writer(path("encoded"));
  for (int i = 0; i < 6; ++i) writer.put(cat("image", i), data::encoded_datum(i == 4 ? cut : good, 0));
  writer.close();
  expect_net_refused(path("db"), path("encoded"), {path("encoded"), "image4"}, {"--cpu=2"});
  write("good.jpg", good);
  write("cut.jpg", cut);
  write("text.jpg", "not an image");
  const auto expect_list_refused = [&](const std::string& list, const std::vector<std::string>& words) {
    SCOPED_TRACE(list);
    write("list", list);
    write(
        "bad",
        R"(layer { name: "images" type: "ImageData" top: "data" top: "label" image_data_param { batch_size: 2
                    is_color: false source: ")" +
            path("list") + "\" root_folder: \"" + folder_ + "/\" } }" + net_behind_sources());
    write("bad_solver", solver_for("bad"));
    expect_refusal(train_with("bad_solver"), words);
  };
  expect_list_refused("good.jpg 0\ngood.jpg 1\ngood.jpg 2\ncut.jpg 0\n", {"cut.jpg"});
  expect_list_refused("good.jpg 0\ntext.jpg 0\n", {"text.jpg"});
  expect_list_refused("good.jpg 0\nmissing.jpg 0\n", {"missing.jpg", "No such file"});
  expect_list_refused("good.jpg zero\n", {path("list")});
  expect_list_refused("", {path("list")});
}

TEST_F(BadInput, Flags) {
  if (cuda_device_count(nullptr) == 0) {
    expect_flags_refused({"--gpu=0"}, {"--gpu=0", "no GPU", "--cpu=N"});
    expect_flags_refused({"--gpu=all"}, {"--gpu=all", "no GPU"});
  }
  expect_flags_refused({"--gpu=99"}, {"--gpu=99"});
  expect_flags_refused({"--cpu=0"}, {"--cpu=0", "1 to"});
  expect_flags_refused({"--cpu=-1"}, {"--cpu=-1"});
  expect_flags_refused({"--cpu=two"}, {"--cpu=two"});
  expect_flags_refused({"--cpu=2", "--gpu=0"}, {"--gpu and --cpu"});
  expect_flags_refused({"--solvr=x"}, {"--solvr", "solver"});
  expect_flags_refused({"trian"}, {"trian", "train"});
  expect_flags_refused({"train", "test"}, {"found 1 argument"});
  expect_flags_refused({"--tree=oak"}, {"--tree", "oak"});
  expect_flags_refused({"--sync_bn=maybe"}, {"maybe"});
  expect_flags_refused({"--precision=f16"}, {"f16", "f32"});
  expect_flags_refused({"--watchdog=-1"}, {"--watchdog"});
  expect_flags_refused({"--sigint_effect=explode"}, {"--sigint_effect=explode", "stop"});
  expect_flags_refused({"--threads_per_device=-2"}, {"--threads_per_device"});
  expect_refusal(run({"train"}), {"--solver is missing"});
  expect_refusal(run({"test", "--model=" + path("net")}), {"--weights is missing"});
  expect_refusal(run({"summary", "--model=" + path("none")}), {"none"});
  expect_refusal(run({"time", "--model=" + path("net"), "--iterations=0"}), {"--iterations=0"});
}

TEST_F(BadInput, SnapshotFolders) {
  write("blocked", "a file where a folder should be");
  write("bad_solver", replaced(solver_for("net"), path("run/s"), path("blocked/s")));
  expect_refusal(train_with("bad_solver"), {"snapshot_prefix", path("blocked")});
  // Not even root can create a file there.
  write("bad_solver", replaced(solver_for("net"), path("run/s"), "/proc/s"));
  expect_refusal(train_with("bad_solver"), {"snapshot_prefix", "/proc/s"});
}

}  // namespace
}  // namespace banyan
