#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/image_transforms.hpp"
#include "data/weighted_choice.hpp"

namespace banyan::data {

namespace {

/// What is wrong with lengths of a resize or a crop; "" if nothing is.
template <class Settings>
std::string complaint_about_lengths(const Settings& settings) {
  const bool sides = !settings.width().empty() || !settings.height().empty();
  const bool shares = !settings.width_perc().empty() || !settings.height_perc().empty();
  if (int{sides} + int{shares} + int{!settings.size().empty()} + int{!settings.size_perc().empty()} != 1)
    return "needs one of: size; width and height; size_perc; width_perc and height_perc";
  if ((sides && (settings.width().empty() || settings.height().empty())) ||
      (shares && (settings.width_perc().empty() || settings.height_perc().empty())))
    return "needs both a width and a height";
  std::string complaint;
  const auto look_at = [&](const char* name, const auto& range, double most) {
    if (range.empty()) return;
    const double least = range[0], last = range[range.size() - 1];
    if (range.size() > 2 || !(least > 0 && least <= last && last <= most))
      complaint = cat(name, " must be one number or two, the smaller one first, above 0 and up to ", most);
  };
  constexpr double kMostShare = 64;
  look_at("width", settings.width(), ImageTransformWriter::kLongestSide);
  look_at("height", settings.height(), ImageTransformWriter::kLongestSide);
  look_at("size", settings.size(), ImageTransformWriter::kLongestSide);
  look_at("width_perc", settings.width_perc(), kMostShare);
  look_at("height_perc", settings.height_perc(), kMostShare);
  look_at("size_perc", settings.size_perc(), kMostShare);
  return complaint;
}

std::string complaint_about_block(const caffe::ProbImageTransformParameter& block) {
  const auto about = [](const char* name, const std::string& complaint) {
    return complaint.empty() ? "" : cat(name, " ", complaint);
  };
  std::vector<std::string> complaints{
      about("resize_prob_weights",
            complaint_about_weights(block.resize_prob_weights(), block.resize_params_size())),
      about("linear_prob_weights",
            complaint_about_weights(block.linear_prob_weights(), block.linear_params_size())),
      about("crop_prob_weights",
            complaint_about_weights(block.crop_prob_weights(), block.crop_params_size())),
      about("reflect_prob_weights",
            complaint_about_weights(block.reflect_prob_weights(), block.reflect_params_size()))};
  for (const auto& resize : block.resize_params())
    complaints.push_back(about("resize_params:", complaint_about_lengths(resize)));
  for (const auto& crop : block.crop_params())
    complaints.push_back(about("crop_params:", complaint_about_lengths(crop)));
  for (const auto& reflect : block.reflect_params())
    for (const float probability : {reflect.horz_reflect_prob(), reflect.vert_reflect_prob()})
      if (!(probability >= 0 && probability <= 1))
        complaints.emplace_back("reflect_params: a probability must be from 0 to 1");
  for (const auto& linear : block.linear_params())
    for (const auto& [name, numbers] : {std::pair{"shift", &linear.shift()}, {"scale", &linear.scale()}})
      if (numbers->empty() || numbers->size() > ImageTransformWriter::kMostChannels)
        complaints.push_back(cat("linear_params: ", name, " must be given once, or for each channel (up to ",
                                 ImageTransformWriter::kMostChannels, ")"));
  if (block.resize_params_size() + block.linear_params_size() + block.crop_params_size() +
          block.reflect_params_size() ==
      0)
    complaints.emplace_back(
        "has no transformation; expected resize_params, crop_params, reflect_params or linear_params");
  for (const std::string& complaint : complaints)
    if (!complaint.empty()) return complaint;
  return "";
}

}  // namespace

void check_image_transforms(const caffe::ImageTransformationParameter& settings, const std::string& layer) {
  for (int k = 0; k < settings.params_size(); ++k)
    if (const std::string complaint = complaint_about_block(settings.params(k)); !complaint.empty())
      bad_input("layer ", quoted(layer), ": image_transform_param.params, block ", k + 1, ": ", complaint);
}

}  // namespace banyan::data
