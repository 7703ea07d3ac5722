// Files of detections for the tools that evaluate VOC, COCO and ILSVRC (DetectionOutput's save_output_param).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "layers/detection_boxes.hpp"

namespace banyan {

struct Detection {
  int label = 0;
  double score = 0;
  Box box;  ///< fractions of the image
  std::size_t prior = 0;
};

/// The `most` with the highest scores, if `most` is positive, by class again after that; `found` is by class
/// and falling score.
void keep_best(std::vector<Detection>& found, std::int64_t most);

/// Boxes are written in pixels of the images that name_size_file lists, numbers cut off to whole pixels where
/// the tools expect them:
///
///   VOC     <directory>/<prefix><name of the class>.txt: image score xmin ymin xmax ymax
///   ILSVRC  <directory>/<prefix>.txt: image label score xmin ymin xmax ymax
///   COCO    <directory>/<prefix>.json: image_id, category_id (the class's name), bbox (x y width height), score
class DetectionFiles {
 public:
  /// Reads both lists, which must be given, and makes the folder. Throws bad_input, beginning with `where`.
  DetectionFiles(const caffe::SaveOutputParameter& settings, int classes, int background,
                 const std::string& where);
  /// The next image; `number` counts from the start of a pass over the data. The files are written after
  /// every num_test_image of them.
  void add(std::int64_t number, const std::vector<Detection>& detections);

 private:
  struct Saved {
    const NamedSize* image;
    Detection detection;  ///< in pixels
  };
  void write() const;
  void write_file(const std::string& name, const std::string& text) const;
  std::string of_coco() const;

  caffe::SaveOutputParameter settings_;
  std::map<int, std::string> names_;  ///< of the classes
  std::vector<NamedSize> images_;
  std::int64_t each_ = 0;  ///< images
  std::vector<Saved> saved_;
};
/// None if the settings name no folder or, with a warning, lack a list. Throws bad_input, beginning with the
/// layer, if the files cannot be written.
std::optional<DetectionFiles> open_detection_files(const Layer& layer,
                                                   const caffe::SaveOutputParameter& settings, int classes,
                                                   int background, int rank, int devices);

}  // namespace banyan
