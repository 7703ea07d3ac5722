// SSD's layers on GPUs, whose host decides in the middle of a pass: what they give is what CPU devices give.
#include "banyan/train/session.hpp"
#include "gpu/gpu_training.hpp"
#include "net/box_heads.hpp"

namespace banyan {
namespace {

/// One constant row of ground truth of this item: a box near a prior.
std::string truth(int item, int label, double x, double y) {
  std::string tops, names, fillers;
  for (int i = 0; i < 8; ++i) {
    const double values[] = {item + 0.0, label + 0.0, 0, x, y, x + 0.28, y + 0.24, 0};
    tops += cat(" top: 't", item, i, "'");
    names += cat(" bottom: 't", item, i, "'");
    fillers += cat(" data_filler { value: ", values[i], " }");
  }
  return cat("layer { name: 't", item, "' type: 'DummyData'", tops,
             " dummy_data_param { shape { dim: 1 dim: 1 dim: 1 dim: 1 }", fillers, " } } layer { name: 'row",
             item, "' type: 'Concat'", names, " top: 'row", item, "' concat_param { axis: 3 } } ");
}

std::string net(const std::string& loss) {
  const bool two_steps = loss.find("objectness_score") != std::string::npos;
  return R"(layer { name: 'data' type: 'DummyData' top: 'data' dummy_data_param {
  shape { dim: 2 dim: 3 dim: 12 dim: 12 } data_filler { type: 'gaussian' } } }
)" + truth(0, 1, 0.1, 0.15) +
         truth(1, 2, 0.55, 0.6) + R"(
layer { name: 'truth' type: 'Concat' bottom: 'row0' bottom: 'row1' top: 'truth' concat_param { axis: 2 } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param {
  num_output: 5 kernel_size: 3 stride: 3 weight_filler { type: 'xavier' } } }
)" + box_head("loc", "conv", 8) +
         box_head("conf", "conv", 6) + R"(
layer { name: 'priors' type: 'PriorBox' bottom: 'conv' bottom: 'data' top: 'priors'
  prior_box_param { min_size: 3 max_size: 6 } }
)" + (two_steps ? first_step_of_two_boxes("conv") : "") +
         "layer { name: 'loss' type: 'MultiBoxLoss' bottom: 'loc_flat' bottom: 'conf_flat' bottom: 'priors' "
         "bottom: 'truth' " +
         (two_steps ? kOfFirstStep : "") + R"(top: 'loss' multibox_loss_param { num_classes: 3 )" + loss +
         R"( } }
layer { name: 'found' type: 'DetectionOutput' bottom: 'loc_flat' bottom: 'conf_flat' bottom: 'priors' )" +
         (two_steps ? kOfFirstStep : "") + R"(top: 'found'
  detection_output_param { num_classes: 3 code_type: CENTER_SIZE keep_top_k: 6 nms_param { nms_threshold: 0.4 } } }
layer { name: 'right' type: 'DetectionEvaluate' bottom: 'found' bottom: 'truth' top: 'right'
  detection_evaluate_param { num_classes: 3 overlap_threshold: 0.2 } })";
}

class GpuDetection : public GpuTraining {};

TEST_F(GpuDetection, FindsAndLearnsWhatCpuDevicesDo) {
  for (const std::string loss :
       {"code_type: CENTER_SIZE overlap_threshold: 0.3", "conf_loss_type: LOGISTIC mining_type: NONE",
        "mining_type: HARD_EXAMPLE sample_size: 9 loc_loss_type: L2 encode_variance_in_target: true "
        "nms_param { nms_threshold: 0.7 }",
        "code_type: CENTER_SIZE overlap_threshold: 0.3 objectness_score: 0.5"})
    for (const int number : {1, 2}) {
      const TrainingCase what{"base_lr: 0.0005 momentum: 0.9 lr_policy: 'fixed' random_seed: 3 display: 0 ",
                              net(loss)};
      FLAGS_minloglevel = 2;
      const auto run = [&](const std::vector<DeviceChoice>& devices) {
        const TrainingFolder folder;
        TrainOptions options = options_of(what, folder, devices);
        options.keep_blobs = true;
        Session session(options);
        EXPECT_TRUE(session.step(4));
        std::vector<std::vector<double>> values;
        for (const char* blob : {"loss", "found", "right"})
          values.push_back(session.blob(blob, number - 1).values);
        for (const char* layer : {"conv", "loc", "conf"})
          values.push_back(session.parameter(layer, 0).values);
        return values;
      };
      const auto expected = run(cpu_devices(number)), found = run(gpu_devices(number));
      EXPECT_GT(expected[0][0], 0.1) << "something is learned";
      for (std::size_t i = 0; i < expected.size(); ++i)  // f64; four steps amplify 1e-15 little
        EXPECT_LE(largest_difference(expected[i], found[i]), 1e-11)
            << loss << ", " << number << ", value " << i;
    }
}

}  // namespace
}  // namespace banyan
