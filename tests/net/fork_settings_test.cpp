#include "banyan/net/fork_settings.hpp"

#include <gtest/gtest.h>

#include "banyan/io/prototxt.hpp"

namespace banyan {
namespace {

TEST(ForkSettings, WhatHasNoEffectIsSaid) {
  const auto net = io::parse_net_text(
      "engine: 'MKLDNN:CPU' multinode { } compile_net_state { is_init: true }\n"
      "layer { name: 'a' type: 'ReLU' bottom: 'x' top: 'y' engine: 'MKL2017' quantization_param { "
      "bw_layer_in: 8 } "
      "multinode { num_nodes: 2 } }\n"
      "layer { name: 'b' type: 'ReLU' bottom: 'y' top: 'z' relu_param { engine: MKLDNN } quantization_param "
      "{ "
      "scale_in: 2 } }",
      "net");
  ::testing::internal::CaptureStderr();
  warn_of_fork_settings(net);
  const std::string logged = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(logged.find("layer \"a\" and 1 more: quantization_param has no effect"), std::string::npos)
      << logged;
  EXPECT_NE(logged.find("the net's multinode settings are ignored"), std::string::npos) << logged;
  EXPECT_NE(logged.find("layer \"a\": multinode settings are ignored"), std::string::npos) << logged;
}

}  // namespace
}  // namespace banyan
