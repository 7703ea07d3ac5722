// `trainer draw` as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "draw/xml_check.hpp"
#include "net/small_nets.hpp"
#include "tools/program_test.hpp"

namespace banyan::tools {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class DrawCommand : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("net.prototxt", conv_net());
  }
};

TEST_F(DrawCommand, SvgOnStandardOutputOrInAFile) {
  const Result shown = run("trainer draw --model=net.prototxt --layout=own");
  EXPECT_EQ(shown.code, 0) << shown.output;
  EXPECT_THAT(shown.output, StartsWith("<svg "));
  EXPECT_EQ(draw::xml_problem(shown.output), "");
  expect_done("trainer draw --model=net.prototxt --layout=own --out=net.svg");
  EXPECT_EQ(read("net.svg"), shown.output);
  const Result plan = run("trainer draw --model=net.prototxt --layout=own --plan");
  EXPECT_THAT(plan.output, HasSubstr(">step 1"));
}

/// Graphviz places the same cards if it is there.
TEST_F(DrawCommand, WithAndWithoutGraphviz) {
  const Result chosen = run("trainer draw --model=net.prototxt");
  EXPECT_EQ(draw::xml_problem(chosen.output), "");
  for (const char* part : {">conv1</text>", ">pool1</text>", ">ip1</text>", ">loss</text>"})
    EXPECT_THAT(chosen.output, HasSubstr(part));
  // A dot that fails is not passed over in silence.
  write("dot", "#!/bin/sh\n[ \"$1\" = -V ] && exit 0\necho 'no memory' >&2\nexit 3\n");
  std::filesystem::permissions(path("dot"), std::filesystem::perms::owner_all);
  const std::string command = "trainer draw --model=net.prototxt";
  const std::string with_path = "PATH='" + folder_ + "'";
  const Result failed = run(command, with_path);
  EXPECT_EQ(failed.code, 0) << failed.output;
  EXPECT_THAT(failed.output, HasSubstr("no memory"));
  EXPECT_THAT(failed.output, HasSubstr("</svg>"));
  const Result asked = run(command + " --layout=dot", with_path);
  EXPECT_EQ(asked.code, 1) << asked.output;
  EXPECT_THAT(asked.output, HasSubstr("trainer: Graphviz' program dot failed"));
  std::filesystem::remove(path("dot"));
  const Result missing = run(command + " --layout=dot", with_path);
  EXPECT_EQ(missing.code, 1) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("dot cannot be started; --layout=own does without it"));
}

TEST_F(DrawCommand, DataNeedNotExist) {
  write("data.prototxt",
        "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: 'nowhere' batch_size: "
        "4 } }" +
            inner_product("ip", "data", "ip", 5) + softmax_loss("ip"));
  const Result shown = run("trainer draw --model=data.prototxt --shape='data:4,3,8,8;label:4' --layout=own");
  EXPECT_EQ(shown.code, 0) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr(">Data</text>"));
  expect_bad_input("trainer draw --model=data.prototxt", "nowhere");
}

TEST_F(DrawCommand, GraphsAndUsage) {
  const Result dot = run("trainer draw --model=net.prototxt --dot");
  EXPECT_EQ(dot.code, 0) << dot.output;
  EXPECT_THAT(dot.output, StartsWith("digraph \"small\" {"));
  expect_bad_input("trainer draw", "--model is missing");
  expect_bad_input("trainer draw --model=net.prototxt --layout=neat",
                   "--layout=neat: expected auto, dot, own");
  expect_bad_input("trainer draw --model=net.prototxt --layout=own --dot", "exclude each other");
  expect_failure("trainer draw --model=net.prototxt --out=no/where.svg", "no/where.svg", 1);
}

}  // namespace
}  // namespace banyan::tools
