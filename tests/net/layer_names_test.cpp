// What is said of layers that share a name.
#include "net/net_test_tools.hpp"

namespace banyan {
namespace {

std::string warning_of_names(const std::vector<std::string>& names) {
  std::string text = "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 } } }";
  int blob = 0;
  for (const std::string& name : names)
    text += "layer { name: '" + name + "' type: 'ReLU' bottom: 'x' top: 'y" + std::to_string(blob++) + "' }";
  NetBench bench;
  ::testing::internal::CaptureStderr();
  bench.make(text, {});
  return ::testing::internal::GetCapturedStderr();
}

TEST(LayerNames, GivenTwiceAreTold) {
  using testing::HasSubstr;
  EXPECT_EQ(warning_of_names({"a", "b", "c"}), "");
  EXPECT_THAT(warning_of_names({"a", "b", "a", "a"}), HasSubstr("several layers are named \"a\"\n"));
  EXPECT_THAT(warning_of_names({"a", "b", "b", "a"}),
              HasSubstr("names that several layers have: \"a\" and \"b\"\n"));
  EXPECT_THAT(warning_of_names({"a", "b", "c", "d", "e", "e", "d", "c", "b", "a"}),
              HasSubstr("names that several layers have: \"a\", \"b\", \"c\" and 2 more\n"));
}

TEST(LayerNames, NoneIsToldInOtherWords) {
  using testing::HasSubstr;
  EXPECT_THAT(warning_of_names({"", "a", ""}),
              testing::AllOf(HasSubstr("several layers have no name\n"), testing::Not(HasSubstr("named"))));
  EXPECT_THAT(warning_of_names({"", "a", "", "a"}),
              testing::AllOf(HasSubstr("several layers have no name\n"),
                             HasSubstr("several layers are named \"a\"\n")));
}

std::string two_named_alike(const std::string& first, const std::string& second) {
  const std::string settings = "inner_product_param { num_output: 2 weight_filler { type: 'gaussian' } } } ";
  return "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } } "
         "layer { name: 'f' type: 'InnerProduct' bottom: 'x' top: 'a' " +
         first + settings + "layer { name: 'f' type: 'InnerProduct' bottom: 'x' top: 'b' " + second +
         settings;
}

TEST(LayerNames, LayersOfOneNameMayShareAllParameters) {
  const std::string both = "param { name: 'w' } param { name: 'v' } ";
  NetBench bench;
  NetOptions options = f64_options();
  const auto from = bench.make(two_named_alike(both, both), options);
  options.seed = 77;
  const auto to = bench.make(two_named_alike(both, both), options);
  ASSERT_EQ(from->parameters().size(), 2u);
  const auto weights = [&](const Net& net) {
    return values_of<double>(bench.context, net.parameters()[0].value);
  };
  EXPECT_NE(weights(*from), weights(*to));
  load_weights(*to, io::parse_weights(to_proto(*from, false).SerializeAsString(), "m"), "m");
  EXPECT_EQ(weights(*from), weights(*to));
  for (const std::string& other :
       {std::string(), std::string("param { name: 'w' } "), std::string("param { name: 'v' } param {} "),
        std::string("param { name: 'w' } param { name: 'u' } ")}) {
    SCOPED_TRACE(other);
    for (const bool second : {false, true})
      EXPECT_THAT(message_of([&] {
                    bench.make(second ? two_named_alike(both, other) : two_named_alike(other, both), {});
                  }),
                  testing::HasSubstr("two layers are named \"f\""));
  }
}

}  // namespace
}  // namespace banyan
