// Every operator has a CUDA implementation. Needs the CUDA back end but no GPU: loading its library registers
// them.
#include <gtest/gtest.h>

#include "banyan/device/cuda_devices.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/class_loss.hpp"
#include "banyan/ops/device_value.hpp"
#include "banyan/ops/distance_loss.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/functions.hpp"
#include "banyan/ops/grid.hpp"
#include "banyan/ops/join.hpp"
#include "banyan/ops/loss.hpp"
#include "banyan/ops/normalization.hpp"
#include "banyan/ops/norms.hpp"
#include "banyan/ops/pooling.hpp"
#include "banyan/ops/prior_boxes.hpp"
#include "banyan/ops/regions.hpp"
#include "banyan/ops/resize.hpp"
#include "banyan/ops/rows.hpp"
#include "banyan/ops/selection.hpp"
#include "banyan/ops/target_loss.hpp"
#include "banyan/ops/unfold.hpp"
#include "banyan/ops/update.hpp"

namespace banyan {
namespace {

template <class... Operators>
void expect_on_cuda(const Operators&... operators) {
  const auto expect_one = [](const auto& op) {
    EXPECT_TRUE(op.has(DeviceKind::cuda)) << op.name();
    EXPECT_TRUE(op.has(DeviceKind::cpu)) << op.name();
  };
  (expect_one(operators), ...);
}

TEST(CudaOperators, AllAreRegistered) {
  if (!built_with_cuda()) GTEST_SKIP() << "this build has no CUDA back end";
  static_cast<void>(cuda_device_count());  // loads the library
  ASSERT_NE(cuda_versions(), "none") << "libbanyan_cuda.so does not load";
  using namespace ops;
  expect_on_cuda(fill, copy, axpby, sum, absolute_sum, sum_of_squares, count_not_finite, copy_blocks, gemm,
                 write_bytes);
  expect_on_cuda(relu_forward, relu_backward, invert_activation, sigmoid_forward, sigmoid_backward,
                 tanh_forward, tanh_backward, elu_forward, elu_backward, dropout, activate_and_drop,
                 activate_and_drop_backward, keep_term, weighted_sum, activation_backward_of_sum, multiply,
                 product_backward_by_quotient, maximum, maximum_backward, scale_bias, scale_backward);
  expect_on_cuda(softmax_forward, softmax_backward, softmax_loss_forward, softmax_loss_backward,
                 euclidean_forward, euclidean_backward, quotient, accuracy_counts);
  expect_on_cuda(batch_moments, merge_moments, finish_moments, update_running, stored_statistics,
                 normalize_forward, normalize_and_add, normalize_backward_sums, normalize_backward,
                 add_affine_gradients, output_statistics, lrn_forward, lrn_backward);
  expect_on_cuda(pooling_forward, pooling_backward, update_parameters);
  expect_on_cuda(apply_function, apply_slope, prelu_forward, prelu_backward);
  expect_on_cuda(target_loss_forward, target_loss_backward, target_losses, hinge_loss_forward,
                 hinge_loss_backward, logistic_loss_forward, logistic_loss_backward, smoothed_loss_forward,
                 smoothed_loss_backward, infogain_loss_forward, infogain_loss_backward, position_losses,
                 squared_distances, contrastive_loss, triplet_loss, pair_backward);
  expect_on_cuda(reduce_rows, reduce_rows_backward, tile_rows, tile_rows_backward, gather_rows, add_to_rows,
                 largest, reduce_part, reduce_part_backward, dot_products, divide_by_norm,
                 divide_by_norm_backward, deviation_statistics);
  expect_on_cuda(copy_grid, join_blocks, split_blocks, resize_forward, resize_backward, unfold_forward,
                 unfold_backward, unpool_forward, unpool_backward, note_outside, prior_boxes);
  expect_on_cuda(region_maximum, region_maximum_backward, region_average, region_average_backward,
                 region_votes, region_votes_backward);
}

TEST(CudaOperators, VersionsNameEveryLibrary) {
  if (!built_with_cuda()) GTEST_SKIP() << "this build has no CUDA back end";
  const std::string versions = cuda_versions();
  for (const char* library : {"CUDA ", "driver ", "cuDNN 9.", "cuBLAS "})
    EXPECT_NE(versions.find(library), std::string::npos) << versions;
}

}  // namespace
}  // namespace banyan
