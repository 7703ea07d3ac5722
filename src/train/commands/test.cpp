#include <glog/logging.h>

#include "banyan/train/commands.hpp"
#include "banyan/train/log_lines.hpp"
#include "train/average_precision.hpp"

namespace banyan {

void test_model(const ModelOptions& options) {
  Model model(options);
  Net& net = model.net();
  LOG(INFO) << "Running for " << options.iterations << " iterations.";
  std::vector<std::vector<double>> sums(net.outputs().size());
  double loss = 0;
  std::vector<std::vector<double>> detections(sums.size());  // rows of all batches
  for (int batch = 0; batch < options.iterations; ++batch) {
    Pass pass = model.next_pass();
    net.forward(pass);
    net.check_results();
    loss += model.loss();
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const Blob& output = *net.outputs()[k];
      const auto values = values_of(model.context(), output.data).values;
      if (holds_detections(net, output)) {
        const std::vector<double> rows = detection_rows(net, output, values);
        detections[k].insert(detections[k].end(), rows.begin(), rows.end());
        continue;
      }
      sums[k].resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        sums[k][i] += values[i];
        LOG(INFO) << log_lines::batch_value(batch, output.name, values[i]);
      }
    }
  }
  LOG(INFO) << log_lines::mean_loss(loss / options.iterations);
  for (std::size_t k = 0; k < sums.size(); ++k) {
    const Blob& output = *net.outputs()[k];
    if (holds_detections(net, output)) {
      const auto precisions = average_precisions(detections[k], AveragePrecision::integral);
      for (const auto& [label, value] : precisions) LOG(INFO) << log_lines::class_result(label, value);
      LOG(INFO) << log_lines::mean_value(output.name, mean_of(precisions), 0);
    }
    for (double sum : sums[k])
      LOG(INFO) << log_lines::mean_value(output.name, sum / options.iterations, net.loss_weight(output));
  }
}

}  // namespace banyan
