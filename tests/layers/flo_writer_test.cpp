// FLOWriter.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "banyan/io/atomic_file.hpp"
#include "layers/bench.hpp"

namespace banyan::testing {
namespace {

std::string writer(const std::string& settings) {
  return "type: 'FLOWriter' writer_param { " + settings + " }";
}

/// What a .flo file holds: width, height and both numbers of each pixel.
std::vector<float> flow_of(const std::string& path) {
  const std::string bytes = io::read_file(path, 1 << 20);
  EXPECT_EQ(bytes.substr(0, 4), "PIEH");
  std::int32_t size[2] = {};
  std::memcpy(size, bytes.data() + 4, 8);
  std::vector<float> flow((bytes.size() - 12) / 4);
  std::memcpy(flow.data(), bytes.data() + 12, bytes.size() - 12);
  flow.insert(flow.begin(), {static_cast<float>(size[0]), static_cast<float>(size[1])});
  return flow;
}

TEST(FloWriter, WritesEverySampleOfEveryPass) {
  const std::string folder = cat(::testing::TempDir(), "banyan_flow_", ::getpid());
  std::filesystem::create_directories(folder);
  Bench bench(writer("folder: '" + folder + "' prefix: 'a-' suffix: '_b'"), {{2, 2, 2, 3}}, 0);
  Values values(24);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) / 2;
  bench.set_input(0, values);
  bench.forward();
  values[12] = -8;
  bench.set_input(0, values);
  bench.forward();
  EXPECT_EQ(flow_of(folder + "/a-0000000(000)_b.flo"),
            (std::vector<float>{3, 2, 0, 3, .5, 3.5, 1, 4, 1.5, 4.5, 2, 5, 2.5, 5.5}));
  EXPECT_EQ(flow_of(folder + "/a-0000000(001)_b.flo")[2], 6);
  EXPECT_EQ(flow_of(folder + "/a-0000001(001)_b.flo")[2], -8);
  EXPECT_TRUE(std::filesystem::exists(folder + "/a-0000001(000)_b.flo"));
  Bench one(writer("file: '" + folder + "/one.flo'"), {{1, 2, 1, 1}}, 0);
  one.set_input(0, {4, 5});
  one.forward();
  EXPECT_EQ(flow_of(folder + "/one.flo"), (std::vector<float>{1, 1, 4, 5}));
  std::filesystem::remove_all(folder);
  bench.forward();
  EXPECT_TRUE(std::filesystem::exists(folder + "/a-0000002(000)_b.flo")) << "the folder is made again";
  std::filesystem::remove_all(folder);
  io::write_file(folder, "a file");
  EXPECT_THROW(bench.forward(), Error);
  std::filesystem::remove(folder);
}

TEST(FloWriter, RefusesWhatIsNoFlow) {
  EXPECT_NE(refusal(writer(""), {Shape{1, 3, 2, 2}}).find("2 channels"), std::string::npos);
  EXPECT_NE(refusal(writer(""), {Shape{1, 2}}).find("4 (N, C, H, W)"), std::string::npos);
  EXPECT_NE(refusal(writer("file: 'a'"), {Shape{2, 2, 2, 2}}).find("one sample"), std::string::npos);
  EXPECT_NE(refusal(writer("file: 'a' prefix: 'b'"), {Shape{1, 2, 2, 2}}).find("either"), std::string::npos);
  BenchOptions several;
  several.devices = 2;
  EXPECT_THROW(Bench(writer("file: 'a'"), {Shape{1, 2, 2, 2}}, 0, several), Error);
}

}  // namespace
}  // namespace banyan::testing
