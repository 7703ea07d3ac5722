// What stands in for data that does not exist.
#include <gtest/gtest.h>

#include <fstream>

#include "banyan/io/prototxt.hpp"
#include "banyan/train/model.hpp"
#include "train/missing_data.hpp"

namespace banyan {
namespace {

using Shapes = std::map<std::string, Shape>;

/// The value that fills a blob which a source of its own makes, and which `readers` read.
float made_up(const std::string& readers) {
  caffe::NetParameter net = io::parse_net_text(
      "layer { name: 'x' type: 'Input' top: 'x' } layer { name: 'b' type: 'Input' top: 'b' } " + readers,
      "made.prototxt");
  make_up_data(net, {{"b", Shape{2}}});
  EXPECT_EQ(net.layer(0).type(), "Input");
  return net.layer(1).dummy_data_param().data_filler(0).value();
}

TEST(MadeUpData, IsZeroWhereNoGradientFlows) {
  const std::string loss = " name: 'l' bottom: 'x' bottom: 'b' }";
  const std::string silence = "layer { name: 's' type: 'Silence' bottom: 'b' } ";
  EXPECT_EQ(made_up("layer { type: 'SoftmaxWithLoss'" + loss), 0);
  EXPECT_EQ(made_up(silence + "layer { type: 'SoftmaxWithLoss'" + loss), 0);
  EXPECT_EQ(made_up("layer { type: 'Python' name: 'p' bottom: 'b' } layer { type: 'Accuracy'" + loss), 0);
  EXPECT_EQ(made_up("layer { name: 'e' type: 'Embed' bottom: 'b' }"), 0);
  EXPECT_EQ(made_up("layer { type: 'EuclideanLoss'" + loss), 0.5F);
  EXPECT_EQ(made_up("layer { type: 'Eltwise'" + loss), 0.5F);
  EXPECT_EQ(made_up(silence), 0);
  EXPECT_EQ(made_up(""), 0.5F);
}

/// Whoever reads the blob besides.
TEST(MadeUpData, IsZeroWhereNumbersOfClassesAreRead) {
  const std::string beside = "layer { name: 'r' type: 'Reduction' bottom: 'b' top: 'sum' } ";
  for (const char* reader :
       {"SoftmaxWithLoss' bottom: 'x' bottom: 'b'", "Accuracy' bottom: 'x' bottom: 'b'",
        "HingeLoss' bottom: 'x' bottom: 'b'", "CTCLoss' bottom: 'x' bottom: 'm' bottom: 'b'",
        "ContrastiveLoss' bottom: 'x' bottom: 'm' bottom: 'b'", "Embed' bottom: 'b'",
        "SegAccuracy' bottom: 'x' bottom: 'b'", "CenterLoss' bottom: 'x' bottom: 'b'",
        "LabelSpecificAdd' bottom: 'x' bottom: 'b'"})
    EXPECT_EQ(made_up(beside + "layer { name: 'l' type: '" + reader + " top: 'y' }"), 0) << reader;
  // Targets, or images, of which a net makes what it compares with them.
  for (const char* reader :
       {"SigmoidCrossEntropyLoss' bottom: 'x' bottom: 'b'",
        "SoftmaxCrossEntropyLoss' bottom: 'x' bottom: 'b'", "PriorBox' bottom: 'x' bottom: 'b'",
        "Crop' bottom: 'x' bottom: 'b'", "SoftmaxWithLoss' bottom: 'b' bottom: 'x'"})
    EXPECT_EQ(made_up(beside + "layer { name: 'l' type: '" + reader + " top: 'y' }"), 0.5F) << reader;
}

/// Labels of several tasks in one blob, images of labels in another size.
TEST(MadeUpData, IsZeroWhereLayersMakeLabelsOfIt) {
  const std::string losses =
      "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'part' } "
      "layer { name: 'm' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'other' } "
      "layer { name: 'p' type: 'Python' bottom: 'b' bottom: 'part' top: 'shown' } ";
  for (const char* moves :
       {"Slice' bottom: 'b' top: 'part' top: 'other'", "Split' bottom: 'b' top: 'part' top: 'more'",
        "Reshape' bottom: 'b' top: 'part'", "Flatten' bottom: 'b' top: 'part'",
        "Concat' bottom: 'b' bottom: 'c' top: 'part'", "Crop' bottom: 'b' bottom: 'c' top: 'part'",
        "Permute' bottom: 'b' top: 'part'", "Interp' bottom: 'b' top: 'part'",
        "Tile' bottom: 'b' top: 'part'", "Resize' bottom: 'b' top: 'part'",
        "Filter' bottom: 'c' bottom: 'b' bottom: 'd' top: 'no' top: 'part'",
        "Power' bottom: 'b' top: 'b' } layer { name: 's' type: 'Slice' bottom: 'b' top: 'part' top: 'more'"})
    EXPECT_EQ(made_up(losses + "layer { name: 'v' type: '" + moves + " }"), 0) << moves;
  const std::string silence = "layer { name: 's' type: 'Silence' bottom: 'part' } ",
                    slice = "layer { name: 'v' type: 'Slice' bottom: 'b' top: 'part' top: 'other' } ";
  EXPECT_EQ(made_up(slice + silence), 0);
  EXPECT_EQ(made_up(slice), 0.5F);
  EXPECT_EQ(made_up(slice + "layer { name: 'l' type: 'EuclideanLoss' bottom: 'x' bottom: 'part' } "), 0.5F);
  // Of images a net may make labels too, by layers that have no gradient.
  EXPECT_EQ(
      made_up("layer { name: 'c' type: 'Convolution' bottom: 'b' top: 'c' } layer { name: 'a' type: 'ArgMax' "
              "bottom: 'c' top: 'part' } layer { name: 'q' type: 'Python' bottom: 'c' top: 'other' } " +
              losses),
      0.5F);
  EXPECT_EQ(
      made_up("layer { name: 'f' type: 'Filter' bottom: 'b' bottom: 'c' bottom: 'd' top: 'no' top: 'part' } "
              "layer { name: 'k' type: 'Convolution' bottom: 'no' top: 'k' } " +
              losses),
      0.5F);
}

TEST(MadeUpData, TopsWithoutAShapeHaveTheEntriesOfTheFirstThatHasOne) {
  caffe::LayerParameter source;
  for (const char* top : {"a", "b", "c"}) source.add_top(top);
  const Shapes two = {{"a", Shape{4, 3}}, {"c", Shape{5}}, {"other", Shape{9}}};
  EXPECT_EQ(stand_in_shapes(source, two), (std::vector<Shape>{{4, 3}, Shape{4}, Shape{5}}));
  source.set_name("s");
  try {
    stand_in_shapes(source, {{"b", Shape{4, 3}}});
    ADD_FAILURE() << "images do not follow labels";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("the shape of \"b\", but not of \"a\", which layer \"s\""),
              std::string::npos);
  }
  EXPECT_TRUE(stand_in_shapes(source, {{"other", Shape{9}}}).empty());
}

TEST(MadeUpData, OtherBlobsOfAnInputKeepTheirShapes) {
  caffe::LayerParameter source;
  source.set_type("Input");
  for (const char* top : {"a", "b", "c"}) source.add_top(top);
  const auto add = [&](const Shape& shape) {
    caffe::BlobShape& added = *source.mutable_input_param()->add_shape();
    for (const std::int64_t dim : shape.dims()) added.add_dim(dim);
  };
  EXPECT_THROW(stand_in_shapes(source, {{"a", Shape{4, 5}}}), Error);  // it has none
  add(Shape{2, 5});
  EXPECT_EQ(stand_in_shapes(source, {{"a", Shape{4, 6}}}), (std::vector<Shape>{{4, 6}, {4, 5}, {4, 5}}));
  EXPECT_EQ(stand_in_shapes(source, {{"b", Shape{4, 5}}}), (std::vector<Shape>{{4, 5}, {4, 5}, {4, 5}}));
  add(Shape{2});
  add(Shape{1, 3});
  const Shapes two = {{"b", Shape{7}}, {"c", Shape{2, 3}}};
  EXPECT_EQ(stand_in_shapes(source, {{"a", Shape{4, 6}}}), (std::vector<Shape>{{4, 6}, Shape{4}, {1, 3}}));
  EXPECT_EQ(stand_in_shapes(source, two), (std::vector<Shape>{{7, 5}, Shape{7}, {2, 3}}));
}

TEST(MadeUpData, LabelsHaveTheFormThatTheirSourceGivesThem) {
  caffe::LayerParameter source;
  for (const char* top : {"a", "b", "c"}) source.add_top(top);
  const Shapes images = {{"a", Shape{4, 3, 5, 6}}};
  const Shape whole{4, 3, 5, 6};
  source.set_type("ImageSegData");
  EXPECT_EQ(stand_in_shapes(source, images), (std::vector<Shape>{whole, {4, 1, 5, 6}, {4, 1, 1, 2}}));
  source.set_type("DenseImageData");
  EXPECT_EQ(stand_in_shapes(source, images)[1], (Shape{4, 1, 5, 6}));
  source.mutable_dense_image_data_param()->set_label_divide_factor(2);
  EXPECT_EQ(stand_in_shapes(source, images)[1], (Shape{4, 1, 2, 3}));
  source.set_type("AnnotatedData");
  EXPECT_EQ(stand_in_shapes(source, images)[1], (Shape{1, 1, 1, 8}));
  source.mutable_annotated_data_param()->set_yolo_data_type(1);
  EXPECT_EQ(stand_in_shapes(source, images)[1], (Shape{4, 1, 300, 5}));
  source.set_type("BboxData");
  EXPECT_EQ(stand_in_shapes(source, images)[1], (Shape{4, 5}));
  source.set_type("ImageData");
  EXPECT_EQ(stand_in_shapes(source, images)[1], Shape{4});
  source.mutable_image_data_param()->set_label_dim(7);
  EXPECT_EQ(stand_in_shapes(source, images)[1], (Shape{4, 7}));
}

TEST(MadeUpData, NothingIsSavedWhereTheListsOfADetectorAreMissing) {
  const std::string here = BANYAN_SOURCE "/README.md";
  const auto net_of = [](const std::string& map, const std::string& sizes) {
    return io::parse_net_text(
        "layer { name: 'o' type: 'DetectionOutput' detection_output_param { num_classes: 2 save_output_param "
        "{ "
        "output_directory: 'out' output_format: 'VOC' label_map_file: '" +
            map + "' name_size_file: '" + sizes +
            "' } } include { phase: TEST } } layer { name: 'e' type: 'DetectionEvaluate' "
            "detection_evaluate_param { "
            "name_size_file: '" +
            sizes + "' } include { phase: TEST } }",
        "made.prototxt");
  };
  for (const caffe::Phase phase : {caffe::TEST, caffe::TRAIN}) {
    caffe::NetState state;
    state.set_phase(phase);
    caffe::NetParameter net = net_of(here, "none");
    testing::internal::CaptureStderr();
    drop_missing_files(net, state);
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.find("layer \"o\" (DetectionOutput): \"none\" does not exist") != std::string::npos,
              phase == caffe::TEST)
        << log;
    EXPECT_FALSE(net.layer(0).detection_output_param().has_save_output_param());
    EXPECT_EQ(net.layer(0).detection_output_param().num_classes(), 2u);
    EXPECT_FALSE(net.layer(1).detection_evaluate_param().has_name_size_file());
  }
  caffe::NetParameter whole = net_of(here, here);
  caffe::NetState state;
  state.set_phase(caffe::TEST);
  caffe::NetParameter too_long = net_of(here, std::string(300, 'x'));
  testing::internal::CaptureStderr();
  drop_missing_files(too_long, state);
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                " cannot be looked at (File name too long); it runs without, and saves nothing"),
            std::string::npos);
  drop_missing_files(whole, state);
  EXPECT_TRUE(whole.layer(0).detection_output_param().has_save_output_param());
  EXPECT_TRUE(whole.layer(1).detection_evaluate_param().has_name_size_file());
}

TEST(MadeUpData, BoxesLieInTheImagesThatADetectionNetGets) {
  const std::string text =
      "layer { name: 'd' type: 'Python' top: 'data' top: 'im_info' top: 'gt_boxes' python_param { module: "
      "'roi_data_layer.layer' layer: 'RoIDataLayer' param_str: '{boxes: 2}' } "
      "include { phase: TEST } }";
  caffe::NetParameter net = io::parse_net_text(text, "made.prototxt");
  const std::vector<Shape> given = stand_in_shapes(net.layer(0), {{"data", Shape{2, 3, 40, 80}}});
  EXPECT_EQ(given, (std::vector<Shape>{{2, 3, 40, 80}, {2, 3}, {2, 5}}));
  Shapes shapes, without_passes;
  caffe::NetState state;
  state.set_phase(caffe::TEST);
  add_missing_data(net, state, false, without_passes);
  EXPECT_TRUE(without_passes.empty());
  testing::internal::CaptureStderr();
  add_missing_data(net, state, true, shapes);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("a program fills its blobs; constant values"),
            std::string::npos);
  EXPECT_EQ(shapes, (Shapes{{"data", {1, 3, 608, 1024}}, {"im_info", {1, 3}}, {"gt_boxes", {2, 5}}}));
  make_up_data(net, {{"data", Shape{1, 3, 40, 80}}});
  ModelOptions options;
  options.model = testing::TempDir() + "boxes_" + std::to_string(::getpid()) + ".prototxt";
  options.keep_blobs = true;
  std::ofstream(options.model) << net.DebugString();
  Model model(options);
  Pass pass = model.next_pass();
  model.net().forward(pass);
  const auto values = [&](const char* blob) {
    return values_of(model.context(), model.net().find_blob(blob)->data).values;
  };
  EXPECT_EQ(values("im_info"), (std::vector<double>{40, 80, 1}));
  EXPECT_EQ(values("gt_boxes"), (std::vector<double>{20, 10, 60, 30, 1, 20, 10, 60, 30, 1}));
}

TEST(MadeUpData, OfPythonLayersFollowsTheImagesThatAreGiven) {
  const auto of = [](const std::string& code, const std::vector<std::string>& tops) {
    caffe::LayerParameter source =
        io::parse_net_text("layer { type: 'Python' python_param { " + code + " } }", "made.prototxt")
            .layer(0);
    for (const std::string& top : tops) source.add_top(top);
    return stand_in_shapes(source, {{tops[0], Shape{4, 3, 20, 30}}});
  };
  const Shape images{4, 3, 20, 30};
  EXPECT_EQ(of("module: 'voc_layers' layer: 'VOCSegDataLayer'", {"data", "label"}),
            (std::vector<Shape>{images, {4, 1, 20, 30}}));
  EXPECT_EQ(
      of("module: 'sequence_input_layer' layer: 'videoReadTrain_RGB'", {"data", "label", "clip_markers"}),
      (std::vector<Shape>{images, Shape{4}, Shape{4}}));
  EXPECT_EQ(of("module: 'roi_data_layer.layer' layer: 'RoIDataLayer'", {"data", "rois", "labels"}),
            (std::vector<Shape>{images, {128, 5}, Shape{128}}));
  EXPECT_EQ(of("module: 'other' layer: 'Other'", {"data", "label"}), (std::vector<Shape>{images, Shape{4}}));
  // Boxes do not follow the images, nor images the boxes, whatever their numbers.
  const std::string few =
      "module: 'roi_data_layer.layer' layer: 'RoIDataLayer' param_str: '{boxes: 1, height: 8, width: 9}'";
  EXPECT_EQ(of(few, {"data", "im_info", "gt_boxes"}), (std::vector<Shape>{images, {4, 3}, {1, 5}}));
  caffe::LayerParameter fast =
      io::parse_net_text(
          "layer { type: 'Python' top: 'data' top: 'rois' top: 'labels' top: 'bbox_targets' python_param { "
          "module: "
          "'roi_data_layer.layer' layer: 'RoIDataLayer' param_str: 'num_classes: 2' } }",
          "made.prototxt")
          .layer(0);
  EXPECT_EQ(stand_in_shapes(fast, {{"labels", Shape{7}}}),
            (std::vector<Shape>{{2, 3, 608, 1024}, {7, 5}, Shape{7}, {7, 8}}));
}

TEST(MadeUpData, OfMemoryDataFollowsWhatIsGiven) {
  const auto of = [](const std::string& tops) {
    return io::parse_net_text("layer { name: 'm' type: 'MemoryData' " + tops +
                                  " memory_data_param { batch_size: 2 "
                                  "channels: 1 height: 3 width: 4 } }",
                              "made.prototxt")
        .layer(0);
  };
  const caffe::LayerParameter memory = of("top: 'data' top: 'label'");
  EXPECT_EQ(stand_in_shapes(memory, {{"label", Shape{5}}}), (std::vector<Shape>{{5, 1, 3, 4}, Shape{5}}));
  EXPECT_EQ(stand_in_shapes(memory, {{"data", Shape{6, 3, 7, 8}}}),
            (std::vector<Shape>{{6, 3, 7, 8}, Shape{6}}));
  EXPECT_EQ(shapes_to_fill(memory, Phase::train), (std::vector<Shape>{{2, 1, 3, 4}, Shape{2}}));
  caffe::LayerParameter volumes = memory;
  for (const unsigned length : {2, 1, 3, 4, 5}) volumes.mutable_memory_data_param()->add_dim(length);
  EXPECT_EQ(shapes_to_fill(volumes, Phase::train), (std::vector<Shape>{{2, 1, 3, 4, 5}, Shape{2}}));
  EXPECT_TRUE(shapes_to_fill(of("top: 'data'"), Phase::train).empty());  // which it refuses
  EXPECT_TRUE(shapes_to_fill(of("top: 'a' top: 'b' top: 'c'"), Phase::train).empty());
}

TEST(MadeUpData, WithoutPassesNoLayersAreAdded) {
  const std::string text =
      "layer { name: 'd' type: 'Python' top: 'data' top: 'im_info' python_param { module: "
      "'roi_data_layer.layer' layer: 'RoIDataLayer' } }";
  for (const bool passes : {false, true}) {
    caffe::NetParameter net = io::parse_net_text(text, "made.prototxt");
    make_up_data(net, {{"data", Shape{1, 3, 40, 80}}}, passes);
    EXPECT_EQ(net.layer_size(), passes ? 2 : 1);
  }
}

TEST(MissingData, ShapesFollowFromSettings) {
  const auto shape_of = [](const std::string& settings) {
    const auto net = io::parse_net_text("layer { name: 'd' type: 'ImageData' top: 'd' " + settings + " }",
                                        "made.prototxt");
    return shape_of_missing(net.layer(0));
  };
  const std::string resized = "image_data_param { source: 'list' batch_size: 4 new_height: 6 new_width: 5 }";
  EXPECT_EQ(shape_of(resized), (Shape{4, 3, 6, 5}));
  EXPECT_EQ(shape_of(resized + " transform_param { crop_size: 3 }"), (Shape{4, 3, 3, 3}));
  EXPECT_EQ(
      shape_of("image_data_param { source: 'list' batch_size: 4 } transform_param { crop_h: 2 crop_w: 3 }"),
      (Shape{4, 3, 2, 3}));
  EXPECT_EQ(shape_of("image_data_param { source: 'list' batch_size: 4 }").axes(), 0);
  EXPECT_EQ(shape_of("image_data_param { batch_size: 4 new_height: 6 new_width: 5 }").axes(), 0);
  for (const bool gray : {false, true}) {
    const auto dense = io::parse_net_text(
        std::string("layer { name: 'd' type: 'DenseImageData' top: 'd' top: 'l' dense_image_data_param { "
                    "source: 'list' batch_size: 4 new_height: 6 new_width: 5 ") +
            (gray ? "is_color: false } }" : "} }"),
        "made.prototxt");
    EXPECT_EQ(shape_of_missing(dense.layer(0)), (Shape{4, gray ? 1 : 3, 6, 5}));
  }
  const auto clips = io::parse_net_text(
      "layer { name: 'd' type: 'VideoData' top: 'd' video_data_param { source: 'list' batch_size: 4 "
      "new_length: 16 new_height: 6 new_width: 5 use_image: true } }",
      "made.prototxt");
  EXPECT_EQ(shape_of_missing(clips.layer(0)), (Shape{4, 3, 16, 6, 5}));
}

TEST(MissingData, ShapesOfDocumentsFollowFromTheirTransformations) {
  const auto source = [](const std::string& transforms, const std::string& documents = "") {
    return io::parse_net_text(
               "layer { name: 'd' type: 'DocData' top: 'd' top: 'l' doc_data_param { sources: '/' sources: "
               "'/none' batch_size: 4 label_names: 'collection' " +
                   documents + " } image_transform_param { " + transforms + " } }",
               "documents.prototxt")
        .layer(0);
  };
  const auto shape_of = [&](const std::string& transforms) { return shape_of_missing(source(transforms)); };
  EXPECT_EQ(missing_source(source("")), "/none");
  EXPECT_EQ(shape_of("").axes(), 0);
  EXPECT_EQ(shape_of("params { crop_params { size: 230 } }"), (Shape{4, 3, 230, 230}));
  const std::string resize = "params { resize_params { width: 80 width: 96 height: 60 } } ";
  EXPECT_EQ(shape_of(resize), (Shape{4, 3, 60, 80}));
  EXPECT_EQ(shape_of(resize + "params { crop_params { size_perc: 0.5 } }"), (Shape{4, 3, 30, 40}));
  EXPECT_EQ(shape_of(resize + "params { linear_params { scale: 2 shift: 1 shift: 2 } }"),
            (Shape{4, 2, 60, 80}));
  EXPECT_EQ(shape_of("params { linear_params { scale: 2 shift: 1 } }").axes(), 0);
  EXPECT_EQ(shape_of("params { crop_params { width: 2 } }").axes(), 0);  // which the layer refuses
  EXPECT_EQ(stand_in_shapes(source(resize), {{"d", Shape{4, 3, 60, 80}}}),
            (std::vector<Shape>{{4, 3, 60, 80}, Shape{4}}));
}

/// The size is that of what is cut out.
TEST(MadeUpData, OfPartsOfDenseImagesHasTheirSize) {
  const caffe::NetParameter net = io::parse_net_text(
      "layer { name: 'd' type: 'DenseImageData' top: 'a' top: 'b' dense_image_data_param { source: 'list' "
      "batch_size: 2 new_height: 40 new_width: 50 crop_height: 30 crop_width: 20 } }",
      "made.prototxt");
  EXPECT_EQ(shape_of_missing(net.layer(0)), (Shape{2, 3, 30, 20}));
}

TEST(MadeUpData, StandsInForACamera) {
  const caffe::NetParameter net = io::parse_net_text(
      "layer { name: 'd' type: 'VideoData' top: 'a' data_param { batch_size: 2 } video_data_param { "
      "video_type: WEBCAM device_id: 3 } transform_param { resize_param { height: 30 width: 20 } } }",
      "made.prototxt");
  Shapes shapes;
  testing::internal::CaptureStderr();
  add_missing_data(net, net.state(), true, shapes);
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_EQ(shapes, (Shapes{{"a", Shape{2, 3, 30, 20}}}));
  EXPECT_NE(logged.find("camera 3 cannot be read: cameras are not supported; constant values take its place"),
            std::string::npos)
      << logged;
}

/// The shapes of one phase's sources say nothing of the other's, which may make blobs of the same names.
TEST(MadeUpData, IsOfTheLayersOfTheStateOnly) {
  const caffe::NetParameter net = io::parse_net_text(
      "layer { name: 'a' type: 'Input' top: 'source' top: 'label' include { phase: TRAIN } }\n"
      "layer { name: 'b' type: 'Data' top: 'data' top: 'label' include { phase: TEST } }\n"
      "layer { name: 'c' type: 'Data' top: 'more' include { phase: TRAIN stage: 's' } }\n"
      "layer { name: 'd' type: 'Power' bottom: 'source' top: 'data' include { phase: TRAIN } }",
      "made.prototxt");
  const Shapes shapes = {{"source", Shape{2, 3}}, {"label", Shape{2}}};
  caffe::NetState state;
  state.set_phase(caffe::TRAIN);
  caffe::NetParameter train = net, all = net;
  EXPECT_EQ(make_up_data(train, shapes, true, &state).size(), 1u);
  EXPECT_EQ(train.layer(0).type(), "DummyData");
  EXPECT_EQ(train.layer(1).type(), "Data");
  EXPECT_THROW(make_up_data(all, shapes), Error);
  // Blobs of the other phase may be given with those of this one.
  caffe::NetParameter test = net;
  state.set_phase(caffe::TEST);
  EXPECT_EQ(
      make_up_data(test, {{"source", Shape{2, 3}}, {"data", Shape{2, 3}}, {"more", Shape{1}}}, true, &state)
          .size(),
      1u);
  EXPECT_EQ(test.layer(1).type(), "DummyData");
  EXPECT_THROW(make_up_data(test, {{"none", Shape{2}}}, true, &state), Error);
}

TEST(MadeUpData, StandsInForSourcesOfBranchesAndSaysWhatTheyAre) {
  caffe::NetParameter net = io::parse_net_text(
      "layer { name: 'dense' type: 'DenseImageData' top: 'a' dense_image_data_param { source: 'list' "
      "label_divide_factor: 8 } }\n"
      "layer { name: 'video' type: 'VideoData' top: 'b' image_data_param { source: 'list' new_length: 16 } "
      "}\n"
      "layer { name: 'image' type: 'ImageData' top: 'c' image_data_param { source: 'list' use_image: true } "
      "}",
      "made.prototxt");
  testing::internal::CaptureStderr();
  make_up_data(net, {{"a", Shape{2}}, {"b", Shape{2}}, {"c", Shape{2}}});
  const std::string logged = testing::internal::GetCapturedStderr();
  for (const auto& layer : net.layer()) EXPECT_EQ(layer.type(), "DummyData");
  for (const char* part : {"dense_image_data_param.batch_size must be", "use_image must be given",
                           "has settings of C3D's VIDEO_DATA"})
    EXPECT_NE(logged.find(part), std::string::npos) << part << "\n" << logged;
}

}  // namespace
}  // namespace banyan
