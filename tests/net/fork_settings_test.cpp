#include "banyan/net/fork_settings.hpp"

#include <gtest/gtest.h>

#include "banyan/base/error.hpp"

namespace banyan {
namespace {

TEST(ForkSettings, WhatChangesTheMathsIsRefused) {
  caffe::NetParameter net;
  net.set_default_forward_type(caffe::FLOAT16);
  EXPECT_NO_THROW(check_fork_settings(net, true));
  net.set_bn_stats_batch_size(32);
  EXPECT_THROW(check_fork_settings(net, false), Error);
}

}  // namespace
}  // namespace banyan
