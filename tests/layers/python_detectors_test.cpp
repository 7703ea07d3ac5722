// The layers in Python of SSH, CTPN and RON: their settings, and their results against plain loops.
#include <gmock/gmock.h>

#include <numeric>
#include <set>

#include "layers/anchors.hpp"
#include "layers/bench.hpp"
#include "layers/python_layers.hpp"

namespace banyan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string in_python(const std::string& module, const std::string& layer, const std::string& settings) {
  return cat("type: 'Python' python_param { module: '", module, "' layer: '", layer, "' param_str: \"",
             settings, "\" }");
}
std::string ssh_proposal_text(const std::string& settings) {
  return in_python("SSH.layers.proposal_layer", "ProposalLayer", settings);
}
std::string ssh_targets_text(const std::string& settings) {
  return in_python("SSH.layers.anchor_target_layer", "AnchorTargetLayer", settings);
}
std::string ctpn_text(const std::string& settings = "'feat_stride': 16") {
  return in_python("layers.text_proposal_layer", "ProposalLayer", settings);
}
std::string ron_text(const std::string& settings) {
  return in_python("ron_layer.det_layer", "DetLayer", settings);
}
caffe::LayerParameter native_of(const std::string& text, Phase phase = Phase::test) {
  return native_layer(layer_from_text(text), phase).value();
}
std::string why_not(const std::string& text, const std::vector<Shape>& inputs = {}) {
  try {
    if (inputs.empty())
      native_of(text);
    else
      Bench(text, inputs, 2);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(SshProposal, SuppressesInTrainingOnly) {
  const std::string text = ssh_proposal_text("{'feat_stride': 32,'scales': [16,32], 'ratios':[1,]}");
  const caffe::LayerParameter train = native_of(text, Phase::train), test = native_of(text);
  EXPECT_EQ(test.type(), "Proposal");
  EXPECT_FALSE(test.has_python_param());
  EXPECT_EQ(test.proposal_param().feat_stride(), 32u);
  EXPECT_THAT(test.proposal_param().scale(), ElementsAre(16, 32));
  EXPECT_THAT(test.proposal_param().ratio(), ElementsAre(1));
  for (const auto* layer : {&train, &test}) EXPECT_EQ(layer->proposal_param().pre_nms_topn(), 1000u);
  EXPECT_EQ(test.proposal_param().nms_thresh(), 1);
  EXPECT_EQ(test.proposal_param().post_nms_topn(), 0u);
  EXPECT_EQ(test.proposal_param().min_size(), 0u);
  EXPECT_EQ(train.proposal_param().nms_thresh(), 0.3f);
  EXPECT_EQ(train.proposal_param().post_nms_topn(), 300u);
  EXPECT_EQ(train.proposal_param().min_size(), 4u);

  // Anchors of 32 x 32 pixels at 0 and 4: they overlap by 28 / 36.
  const auto scores = [](Phase phase, const std::string& more) {
    BenchOptions options;
    options.phase = phase;
    Bench bench(ssh_proposal_text("{feat_stride: 4, scales: [2], ratios: [1]" + more + "}"),
                {Shape{1, 2, 1, 3}, Shape{1, 4, 1, 3}, Shape{1, 3}}, 2, options);
    bench.set_input(0, {0.5, 0.25, 0.75, 0.5, 0.75, 0.25});
    bench.set_input(1, Values(12, 0));
    bench.set_input(2, {100, 100, 1});
    bench.forward();
    return bench.output(1);
  };
  EXPECT_EQ(scores(Phase::test, ""), (Values{0.75, 0.5, 0.25}));
  EXPECT_EQ(scores(Phase::test, ", pre_nms_topn: 2"), (Values{0.75, 0.5}));
  EXPECT_EQ(scores(Phase::train, ""), (Values{0.75, 0, 0})) << "the rest repeats the first";
}

/// What SSH's layer says of its anchors, in plain loops.
Values ssh_labels(const std::vector<Box>& anchors, const std::vector<Box>& truth, const Values& objects,
                  double border, double width, double height, std::size_t batch) {
  std::vector<std::size_t> inside;
  for (std::size_t i = 0; i < anchors.size(); ++i) {
    const Box& a = anchors[i];
    if (a.x1 >= -border && a.y1 >= -border && a.x2 < width + border && a.y2 < height + border)
      inside.push_back(i);
  }
  if (inside.empty())
    for (std::size_t i = 0; i < anchors.size(); ++i) inside.push_back(i);
  Values labels(anchors.size(), -1);
  std::vector<std::pair<double, std::size_t>> of[2];
  for (const std::size_t i : inside) {
    double most = 0;
    for (const Box& box : truth) most = std::max(most, overlap(anchors[i], box, Corners::pixels));
    if (most >= 0.5)
      of[1].emplace_back(objects[i], i);
    else if (most < 0.3)
      of[0].emplace_back(-objects[i], i);
  }
  std::size_t left = batch / 4;
  for (const int label : {1, 0}) {
    std::sort(of[label].begin(), of[label].end());
    if (of[label].size() > left) of[label].resize(left);
    for (const auto& [score, i] : of[label]) labels[i] = label;
    left = batch - of[1].size();
  }
  return labels;
}

TEST(SshAnchorTarget, TakesTheHardestAnchors) {
  const std::int64_t side = 6, each = 2;
  const std::vector<Box> truth = {{3, 5, 20, 21}, {40, 38, 57, 60}, {30, 2, 61, 35}};
  AnchorGrid grid{.base = base_anchors(8, {1}, {2, 4}), .stride = 10, .rows = side, .columns = side};
  const std::vector<Box> anchors = grid.all();
  const auto count = static_cast<std::int64_t>(anchors.size());
  std::set<double> found;
  for (const double border : {0.0, 5.0, 512.0})
    for (const std::int64_t batch : {8, 20, 256})
      for (unsigned seed = 0; seed < 5; ++seed) {
        const Values objects = spread_values(count, seed);
        Bench bench(
            ssh_targets_text(cat("{'feat_stride': 10, 'base_size': 8, 'scales': [2,4], 'ratios':[1,], "
                                 "'allowed_border': ",
                                 border, ", 'batch_size': ", batch, "}")),
            {Shape{1, 2 * each, side, side}, Shape{3, 5}, Shape{1, 3}, Shape{1, 3, 60, 60},
             Shape{1, 2 * each, side, side}},
            4);
        Values boxes, scores(static_cast<std::size_t>(2 * count)), expected(objects.size());
        for (const Box& box : truth) boxes.insert(boxes.end(), {box.x1, box.y1, box.x2, box.y2, 1});
        const Values labels = ssh_labels(anchors, truth, objects, border, 60, 60, batch);
        grid.visit([&](int index, std::int64_t anchor, std::int64_t position) {
          scores[(each + anchor) * side * side + position] = objects[index];
          expected[anchor * side * side + position] = labels[index];
        });
        bench.set_input(1, boxes);
        bench.set_input(2, {60, 60, 1});
        bench.set_input(4, scores);
        bench.forward();
        EXPECT_EQ(bench.output(), expected) << border << " " << batch << " " << seed;
        found.insert(labels.begin(), labels.end());
        // The inside weights are those of the objects; the outside weights of all that count.
        const Values inside = bench.output(2), outside = bench.output(3);
        const auto objects_found = std::count(labels.begin(), labels.end(), 1);
        EXPECT_EQ(std::count(inside.begin(), inside.end(), 1), 4 * objects_found);
        EXPECT_NEAR(std::accumulate(outside.begin(), outside.end(), 0.0), 4, 1e-12);
      }
  EXPECT_EQ(found, (std::set<double>{-1, 0, 1}));
}

/// The labels of one anchor of 10 x 10 pixels for each of 2 x 2 positions.
Values labels_of_four(const std::string& text, const Values& truth, const Values& info = {20, 20, 1}) {
  Bench bench(text, {Shape{1, 2, 2, 2}, Shape{static_cast<std::int64_t>(truth.size()) / 5, 5}, Shape{1, 3}},
              4);
  bench.set_input(1, truth);
  bench.set_input(2, info);
  bench.forward();
  return bench.output();
}

TEST(SshAnchorTarget, FollowsOverlapsAlone) {
  const std::string keys = "feat_stride: 10, base_size: 10, ratios: [1], scales: [1]";
  const std::string ssh = ssh_targets_text("{" + keys + "}");
  const std::string faster = in_python("rpn.anchor_target_layer", "AnchorTargetLayer", "{" + keys + "}");
  // Overlaps of 50 / 150 with the first two anchors.
  EXPECT_EQ(labels_of_four(faster, {5, 0, 14, 9, 1}), (Values{1, 1, 0, 0}));
  EXPECT_EQ(labels_of_four(ssh, {5, 0, 14, 9, 1}), (Values{-1, -1, 0, 0}));
  // 60 / 100 with the first.
  EXPECT_EQ(labels_of_four(ssh, {0, 0, 9, 5, 1}), (Values{1, 0, 0, 0}));
  EXPECT_EQ(labels_of_four(ssh_targets_text("{" + keys + ", positive_overlap: 0.7}"), {0, 0, 9, 5, 1}),
            (Values{-1, 0, 0, 0}));
  // No anchor lies in an image of 8 x 8 pixels.
  EXPECT_EQ(labels_of_four(faster, {0, 0, 7, 7, 1}, {8, 8, 1}), Values(4, -1));
  EXPECT_EQ(labels_of_four(ssh, {0, 0, 7, 7, 1}, {8, 8, 1}), (Values{1, 0, 0, 0}));
}

TEST(AnchorTarget, TakesProbabilitiesOfTheSameShapeOnly) {
  const std::string text =
      "type: 'AnchorTarget' anchor_target_param { base_size: 10 ratio: 1 scale: 1 batch_size: 2 }";
  const Shape map{1, 2, 2, 2}, image{1, 3, 20, 20};
  EXPECT_THAT(why_not(text, {map, Shape{1, 5}, Shape{1, 3}, image, Shape{1, 2, 2, 3}}),
              HasSubstr("\"input4\" is 1 2 2 3 (12) and \"input0\" 1 2 2 2 (8); expected the same shape"));
  // What is no number is taken last.
  Bench bench(
      "type: 'AnchorTarget' anchor_target_param { feat_stride: 10 base_size: 10 ratio: 1 scale: 1 "
      "batch_size: 2 }",
      {map, Shape{1, 5}, Shape{1, 3}, image, map}, 4);
  bench.set_input(1, {0, 0, 9, 9, 1});
  bench.set_input(2, {20, 20, 1});
  bench.set_input(4, {0, 0, 0, 0, 0.5, std::nan(""), 0.1, 0.2});
  bench.forward();
  EXPECT_EQ(bench.output(), (Values{1, -1, -1, 0}));
}

TEST(SshAnchorTarget, TakesImagesTogetherOrOneByOne) {
  const std::string text =
      ssh_targets_text("{feat_stride: 10, base_size: 10, ratios: [1], scales: [1], batch_size: 4}");
  const Values boxes{0, 0, 9, 9, 1, 10, 10, 19, 19, 1}, infos{30, 30, 1, 30, 20, 1};
  const Values scores = spread_values(36, 3);
  const auto outputs = [&](std::int64_t first, std::int64_t images) {
    const auto part = [&](const Values& all, std::int64_t length) {
      return Values(all.begin() + first * length, all.begin() + (first + images) * length);
    };
    const Shape map{images, 2, 3, 3};
    Bench bench(text, {map, Shape{images, 1, 5}, Shape{images, 3}, Shape{images, 3, 30, 30}, map}, 4);
    bench.set_input(1, part(boxes, 5));
    bench.set_input(2, part(infos, 3));
    bench.set_input(4, part(scores, 18));
    bench.forward();
    std::vector<Values> all;
    for (std::size_t i = 0; i < 4; ++i) all.push_back(bench.output(i));
    return all;
  };
  std::vector<Values> joined = outputs(0, 1);
  const std::vector<Values> second = outputs(1, 1);
  for (std::size_t i = 0; i < 4; ++i) joined[i].insert(joined[i].end(), second[i].begin(), second[i].end());
  EXPECT_EQ(outputs(0, 2), joined);
}

TEST(TextProposal, HasTheAnchorsOfCtpn) {
  const caffe::LayerParameter layer = native_of(ctpn_text());
  EXPECT_EQ(layer.type(), "TextProposal");
  EXPECT_FALSE(layer.has_python_param());
  const auto& corners = layer.proposal_param().anchor();
  ASSERT_EQ(corners.size(), 40);
  std::vector<float> heights;
  for (int i = 0; i < 40; i += 4) {
    EXPECT_EQ(corners[i], 0);
    EXPECT_EQ(corners[i + 2], 15);
    heights.push_back(corners[i + 3] - corners[i + 1] + 1);
  }
  EXPECT_THAT(heights, ElementsAre(11, 16, 22, 32, 48, 68, 96, 138, 198, 282));
  EXPECT_EQ(corners[1], 2);
  EXPECT_EQ(corners[37], -133);
  EXPECT_EQ(native_of(ctpn_text("{feat_stride: 8, scales: [1], ratios: [1]}")).proposal_param().anchor_size(),
            0);
}

TEST(TextProposal, MovesAnchorsAlongTheVertical) {
  const std::int64_t rows = 3, columns = 4, each = 10, positions = rows * columns, images = 2;
  Bench bench(
      ctpn_text(),
      {Shape{images, 2 * each, rows, columns}, Shape{images, 2 * each, rows, columns}, Shape{images, 3}}, 2);
  const auto corners = native_of(ctpn_text()).proposal_param().anchor();
  const Values scores = spread_values(2 * images * each * positions, 1),
               shifts = spread_values(2 * images * each * positions, 2);
  bench.set_input(0, scores);
  bench.set_input(1, shifts);
  bench.set_input(2, {44, 60, 1, 300, 400, 1});
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{images * each * positions, 4}));
  EXPECT_EQ(bench.outputs[1]->shape, (Shape{images * each * positions, 1}));
  Values boxes, probabilities;
  for (std::int64_t n = 0; n < images; ++n)
    for (std::int64_t y = 0; y < rows; ++y)
      for (std::int64_t x = 0; x < columns; ++x)
        for (std::int64_t a = 0; a < each; ++a) {
          const auto at = [&](std::int64_t channel) {
            return ((n * 2 * each + channel) * rows + y) * columns + x;
          };
          probabilities.push_back(scores[at(each + a)]);
          const double first = corners[static_cast<int>(4 * a + 1)] + 16.0 * static_cast<double>(y),
                       last = corners[static_cast<int>(4 * a + 3)] + 16.0 * static_cast<double>(y);
          const double tall = std::exp(shifts[at(2 * a + 1)]) * (last - first + 1);
          const double top = shifts[at(2 * a)] * (last - first + 1) + (first + last) / 2 - tall / 2;
          const double right = n == 0 ? 59 : 399, below = n == 0 ? 43 : 299;
          boxes.insert(
              boxes.end(),
              {std::min(16.0 * static_cast<double>(x), right), std::clamp(top, 0.0, below),
               std::min(16.0 * static_cast<double>(x) + 15, right), std::clamp(top + tall, 0.0, below)});
        }
  EXPECT_EQ(bench.output(1), probabilities);
  expect_near(bench.output(0), boxes, 1e-10);
}

TEST(AnchorBoxes, HasTheSettingsOfRon) {
  const caffe::LayerParameter layer = native_of(ron_text("'stride_scale_numcls': 64,7,21"));
  EXPECT_EQ(layer.type(), "AnchorBoxes");
  const caffe::ProposalParameter& settings = layer.proposal_param();
  EXPECT_EQ(settings.feat_stride(), 64u);
  EXPECT_EQ(settings.base_size(), 32u);
  EXPECT_THAT(settings.scale(), ElementsAre(7, 8));
  EXPECT_THAT(settings.ratio(), ElementsAre(0.333f, 0.5f, 1, 2, 3));
  EXPECT_EQ(
      native_of(ron_text("'stride_scale_numcls': 8,1,2\\n'base_size': 38")).proposal_param().base_size(),
      38u);
  EXPECT_THAT(why_not(ron_text("")), HasSubstr("param_str needs stride_scale_numcls"));
  EXPECT_THAT(why_not(ron_text("'stride': 8")), HasSubstr("known are stride_scale_numcls, base_size"));
  for (const char* numbers : {"64,7", "64,7,21,3", "64,x,21", "0,7,21", "[64, 7, 21]", "64,-7,21", "64"})
    EXPECT_THAT(why_not(ron_text(cat("'stride_scale_numcls': ", numbers))),
                HasSubstr("stride_scale_numcls must be three whole numbers as 64,7,21"))
        << numbers;
}

TEST(AnchorBoxes, AreThoseOfAllAnchors) {
  const std::int64_t rows = 2, columns = 3, each = 10, classes = 4, positions = rows * columns, images = 2;
  Bench bench(ron_text("'stride_scale_numcls': 16,3,4"),
              {Shape{images, 2 * each, rows, columns}, Shape{images, classes, each * rows, columns},
               Shape{images, 4 * each, rows, columns}},
              2);
  const Values objects = spread_values(2 * images * each * positions, 1),
               of_classes = spread_values(images * classes * each * positions, 2),
               shifts = spread_values(4 * images * each * positions, 3);
  bench.set_input(0, objects);
  bench.set_input(1, of_classes);
  bench.set_input(2, shifts);
  bench.forward();
  EXPECT_EQ(bench.outputs[0]->shape, (Shape{images, positions * each, 4}));
  EXPECT_EQ(bench.outputs[1]->shape, (Shape{images, positions * each, classes}));
  const std::vector<Box> base = base_anchors(32, {0.333f, 0.5, 1, 2, 3}, {3, 4});
  Values boxes, scores;
  for (std::int64_t n = 0; n < images; ++n)
    for (std::int64_t y = 0; y < rows; ++y)
      for (std::int64_t x = 0; x < columns; ++x)
        for (std::int64_t a = 0; a < each; ++a) {
          const auto shift = [&](std::int64_t i) {
            return shifts[((n * 4 * each + 4 * a + i) * rows + y) * columns + x];
          };
          const Box& anchor = base[a];
          const double width = anchor.x2 - anchor.x1 + 1, height = anchor.y2 - anchor.y1 + 1;
          const double middle_x = anchor.x1 + 16.0 * static_cast<double>(x) + (0.5 + shift(0)) * width,
                       middle_y = anchor.y1 + 16.0 * static_cast<double>(y) + (0.5 + shift(1)) * height;
          const double wide = width * std::exp(shift(2)), tall = height * std::exp(shift(3));
          boxes.insert(boxes.end(),
                       {middle_x - wide / 2, middle_y - tall / 2, middle_x + wide / 2, middle_y + tall / 2});
          scores.push_back(objects[((n * 2 * each + each + a) * rows + y) * columns + x]);
          for (std::int64_t c = 1; c < classes; ++c)
            scores.push_back(of_classes[((n * classes + c) * each * rows + a * rows + y) * columns + x]);
        }
  expect_near(bench.output(0), boxes, 1e-10);
  EXPECT_EQ(bench.output(1), scores);
}

TEST(AnchorBoxes, RefuseWhatDoesNotFit) {
  const std::string one = "proposal_param { base_size: 10 ratio: 1 scale: 1 ";
  const Shape two{1, 2, 3, 3}, four{1, 4, 3, 3}, info{1, 3};
  EXPECT_THAT(why_not("type: 'TextProposal' " + one + "min_size: 3 }", {two, two, info}),
              HasSubstr("keeps all boxes: min_size"));
  EXPECT_THAT(why_not("type: 'TextProposal' " + one + "bbox_std: 3 }", {two, two, info}),
              HasSubstr("bbox_mean and bbox_std are for shifts of four numbers"));
  EXPECT_THAT(why_not("type: 'TextProposal' " + one + "}", {two, four, info}), HasSubstr("2 x 1 channels"));
  EXPECT_THAT(why_not("type: 'TextProposal' " + one + "}", {two, Shape{1, 2, 3, 4}, info}),
              HasSubstr("the same batch, height and width"));
  EXPECT_THAT(why_not("type: 'TextProposal' " + one + "}", {two, two, Shape{2, 3}}), HasSubstr("1 x 3"));
  EXPECT_THAT(why_not("type: 'AnchorBoxes' " + one + "}", {two, two, two}), HasSubstr("4 x 1 channels"));
  EXPECT_THAT(why_not("type: 'AnchorBoxes' " + one + "}", {two, Shape{1, 5, 6, 3}, four}),
              HasSubstr("\"input1\" is 1 5 6 3 (90); expected 1 x classes x 3 x 3"));
  EXPECT_EQ(why_not("type: 'AnchorBoxes' " + one + "}", {two, Shape{1, 5, 3, 3}, four}), "");
}

TEST(PythonData, OfCaptionsAreFilledByAProgram) {
  const auto text = [](const std::string& settings) {
    return in_python("python_data_layers", "featureDataLayer", settings) + " top: 'features' top: 'labels'";
  };
  const caffe::LayerParameter layer =
      native_of(text("{'batch_size': 100, 'extracted_features': '/z/x.h5', 'image_list': '/z/l.txt', "
                     "'feature_size': 471 }"));
  EXPECT_EQ(layer.type(), "Input");
  ASSERT_EQ(layer.input_param().shape_size(), 2);
  EXPECT_THAT(layer.input_param().shape(0).dim(), ElementsAre(100, 471));
  EXPECT_THAT(layer.input_param().shape(1).dim(), ElementsAre(100, 1));
  EXPECT_THAT(why_not(text("{'batch_size': 100}")), HasSubstr("param_str needs batch_size and feature_size"));
  EXPECT_THAT(why_not(text("{'batch_size': 0}")), HasSubstr("batch_size must be a whole number from 1"));
}

TEST(LossMeter, HasNoEffect) {
  const caffe::LayerParameter layer =
      native_of(in_python("caffe_traininglayers", "LossMeterLayer", "./log 1000 1000"));
  EXPECT_EQ(layer.type(), "Silence");
  EXPECT_FALSE(layer.has_python_param());
}

}  // namespace
}  // namespace banyan::testing
