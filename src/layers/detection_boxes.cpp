#include "layers/detection_boxes.hpp"

#include <cmath>
#include <fstream>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/tensor/values.hpp"

namespace banyan {
namespace {

using Codes = caffe::PriorBoxParameter;

constexpr std::size_t kRow = 8;  // numbers of a row of ground truth

struct Centred {
  double x, y, width, height;
  explicit Centred(const Box& box)
      : x((box.x1 + box.x2) / 2), y((box.y1 + box.y2) / 2), width(box.x2 - box.x1), height(box.y2 - box.y1) {}
};

FourNumbers plain_code(Codes::CodeType type, const Box& prior, const Box& box) {
  const Centred from(prior), to(box);
  switch (type) {
    case Codes::CENTER_SIZE:
      return {(to.x - from.x) / from.width, (to.y - from.y) / from.height, std::log(to.width / from.width),
              std::log(to.height / from.height)};
    case Codes::CORNER_SIZE:
      return {(box.x1 - prior.x1) / from.width, (box.y1 - prior.y1) / from.height,
              (box.x2 - prior.x2) / from.width, (box.y2 - prior.y2) / from.height};
    default:
      return {box.x1 - prior.x1, box.y1 - prior.y1, box.x2 - prior.x2, box.y2 - prior.y2};
  }
}

/// Of the input `i`: `each` numbers for every prior.
void check_numbers(const Blobs& inputs, std::size_t i, std::int64_t each, const Predictions& predictions,
                   const std::string& where) {
  const Shape& shape = inputs[i]->shape;
  if (shape.axes() < 1 || shape[0] != predictions.items || shape.count(1) != predictions.priors * each)
    bad_input(where, "expected ", predictions.items, " x ", predictions.priors * each, ", ", each,
              " numbers for each of ", predictions.priors, " prior boxes; ", quoted(inputs[i]->name), " is ",
              shape.to_string());
}

bool is_whole(double value) { return value == std::floor(value); }

}  // namespace

std::string start_of_messages(const Layer& layer) {
  return cat("layer ", quoted(layer.name()), " (", layer.type(), "): ");
}

Predictions check_predictions(const Blobs& inputs, std::int64_t boxes, std::int64_t classes,
                              const std::string& where, std::int64_t numbers) {
  const auto shown = [&](int i) {
    return cat(quoted(inputs[i]->name), " is ", inputs[i]->shape.to_string());
  };
  const Shape &locations = inputs[0]->shape, &priors = inputs[2]->shape;
  if (priors.axes() != 3 || priors[0] != 1 || priors[1] != 2 || priors[2] % 4 != 0)
    bad_input(where, "expected prior boxes 1 x 2 x 4P; ", shown(2));
  if (locations.axes() < 1) bad_input(where, "the locations need an axis; ", shown(0));
  const Predictions found{locations[0], priors[2] / 4};
  check_numbers(inputs, 0, numbers * boxes, found, where);
  check_numbers(inputs, 1, classes, found, where);
  return found;
}

void check_first_step(const Blobs& inputs, std::size_t first, const Predictions& predictions,
                      const std::string& where) {
  if (inputs.size() > first) check_numbers(inputs, first, 2, predictions, where);
  if (inputs.size() > first + 1) check_numbers(inputs, first + 1, 4, predictions, where);
}

FirstStep FirstStep::read(Context& context, const Blobs& inputs, std::size_t first) {
  const auto values = [&](std::size_t i) {
    return i < inputs.size() ? values_of(context, inputs[i]->data).values : std::vector<double>();
  };
  return {values(first), values(first + 1)};
}

std::vector<Prior> FirstStep::refine(const std::vector<Prior>& priors, const BoxCode& code,
                                     std::size_t item) const {
  std::vector<Prior> refined = priors;
  if (locations_.empty()) return refined;
  for (std::size_t p = 0; p < refined.size(); ++p)
    refined[p].box = code.decode(priors[p], &locations_[4 * (item * priors.size() + p)]);
  return refined;
}

std::vector<Prior> read_priors(const std::vector<double>& values, caffe::PriorBoxParameter::CodeType type,
                               const std::string& where) {
  std::vector<Prior> priors(values.size() / 8);
  const double* variances = values.data() + values.size() / 2;
  for (std::size_t p = 0; p < priors.size(); ++p) {
    const double* box = values.data() + 4 * p;
    priors[p].box = {box[0], box[1], box[2], box[3]};
    for (std::size_t k = 0; k < 4; ++k) {
      priors[p].variances[k] = variances[4 * p + k];
      if (!(priors[p].variances[k] > 0))
        bad_input(where, "the variances of prior box ", p, " must be positive; found ",
                  priors[p].variances[k]);
    }
    if (type != Codes::CORNER && !(box[2] > box[0] && box[3] > box[1]))
      bad_input(where, "prior box ", p, " from (", box[0], ", ", box[1], ") to (", box[2], ", ", box[3],
                ") has no area, which ", Codes::CodeType_Name(type), " divides by");
  }
  return priors;
}

FourNumbers BoxCode::encode(const Prior& prior, const Box& box) const {
  FourNumbers code = plain_code(type, prior.box, box);
  for (std::size_t k = 0; has_variances && k < 4; ++k) code[k] /= prior.variances[k];
  return code;
}

Box BoxCode::decode(const Prior& prior, const double* code) const {
  FourNumbers c;
  for (std::size_t k = 0; k < 4; ++k) c[k] = code[k] * (has_variances ? prior.variances[k] : 1);
  const Box& box = prior.box;
  const Centred from(box);
  switch (type) {
    case Codes::CENTER_SIZE: {
      const double x = from.x + c[0] * from.width, y = from.y + c[1] * from.height;
      const double width = std::exp(c[2]) * from.width, height = std::exp(c[3]) * from.height;
      return {x - width / 2, y - height / 2, x + width / 2, y + height / 2};
    }
    case Codes::CORNER_SIZE:
      return {box.x1 + c[0] * from.width, box.y1 + c[1] * from.height, box.x2 + c[2] * from.width,
              box.y2 + c[3] * from.height};
    default:
      return {box.x1 + c[0], box.y1 + c[1], box.x2 + c[2], box.y2 + c[3]};
  }
}

std::array<double, 8> decode_polygon(const Prior& prior, const double* code) {
  const Box& box = prior.box;
  const std::array<double, 8> corners{box.x1, box.y1, box.x2, box.y1, box.x2, box.y2, box.x1, box.y2};
  std::array<double, 8> polygon;
  for (std::size_t k = 0; k < 8; ++k)
    polygon[k] =
        corners[k] + prior.variances[k % 2] * code[k] * (k % 2 == 0 ? box.x2 - box.x1 : box.y2 - box.y1);
  return polygon;
}

Suppression read_suppression(const caffe::NonMaximumSuppressionParameter& settings,
                             const std::string& where) {
  if (!(settings.nms_threshold() >= 0))
    bad_input(where, "nms_threshold must not be negative; found ", settings.nms_threshold());
  if (!(settings.eta() > 0 && settings.eta() <= 1))
    bad_input(where, "eta must be above 0 and at most 1; found ", settings.eta());
  return {settings.nms_threshold(), settings.has_top_k() ? settings.top_k() : -1, settings.eta()};
}

std::vector<std::vector<GroundTruth>> read_ground_truth(const std::vector<double>& rows,
                                                        const GroundTruthRules& rules) {
  std::vector<std::vector<GroundTruth>> items(static_cast<std::size_t>(std::max(rules.items, 0)));
  for (std::size_t r = 0; r < rows.size() / kRow; ++r) {
    const double* row = rows.data() + kRow * r;
    const double item = row[0], label = row[1];
    if (item == -1) continue;
    if (!is_whole(item) || item < 0 || (rules.items >= 0 && item >= rules.items) || item > kMostItem)
      bad_input(rules.where, "row ", r, " of the ground truth belongs to item ", item,
                rules.items >= 0 ? cat("; the batch has ", rules.items) : std::string(),
                "; items are numbered from 0, up to ", kMostItem);
    if (!is_whole(label) || label < 0 || label >= rules.labels || label == rules.background)
      bad_input(rules.where, "row ", r, " of the ground truth has the label ", label,
                "; expected a class below ", rules.labels, " other than the background, ", rules.background);
    if (!rules.difficult && row[7] != 0) continue;
    const auto number = static_cast<std::size_t>(item);
    if (number >= items.size()) items.resize(number + 1);
    items[number].push_back({{row[3], row[4], row[5], row[6]}, static_cast<int>(label), row[7] != 0});
  }
  return items;
}

std::vector<Verdict> judge(const std::vector<Box>& found, const std::vector<GroundTruth>& truth,
                           const VerdictRules& rules) {
  std::vector<Verdict> verdicts;
  std::vector<bool> seen(truth.size(), false);
  for (const Box& box : found) {
    double most = -1;
    std::size_t best = 0;
    for (std::size_t t = 0; t < truth.size(); ++t)
      if (const double shared = overlap(box, truth[t].box, rules.corners); shared > most) {
        most = shared;
        best = t;
      }
    Verdict verdict = Verdict::wrong;
    if (most >= rules.threshold) {
      if (truth[best].difficult && !rules.difficult)
        verdict = Verdict::neither;
      else if (!seen[best])
        verdict = Verdict::right;
      seen[best] = true;
    }
    verdicts.push_back(verdict);
  }
  return verdicts;
}

std::vector<NamedSize> read_name_sizes(const std::string& path, const std::string& where) {
  std::ifstream file(path);
  if (!file) bad_input(where, "cannot open name_size_file ", quoted(path));
  std::vector<NamedSize> all;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::istringstream words(line);
    NamedSize size;
    std::string more;
    if (!(words >> size.name >> size.height >> size.width) || words >> more || !(size.height > 0) ||
        !(size.width > 0))
      bad_input(where, path, ":", number, ": expected \"name height width\", found ", quoted(line));
    all.push_back(size);
  }
  if (all.empty()) bad_input(where, "name_size_file ", quoted(path), " names no image");
  return all;
}

void check_resize(const caffe::ResizeParameter& resize, const std::string& where) {
  if (resize.resize_mode() == caffe::ResizeParameter::FIT_LARGE_SIZE_AND_PAD &&
      (resize.height() == 0 || resize.width() == 0))
    bad_input(where, "resize_param with FIT_LARGE_SIZE_AND_PAD needs a positive height and width");
}

Box on_image(const Box& box, const NamedSize& image, const caffe::ResizeParameter& resize) {
  const double height_scale = resize.height_scale(), width_scale = resize.width_scale();
  if (resize.resize_mode() == caffe::ResizeParameter::FIT_SMALL_SIZE && height_scale > 0 && width_scale > 0)
    return clipped({box.x1 * width_scale, box.y1 * height_scale, box.x2 * width_scale, box.y2 * height_scale},
                   image.width, image.height);
  // The part of the net's input that shows the image.
  double x = 0, y = 0, width = 1, height = 1;
  if (resize.resize_mode() == caffe::ResizeParameter::FIT_LARGE_SIZE_AND_PAD) {
    const double ratio = image.width / image.height * resize.height() / resize.width();
    if (ratio > 1)
      height = 1 / ratio, y = (1 - height) / 2;
    else
      width = ratio, x = (1 - width) / 2;
  }
  const Box part =
      clipped({(box.x1 - x) / width, (box.y1 - y) / height, (box.x2 - x) / width, (box.y2 - y) / height});
  return {part.x1 * image.width, part.y1 * image.height, part.x2 * image.width, part.y2 * image.height};
}

}  // namespace banyan
