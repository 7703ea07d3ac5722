// Nets of YOLO's branches, written as what is here.
#include "banyan/io/prototxt.hpp"
#include "banyan/io/upgrade.hpp"
#include "io_test_tools.hpp"

namespace banyan::io {
namespace {

std::string of_yolo(const std::string& text) {
  caffe::NetParameter net = parse_net_text(text, "test");
  upgrade_net(net, "test");
  return to_text(net);
}

std::string as_written(const std::string& text) { return to_text(parse_net_text(text, "test")); }

TEST(UpgradeYolo, ADetectionOutputWithBiasesIsYolosAndItsClassesCountFrom0) {
  const std::string other =
      "layer { name: 'ssd' type: 'DetectionOutput' bottom: 'a' bottom: 'b' bottom: 'c' top: 'd' "
      "detection_output_param { num_classes: 9 confidence_threshold: 0.1 } }\n"
      "layer { name: 'right' type: 'DetectionEvaluate' bottom: 'd' bottom: 'l' detection_evaluate_param { "
      "num_classes: 9 } }\n";
  EXPECT_EQ(
      of_yolo("layer { name: 'f' type: 'DetectionOutput' bottom: 'x' top: 'f' detection_output_param { "
              "num_classes: 9 coords: 4 side: 13 num_box: 1 confidence_threshold: 0.01 nms_threshold: 0.4 "
              "biases: [1.5, 2.5] } }\n"
              "layer { name: 'e' type: 'DetectionEvaluate' bottom: 'f' bottom: 'l' "
              "detection_evaluate_param { num_classes: 9 } }\n"
              "layer { name: 'g' type: 'DetectionEvaluate' bottom: 'f' bottom: 'l' "
              "detection_evaluate_param { num_classes: 10 } }\n" +
              other),
      as_written("layer { name: 'f' type: 'YoloDetectionOutput' bottom: 'x' top: 'f' "
                 "yolo_detection_output_param { num_classes: 9 num_box: 1 coords: 4 confidence_threshold: "
                 "0.01 nms_threshold: 0.4 biases: [1.5, 2.5] } }\n"
                 "layer { name: 'e' type: 'DetectionEvaluate' bottom: 'f' bottom: 'l' "
                 "detection_evaluate_param { num_classes: 10 } }\n"
                 "layer { name: 'g' type: 'DetectionEvaluate' bottom: 'f' bottom: 'l' "
                 "detection_evaluate_param { num_classes: 10 } }\n" +
                 other));
}

TEST(UpgradeYolo, ADetectionEvaluateWithoutClassesHasThoseOfYoloAndTheBackground) {
  EXPECT_EQ(of_yolo("layer { name: 'f' type: 'DetectionOutput' bottom: 'x' top: 'f' detection_output_param { "
                    "num_classes: 9 biases: [1.5, 2.5] } }\n"
                    "layer { name: 'e' type: 'DetectionEvaluate' bottom: 'f' bottom: 'l' }"),
            as_written("layer { name: 'f' type: 'YoloDetectionOutput' bottom: 'x' top: 'f' "
                       "yolo_detection_output_param { num_classes: 9 biases: [1.5, 2.5] } }\n"
                       "layer { name: 'e' type: 'DetectionEvaluate' bottom: 'f' bottom: 'l' "
                       "detection_evaluate_param { num_classes: 10 } }"));
}

TEST(UpgradeYolo, BoxDataIsAnnotatedData) {
  EXPECT_EQ(
      of_yolo("layer { name: 'd' type: 'BoxData' top: 'x' top: 'l' data_param { source: 's' batch_size: "
              "2 side: 13 } }"),
      as_written("layer { name: 'd' type: 'AnnotatedData' top: 'x' top: 'l' data_param { source: 's' "
                 "batch_size: 2 } }"));
}

}  // namespace
}  // namespace banyan::io
