#include "banyan/data/image_transforms.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <utility>

#include "banyan/base/error.hpp"
#include "data/distortion.hpp"
#include "data/pixel_view.hpp"
#include "data/resampling.hpp"
#include "data/weighted_choice.hpp"

namespace banyan::data {

namespace {

using Block = caffe::ProbImageTransformParameter;
using Crop = caffe::CropTransformParameter;
using ResizeTo = caffe::ResizeTransformParameter;

/// Height and width.
struct Lengths {
  int height = 0, width = 0;
};

/// Those that the settings (of a resize or a crop) give an image of other lengths, by two numbers in [0, 1).
template <class Settings>
Lengths drawn_lengths(const Settings& settings, const Lengths& of, double first, double second) {
  const auto pixels = [](const auto& range, double drawn) {
    const double least = range[0], most = range[range.size() - 1];
    return static_cast<int>(least + std::floor(drawn * (most - least + 1)));
  };
  const auto share = [](const auto& range, double drawn, int length) {
    const double least = range[0], most = range[range.size() - 1];
    return static_cast<int>(static_cast<float>(least + drawn * (most - least)) * static_cast<float>(length));
  };
  if (!settings.size().empty()) {
    const int side = pixels(settings.size(), first);
    return {side, side};
  }
  if (!settings.width().empty()) return {pixels(settings.height(), first), pixels(settings.width(), second)};
  if (!settings.size_perc().empty())
    return {share(settings.size_perc(), first, of.height), share(settings.size_perc(), first, of.width)};
  return {share(settings.height_perc(), first, of.height), share(settings.width_perc(), second, of.width)};
}

/// Of all the transformations of a block, in the branch's order.
std::vector<double> weights_of(const Block& block) {
  std::vector<double> weights;
  const auto append = [&](const auto& given, int count) {
    for (int k = 0; k < count; ++k) weights.push_back(given.empty() ? 1 : given[k]);
  };
  append(block.resize_prob_weights(), block.resize_params_size());
  append(block.linear_prob_weights(), block.linear_params_size());
  append(block.crop_prob_weights(), block.crop_params_size());
  append(block.reflect_prob_weights(), block.reflect_params_size());
  return weights;
}

caffe::ResizeParameter::Interp_mode interpolation_of(const ResizeTo& resize) {
  switch (resize.interpolation()) {
    case ResizeTo::INTER_NEAREST:
      return caffe::ResizeParameter::NEAREST;
    case ResizeTo::INTER_AREA:
      return caffe::ResizeParameter::AREA;
    case ResizeTo::INTER_CUBIC:
      return caffe::ResizeParameter::CUBIC;
    case ResizeTo::INTER_LANCZOS4:
      return caffe::ResizeParameter::LANCZOS4;
    default:
      return caffe::ResizeParameter::LINEAR;
  }
}

/// Where a crop begins, of `free` places and one in each direction.
std::pair<int, int> corner_of(Crop::Location location, const Lengths& free, double down, double right) {
  const auto any = [](double drawn, int most) { return static_cast<int>(drawn * (most + 1)); };
  switch (location) {
    case Crop::CENTER:
      return {free.height / 2, free.width / 2};
    case Crop::RAND_CORNER:
      return {down < 0.5 ? 0 : free.height, right < 0.5 ? 0 : free.width};
    case Crop::UL_CORNER:
      return {0, 0};
    case Crop::UR_CORNER:
      return {0, free.width};
    case Crop::BL_CORNER:
      return {free.height, 0};
    case Crop::BR_CORNER:
      return {free.height, free.width};
    default:
      return {any(down, free.height), any(right, free.width)};
  }
}

}  // namespace

struct ImageTransformWriter::Step {
  enum class Kind : std::uint8_t { resize, linear, crop, reflect } kind = Kind::resize;
  Lengths lengths;        // after it
  int top = 0, left = 0;  // of a crop
  bool upside_down = false, mirrored = false;
  caffe::ResizeParameter::Interp_mode interpolation = caffe::ResizeParameter::LINEAR;
  const caffe::LinearTransformParameter* linear = nullptr;
};

ImageTransformWriter::ImageTransformWriter(const caffe::ImageTransformationParameter& settings,
                                           std::size_t labels, std::uint64_t seed, const std::string& layer)
    : settings_(settings),
      labels_(labels),
      batch_key_{settings.rng_seed() != 0 ? settings.rng_seed() : seed,
                 ops::stream_of((layer + " batches").c_str()), 0},
      item_key_{batch_key_.seed, ops::stream_of((layer + " images").c_str()), 0} {
  check_image_transforms(settings, layer);
}

/// Touches no pixels. Each block draws as many numbers, whatever it applies.
std::vector<ImageTransformWriter::Step> ImageTransformWriter::plan(const Record& record,
                                                                   std::uint64_t item) const {
  ItemDraws of_batch(batch_key_, record.batch), of_item(item_key_, item);
  Lengths lengths{record.height, record.width};
  std::vector<Step> steps;
  for (const Block& block : settings_.params()) {
    const double which = of_batch.next(), first = of_batch.next(), second = of_batch.next();
    const double down = of_item.next(), right = of_item.next();
    int chosen = static_cast<int>(weighted_choice(weights_of(block), which));
    const auto is_among = [&](int count) {
      if (chosen < count) return true;
      chosen -= count;
      return false;
    };
    Step step;
    if (is_among(block.resize_params_size())) {
      const ResizeTo& resize = block.resize_params(chosen);
      const Lengths to = drawn_lengths(resize, lengths, first, second);
      if (std::min(to.height, to.width) < 1 || std::max(to.height, to.width) > kLongestSide)
        bad_input("resize_params make an image of ", to.height, " x ", to.width, " pixels out of one of ",
                  lengths.height, " x ", lengths.width, "; expected sides of 1 to ", kLongestSide);
      step.kind = Step::Kind::resize;
      step.interpolation = interpolation_of(resize);
      lengths = to;
    } else if (is_among(block.linear_params_size())) {
      step.kind = Step::Kind::linear;
      step.linear = &block.linear_params(chosen);
      for (const auto* numbers : {&step.linear->shift(), &step.linear->scale()})
        if (numbers->size() != 1 && numbers->size() != record.channels)
          bad_input("linear_params have ", numbers->size(), " numbers (expected 1 or one per channel), but ",
                    "the image has ", record.channels, record.channels == 1 ? " channel" : " channels");
    } else if (is_among(block.crop_params_size())) {
      const Crop& crop = block.crop_params(chosen);
      const Lengths to = drawn_lengths(crop, lengths, first, second);
      if (std::min(to.height, to.width) < 1 || to.height > lengths.height || to.width > lengths.width)
        bad_input("crop_params cut ", to.height, " x ", to.width, " pixels out of an image of ",
                  lengths.height, " x ", lengths.width);
      step.kind = Step::Kind::crop;
      std::tie(step.top, step.left) =
          corner_of(crop.location(), {lengths.height - to.height, lengths.width - to.width}, down, right);
      lengths = to;
    } else {
      // As the branch has it: the "horizontal" one turns images upside down.
      step.kind = Step::Kind::reflect;
      step.upside_down = down < block.reflect_params(chosen).horz_reflect_prob();
      step.mirrored = right < block.reflect_params(chosen).vert_reflect_prob();
    }
    step.lengths = lengths;
    steps.push_back(step);
  }
  return steps;
}

std::vector<Shape> ImageTransformWriter::shapes(const Record& record, std::uint64_t item) const {
  const std::vector<Step> steps = plan(record, item);
  const Lengths lengths = steps.empty() ? Lengths{record.height, record.width} : steps.back().lengths;
  std::vector<Shape> shapes(labels_ + 1);
  shapes[0] = {record.channels, lengths.height, lengths.width};
  return shapes;
}

/// Linear steps come last, as one: crops and reflections leave values alone, and a resize of linear functions
/// of pixels is that function of the resized pixels, but for their rounding to whole numbers.
void ImageTransformWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  PixelView view = view_of(record.bytes, record.channels, record.height, record.width, record.interleaved);
  std::array<PixelLine, kMostChannels> lines;
  Image resized;
  for (const Step& step : plan(record, item)) {
    switch (step.kind) {
      case Step::Kind::resize: {
        const Image image = image_of(view);
        resize_image(image, step.lengths.height, step.lengths.width, step.interpolation, resized);
        view = view_of(resized.pixels.data(), resized.channels, resized.height, resized.width, true);
        break;
      }
      case Step::Kind::linear: {
        const auto of_channel = [](const auto& numbers, int c) -> double {
          return numbers[numbers.size() == 1 ? 0 : c];
        };
        for (int c = 0; c < record.channels; ++c)
          lines[static_cast<std::size_t>(c)].append(of_channel(step.linear->scale(), c),
                                                    of_channel(step.linear->shift(), c));
        break;
      }
      case Step::Kind::crop:
        view.cut(step.top, step.left, step.lengths.height, step.lengths.width);
        break;
      case Step::Kind::reflect:
        if (step.upside_down) view.turn_upside_down();
        if (step.mirrored) view.mirror();
        break;
    }
  }
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    write_lines(view, lines.data(), place.layout, static_cast<T*>(place.outputs[0]));
    for (std::size_t k = 0; k < labels_; ++k)
      *static_cast<T*>(place.outputs[k + 1]) = static_cast<T>(record.labels.at(k));
  });
}

Shape transformed_images(const caffe::ImageTransformationParameter& settings, std::int64_t items) {
  try {
    check_image_transforms(settings, "");
  } catch (const Error&) {  // the net's complaint
    return {};
  }
  Lengths lengths;
  int channels = 3;
  for (const Block& block : settings.params()) {
    if (!block.resize_params().empty())
      lengths = drawn_lengths(block.resize_params(0), lengths, 0, 0);
    else if (!block.linear_params().empty())
      channels = std::max({block.linear_params(0).shift_size(), block.linear_params(0).scale_size(), 1});
    else if (!block.crop_params().empty())
      lengths = drawn_lengths(block.crop_params(0), lengths, 0, 0);
  }
  if (items < 1 || lengths.height < 1 || lengths.width < 1) return {};
  return {items, channels, lengths.height, lengths.width};
}

}  // namespace banyan::data
