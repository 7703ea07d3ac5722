// What SSD's layers share: boxes as fractions of the image, their codes relative to prior boxes, ground truth
// and the images' own sizes.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "banyan/layers/layer.hpp"
#include "layers/boxes.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

/// What the messages of a layer begin with.
std::string start_of_messages(const Layer& layer);

/// The sizes of a net's predictions.
struct Predictions {
  std::int64_t items = 0, priors = 0;
};
/// Of locations N x (P boxes numbers), confidences N x (P classes) and priors 1 x 2 x 4P, a layer's first
/// inputs. Throws bad_input, beginning with `where`, if they do not fit.
Predictions check_predictions(const Blobs& inputs, std::int64_t boxes, std::int64_t classes,
                              const std::string& where, std::int64_t numbers = 4);

/// Of what RefineDet's first step predicts, the inputs from `first` on: confidences N x 2P, then perhaps
/// locations N x 4P. Throws bad_input, beginning with `where`, if they do not fit.
void check_first_step(const Blobs& inputs, std::size_t first, const Predictions& predictions,
                      const std::string& where);

using FourNumbers = std::array<double, 4>;

struct Prior {
  Box box;
  FourNumbers variances{};
};
/// The priors of a blob 1 x 2 x 4P: boxes, then variances. Throws bad_input, beginning with `where`, for a
/// variance that is not positive and, where codes divide by the sides, for a box without area.
std::vector<Prior> read_priors(const std::vector<double>& values, caffe::PriorBoxParameter::CodeType type,
                               const std::string& where);

/// How four numbers say where a box is relative to a prior.
struct BoxCode {
  caffe::PriorBoxParameter::CodeType type = caffe::PriorBoxParameter::CORNER;
  bool has_variances = true;  ///< the numbers were divided by the variances
  FourNumbers encode(const Prior& prior, const Box& box) const;
  Box decode(const Prior& prior, const double* code) const;
};
/// The corners x1, y1 ... x4, y4 of a quadrilateral that eight numbers give relative to those of a prior,
/// from the one at the upper left, clockwise; they were divided by its size and variances (TextBoxes++).
std::array<double, 8> decode_polygon(const Prior& prior, const double* code);

/// What RefineDet's first step predicts of a batch: both are empty in SSD, whose nets have one step.
class FirstStep {
 public:
  FirstStep() = default;
  /// Confidences by item and prior: no object, an object. Locations by item and prior, if they are given.
  FirstStep(std::vector<double> confidences, std::vector<double> locations)
      : confidences_(std::move(confidences)), locations_(std::move(locations)) {}
  /// Reads the inputs from `first` on, of which there may be none.
  static FirstStep read(Context& context, const Blobs& inputs, std::size_t first);

  /// Whether the second step looks at a prior: its object's confidence is at least `least`.
  bool chooses(std::size_t position, float least) const {
    return confidences_.empty() || confidences_[2 * position + 1] >= static_cast<double>(least);
  }
  bool moves_boxes() const { return !locations_.empty(); }
  /// An item's priors for the second step: boxes where the first one predicts them.
  std::vector<Prior> refine(const std::vector<Prior>& priors, const BoxCode& code, std::size_t item) const;

 private:
  std::vector<double> confidences_, locations_;
};

/// `top_k` only if it is given. Throws bad_input, beginning with `where`.
Suppression read_suppression(const caffe::NonMaximumSuppressionParameter& settings, const std::string& where);

/// The largest number of an item, where the batch does not tell: a table of that length is made.
constexpr int kMostItem = 65535;

struct GroundTruth {
  Box box;
  int label = 0;
  bool difficult = false;
};
/// What rows (item, label, instance, xmin, ymin, xmax, ymax, difficult) may hold.
struct GroundTruthRules {
  std::string where;  ///< begins messages
  int items = -1;     ///< of the batch; -1: any number
  int labels = 0;     ///< labels are in [0, labels) and not `background`
  int background = 0;
  bool difficult = true;  ///< difficult boxes count
};
/// By item; rows of item -1 hold nothing. Throws bad_input naming the row.
std::vector<std::vector<GroundTruth>> read_ground_truth(const std::vector<double>& rows,
                                                        const GroundTruthRules& rules);

enum class Verdict : std::uint8_t { neither, right, wrong };
/// When a detection has found an object.
struct VerdictRules {
  double threshold = 0.5;  ///< it overlaps the object at least so much
  bool difficult = true;   ///< difficult objects count: else what finds one is neither right nor wrong
  Corners corners = Corners::points;
};
/// Of detections of one item and label, by falling score: each may be right for the object that it overlaps
/// most, and the first is, if several are.
std::vector<Verdict> judge(const std::vector<Box>& found, const std::vector<GroundTruth>& truth,
                           const VerdictRules& rules);

/// An image as it was before the net's input was made of it.
struct NamedSize {
  std::string name;
  double height = 0, width = 0;  ///< pixels
};
/// A file of lines `name height width`. Throws bad_input, beginning with `where`.
std::vector<NamedSize> read_name_sizes(const std::string& path, const std::string& where);
/// Refuses sizes that on_image would divide by; messages begin with `where`.
void check_resize(const caffe::ResizeParameter& resize, const std::string& where);
/// The box in pixels of the image, cut off at its borders, if `resize` made the net's input of it.
Box on_image(const Box& box, const NamedSize& image, const caffe::ResizeParameter& resize);

}  // namespace banyan
