// snapshot_diff: the gradients in a snapshot are the global ones, whichever devices summed them.
#include "banyan/io/binary_proto.hpp"
#include "training_case.hpp"

namespace banyan {
namespace {

/// 28,000 parameters: several buckets, so that each of four devices owns some.
const TrainingCase kCase{"base_lr: 0.05 momentum: 0.9 lr_policy: 'fixed' random_seed: 3 snapshot_diff: true",
                         R"(
layer { name: 'data' type: 'Data' top: 'data' top: 'label'
  data_param { source: 'DATA' backend: LMDB batch_size: 24 batch_size_is_total: true } transform_param { scale: 0.01 } }
layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1'
  inner_product_param { num_output: 64 weight_filler { type: 'xavier' } } }
layer { name: 'bn' type: 'SyncBN' bottom: 'ip1' top: 'bn' bn_param { slope_filler { value: 1 } } }
layer { name: 'relu' type: 'ReLU' bottom: 'bn' top: 'bn' }
layer { name: 'ip2' type: 'InnerProduct' bottom: 'bn' top: 'ip2'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }
)",
                         3};

std::vector<double> gradients(int devices) {
  const TrainingFolder folder;
  train_case(kCase, devices, folder);
  const auto net =
      io::read_binary_proto<caffe::NetParameter>(snapshot_paths(folder.path() + "/out", 3).model);
  std::vector<double> all;
  for (const auto& layer : net.layer())
    for (const auto& blob : layer.blobs())
      all.insert(all.end(), blob.double_diff().begin(), blob.double_diff().end());
  return all;
}

TEST(SnapshotDiff, IsThatOfOneDevice) {
  const std::vector<double> one = gradients(1);
  ASSERT_GT(one.size(), 27'000u);
  EXPECT_GT(*std::max_element(one.begin(), one.end()), 1e-3);
  // f64, as in the tests of the promises.
  for (const int devices : {2, 4}) EXPECT_LE(largest_difference(one, gradients(devices)), 1e-10) << devices;
}

}  // namespace
}  // namespace banyan
