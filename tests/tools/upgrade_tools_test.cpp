// upgrade_net_proto_text, upgrade_net_proto_binary, upgrade_solver_proto_text.
#include "banyan/io/binary_proto.hpp"
#include "banyan/io/prototxt.hpp"
#include "banyan/io/weights.hpp"
#include "tools/program_test.hpp"

namespace banyan::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kV1 = R"(name: "old" input: "x" input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4
  layers { name: "c" type: CONVOLUTION bottom: "x" top: "c" blobs_lr: 1 blobs_lr: 2
           convolution_param { num_output: 3 kernel_size: 1 } })";

class UpgradeTools : public ProgramTest {};

TEST_F(UpgradeTools, ExplainThemselves) {
  for (const std::string tool :
       {"upgrade_net_proto_text", "upgrade_net_proto_binary", "upgrade_solver_proto_text"}) {
    const Result help = run(tool + " --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.output,
                AllOf(HasSubstr("Usage: " + tool + " [flags] IN OUT"), HasSubstr("--overwrite")));
    expect_bad_input(tool, "expected IN OUT, found 0 arguments");
    expect_bad_input(tool + " none out", "none");
    write("empty", "");
    expect_bad_input(tool + " empty out", "empty");
    write("noise", "\xff\xff not a net");
    expect_bad_input(tool + " noise out", "noise");
    EXPECT_FALSE(std::filesystem::exists(path("out")));
  }
}

TEST_F(UpgradeTools, TextOfV1) {
  write("old.prototxt", kV1);
  const Result result = run("upgrade_net_proto_text old.prototxt new.prototxt");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("Wrote upgraded NetParameter text proto to new.prototxt"));
  const caffe::NetParameter net = io::read_net_text(path("new.prototxt"));
  ASSERT_EQ(net.layer_size(), 2);
  EXPECT_EQ(net.layers_size(), 0);
  EXPECT_EQ(net.layer(0).type(), "Input");
  EXPECT_EQ(net.layer(1).type(), "Convolution");
  EXPECT_EQ(net.layer(1).param(1).lr_mult(), 2);
  // Again: there is nothing left to do, and OUT is written all the same, as in Caffe.
  const Result again = run("upgrade_net_proto_text new.prototxt newer.prototxt");
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.output, HasSubstr("File already in latest proto format: new.prototxt"));
  EXPECT_EQ(read("newer.prototxt"), read("new.prototxt"));
}

TEST_F(UpgradeTools, KeepWhatExists) {
  write("old.prototxt", kV1);
  expect_bad_input("upgrade_net_proto_text old.prototxt old.prototxt",
                   "\"old.prototxt\" exists; remove it, or pass --overwrite");
  EXPECT_EQ(read("old.prototxt"), kV1);
  expect_done("upgrade_net_proto_text --overwrite old.prototxt old.prototxt");
  EXPECT_THAT(read("old.prototxt"), AllOf(HasSubstr("layer {"), Not(HasSubstr("layers"))));
  expect_failure("upgrade_net_proto_text old.prototxt nowhere/new.prototxt", "nowhere/new.prototxt", 1);
  // A folder in which nobody may write.
  expect_failure("upgrade_net_proto_text old.prototxt /proc/new.prototxt", "/proc/new.prototxt", 1);
}

TEST_F(UpgradeTools, BinaryKeepsTheWeights) {
  caffe::NetParameter net = io::parse_net_text(kV1, "old");
  const float weights[] = {1, 2, 3, 4, 5, 6};
  *net.mutable_layers(0)->add_blobs() = io::encode_blob({3, 2, 1, 1}, weights);
  io::write_binary_proto(path("old.caffemodel"), net);
  const Result result = run("upgrade_net_proto_binary old.caffemodel new.caffemodel");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("Wrote upgraded NetParameter binary proto to new.caffemodel"));
  const auto made = io::read_binary_proto<caffe::NetParameter>(path("new.caffemodel"));
  ASSERT_EQ(made.layer_size(), 2);
  ASSERT_EQ(made.layer(1).blobs_size(), 1);
  EXPECT_EQ(made.layer(1).blobs(0).data(5), 6);
}

TEST_F(UpgradeTools, Solver) {
  write("old.prototxt", "net: 'n' base_lr: 0.1 solver_type: NESTEROV");
  expect_done("upgrade_solver_proto_text old.prototxt new.prototxt");
  EXPECT_THAT(read("new.prototxt"), AllOf(HasSubstr("type: \"Nesterov\""), Not(HasSubstr("solver_type"))));
  write("both.prototxt", "type: 'SGD' solver_type: NESTEROV");
  expect_bad_input("upgrade_solver_proto_text both.prototxt out", "give `type` or `solver_type`, not both");
}

}  // namespace
}  // namespace banyan::tools
