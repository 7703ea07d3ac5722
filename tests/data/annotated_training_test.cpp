// AnnotatedData in a net: tables of different lengths reach MultiBoxLoss, on any number of devices alike.

#include <cmath>
#include <set>

#include "banyan/train/session.hpp"
#include "data/data_test_tools.hpp"
#include "train/training_case.hpp"

namespace banyan::data {
namespace {

/// Image i has i mod 3 bright squares.
void make_database(const std::string& path) {
  LmdbWriter writer(path);
  for (int i = 0; i < 7; ++i) {
    std::vector<std::uint8_t> pixels(256, 30);
    caffe::AnnotatedDatum record;
    record.set_type(caffe::AnnotatedDatum::BBOX);
    caffe::AnnotationGroup& group = *record.add_annotation_group();
    group.set_group_label(1 + i % 2);
    for (int k = 0; k < i % 3; ++k) {
      const int x = 8 * k + i % 3, y = i;
      for (int p = 0; p < 36; ++p) pixels[static_cast<std::size_t>((y + p / 6) * 16 + x + p % 6)] = 220;
      caffe::NormalizedBBox& box = *group.add_annotation()->mutable_bbox();
      box.set_xmin(static_cast<float>(x) / 16);
      box.set_ymin(static_cast<float>(y) / 16);
      box.set_xmax(static_cast<float>(x + 6) / 16);
      box.set_ymax(static_cast<float>(y + 6) / 16);
    }
    record.mutable_datum()->ParseFromString(raw_datum(1, 16, 16, pixels.data(), 0));
    writer.put(key_of(static_cast<std::uint64_t>(i)), record.SerializeAsString());
  }
  writer.close();
}

TrainingCase detection(const std::string& database) {
  TrainingCase of;
  of.solver =
      "base_lr: 0.002 momentum: 0.9 lr_policy: 'fixed' random_seed: 3 display: 0 snapshot_after_train: "
      "false ";
  of.net =
      "layer { name: 'a' type: 'AnnotatedData' top: 'data' top: 'truth' data_param { source: '" + database +
      "' batch_size: 4 batch_size_is_total: true shuffle: true } annotated_data_param { "
      "batch_sampler { sampler { min_scale: 0.6 } sample_constraint { min_jaccard_overlap: 0.1 } "
      "max_sample: 1 } } transform_param { mirror: true scale: 0.01 expand_param { max_expand_ratio: 1.5 } "
      "resize_param { height: 16 width: 16 interp_mode: LINEAR interp_mode: CUBIC } } } "
      "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { "
      "num_output: 6 kernel_size: 5 pad: 2 stride: 4 weight_filler { type: 'xavier' } } } "
      "layer { name: 'loc' type: 'Convolution' bottom: 'conv' top: 'loc' convolution_param { "
      "num_output: 8 kernel_size: 1 weight_filler { type: 'xavier' } } } "
      "layer { name: 'lp' type: 'Permute' bottom: 'loc' top: 'lp' permute_param { order: [0, 2, 3, 1] } } "
      "layer { name: 'lf' type: 'Flatten' bottom: 'lp' top: 'lf' } "
      "layer { name: 'conf' type: 'Convolution' bottom: 'conv' top: 'conf' convolution_param { "
      "num_output: 6 kernel_size: 1 weight_filler { type: 'xavier' } } } "
      "layer { name: 'cp' type: 'Permute' bottom: 'conf' top: 'cp' permute_param { order: [0, 2, 3, 1] } } "
      "layer { name: 'cf' type: 'Flatten' bottom: 'cp' top: 'cf' } "
      "layer { name: 'p' type: 'PriorBox' bottom: 'conv' bottom: 'data' top: 'priors' prior_box_param { "
      "min_size: 5 max_size: 9 variance: [0.1, 0.1, 0.2, 0.2] } } "
      "layer { name: 'loss' type: 'MultiBoxLoss' bottom: 'lf' bottom: 'cf' bottom: 'priors' "
      "bottom: 'truth' top: 'loss' multibox_loss_param { num_classes: 3 code_type: CENTER_SIZE } }";
  of.iterations = 100;
  return of;
}

TEST(AnnotatedTraining, TablesOfAnyLengthTrainAlikeOnOneAndTwoDevices) {
  FLAGS_minloglevel = 2;
  const TrainingFolder folder;
  const std::string database = folder.path() + "/db";
  make_database(database);
  Session one(options_of(detection(database), folder, 1)), two(options_of(detection(database), folder, 2));
  std::set<std::size_t> lengths;
  for (int k = 0; k < 12; ++k) {
    one.step(1);
    two.step(1);
    EXPECT_NEAR(one.metrics().loss, two.metrics().loss, 1e-4 * std::abs(one.metrics().loss)) << k;
    EXPECT_GT(one.metrics().loss, 0);
    lengths.insert(one.blob("truth").values.size() / 8);
  }
  EXPECT_GE(lengths.size(), 2u);
  const auto expected = one.parameter("conv", 0).values, found = two.parameter("conv", 0).values;
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4);
}

}  // namespace
}  // namespace banyan::data
