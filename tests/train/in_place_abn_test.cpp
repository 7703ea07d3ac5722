// Training with in_place_abn: N devices equal one device, and a run equals that of the net without it up to
// rounding.
#include "training_case.hpp"

namespace banyan {
namespace {

const char* const kAbnNet = R"(
layer { name: 'data' type: 'Data' top: 'data' top: 'label'
  data_param { source: 'DATA' backend: LMDB batch_size: BATCH } transform_param { scale: 0.01 crop_size: 10 mirror: true } }
layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1'
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'bn1' type: 'SyncBN' bottom: 'conv1' top: 'bn1' bn_param { slope_filler { value: 1 } } }
layer { name: 'relu1' type: 'ReLU' bottom: 'bn1' top: 'bn1' relu_param { negative_slope: 0.1 } }
layer { name: 'conv2' type: 'Convolution' bottom: 'bn1' top: 'conv2'
  convolution_param { num_output: 6 kernel_size: 3 stride: 2 weight_filler { type: 'msra' } } }
layer { name: 'bn2' type: 'SyncBN' bottom: 'conv2' top: 'bn2' bn_param { slope_filler { value: 1 } } }
layer { name: 'elu2' type: 'ELU' bottom: 'bn2' top: 'elu2' }
layer { name: 'ip' type: 'InnerProduct' bottom: 'elu2' top: 'ip'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
)";

TrainingCase with(const std::string& net_line, int batch, const std::string& solver_line) {
  TrainingCase made{kFixedSolver + solver_line, net_line + kAbnNet};
  made.net.replace(made.net.find("BATCH"), 5, std::to_string(batch));
  return made;
}

class InPlaceAbnTraining : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Training, InPlaceAbnTraining, testing::Values("", "iter_size: 2"));

/// 20 iterations amplify rounding (1e-16, and 1e-15 for recovered values) by less than 1e5.
TEST_P(InPlaceAbnTraining, NDevicesAreOneDeviceAndThePlainNet) {
  const std::string on = "in_place_abn: true ";
  const Trained one = train_case(with(on, 12, GetParam()), 1),
                plain = train_case(with("", 12, GetParam()), 1);
  ASSERT_EQ(one.losses().size(), 20u);
  EXPECT_LT(one.losses().back(), one.losses().front());
  EXPECT_NE(one.values(), plain.values()) << "nothing was done in place";
  EXPECT_LE(largest_difference(one.values(), plain.values()), 1e-10);
  for (const int devices : {2, 3, 4}) {
    const Trained several = train_case(with(on, 12 / devices, GetParam()), devices);
    EXPECT_LE(largest_difference(one.values(), several.values()), 1e-10) << devices << " devices";
    EXPECT_LE(largest_difference(one.losses(), several.losses()), 1e-10) << devices << " devices";
  }
  const Trained cut = train_case(with(on + "checkpoint: '2' ", 6, GetParam()), 2);
  EXPECT_EQ(cut.values(), train_case(with(on, 6, GetParam()), 2).values());
}

/// A slope from which the values cannot be recovered stops the run, with the layer's name, before a snapshot.
TEST(InPlaceAbnTraining, StopsAtASlopeOfZero) {
  TrainingCase what = with("in_place_abn: true ", 6, "");
  what.net.replace(what.net.find("value: 1"), 8, "value: 0");
  const TrainingFolder folder;
  try {
    train(options_of(what, folder, 2));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::runtime);
    EXPECT_NE(std::string(error.what()).find("\"bn1\" (SyncBN): the slope of channel 0 is 0"),
              std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(std::filesystem::exists(snapshot_paths(folder.path() + "/out", what.iterations).model));
}

}  // namespace
}  // namespace banyan
