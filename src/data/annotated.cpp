#include "banyan/data/annotated.hpp"

#include <algorithm>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/box_geometry.hpp"
#include "banyan/io/prototxt.hpp"
#include "data/distortion.hpp"
#include "data/image_resize.hpp"
#include "data/noise.hpp"
#include "data/range_check.hpp"
#include "data/resampling.hpp"

namespace banyan::data {

namespace {

using Resize = caffe::ResizeParameter;

/// What the Augmenter does.
caffe::TransformationParameter augmentation(caffe::TransformationParameter transform) {
  transform.clear_resize_param();
  transform.clear_distort_param();
  transform.clear_noise_param();
  transform.clear_expand_param();
  transform.clear_emit_constraint();
  return transform;
}

void check_sampler(const caffe::BatchSampler& batch_sampler, const std::string& layer) {
  const caffe::Sampler& sampler = batch_sampler.sampler();
  const RangeCheck check{layer, "annotated_data_param.batch_sampler.sampler"};
  constexpr double kLeast = 1e-6;
  check("min_scale", sampler.min_scale(), kLeast, 1);
  check("max_scale", sampler.max_scale(), sampler.min_scale(), 1);
  check("min_aspect_ratio", sampler.min_aspect_ratio(), kLeast);
  check("max_aspect_ratio", sampler.max_aspect_ratio(), sampler.min_aspect_ratio(), 1e6);
}

std::set<int> labels_of(const std::string& path, const std::string& layer) {
  caffe::LabelMap map;
  try {
    io::parse_text(io::read_text_file(path), path, map);
  } catch (Error& error) {
    error.add_context(cat("while reading label_map_file of layer ", quoted(layer)));
    throw;
  }
  std::set<int> labels;
  for (const caffe::LabelMapItem& item : map.item()) labels.insert(item.label());
  return labels;
}

/// A part whose sides are 1 - `jitter` to 1 of the image's, anywhere.
Box jittered_part(double jitter, ItemDraws& draws) {
  const double width = draws.between(1 - jitter, 1), height = draws.between(1 - jitter, 1);
  const double left = draws.between(0, 1 - width), top = draws.between(0, 1 - height);
  return {left, top, left + width, top + height};
}

bool scales_boxes(const Resize& resize) {
  return resize.resize_mode() == Resize::FIT_SMALL_SIZE && resize.height_scale() > 0 &&
         resize.width_scale() > 0;
}

/// Height and width with FIT_SMALL_SIZE before they are rounded to whole pixels.
std::pair<double, double> fitted_lengths(const Resize& resize, const PixelBox& part) {
  const double aspect = static_cast<double>(part.width) / part.height;
  const double height = resize.height(), width = resize.width();
  return aspect < width / height ? std::pair{width / aspect, width} : std::pair{height, height * aspect};
}

/// Boxes in parts of an item of `height` x `width` pixels become such of width_scale x height_scale pixels.
void count_in_scales(const Resize& resize, double height, double width, std::vector<ObjectBox>& objects) {
  if (height < resize.height_scale() || width < resize.width_scale())
    bad_input("height_scale ", resize.height_scale(), " and width_scale ", resize.width_scale(),
              " of resize_param are larger than the image, which is ", height, " x ", width);
  const double down = height / resize.height_scale(), right = width / resize.width_scale();
  for (auto& [box, label, instance, difficult] : objects)
    box = {box.x1 * right, box.y1 * down, box.x2 * right, box.y2 * down};
}

}  // namespace

void check_annotated(const caffe::TransformationParameter& transform,
                     const caffe::AnnotatedDataParameter& annotations, const std::string& layer) {
  const auto refuse = [&](const auto&... why) { bad_input("layer ", quoted(layer), ": ", why...); };
  check_transform(augmentation(transform), layer);
  if (transform.has_distort_param()) check_distortion(transform.distort_param(), layer);
  if (transform.has_noise_param()) check_noise(transform.noise_param(), layer);
  if (transform.has_expand_param()) {
    const RangeCheck check{layer, "transform_param.expand_param"};
    check("prob", transform.expand_param().prob(), 0, 1);
    check("max_expand_ratio", transform.expand_param().max_expand_ratio(), 1, 100);
    if (transform.has_mean_file())
      refuse("transform_param.expand_param fills with mean_value and does not go with mean_file");
  }
  double sum = 0;
  for (const Resize& resize : transform.resize_param()) {
    check_resize(resize, layer);
    sum += resize.prob();
  }
  if (transform.resize_param_size() > 1 && !(sum > 0))
    refuse("transform_param.resize_param is given ", transform.resize_param_size(),
           " times, each with a prob of 0; one of them must have a larger one");
  for (const caffe::BatchSampler& sampler : annotations.batch_sampler()) check_sampler(sampler, layer);
  const RangeCheck check{layer, "annotated_data_param"};
  check("yolo_data_type", annotations.yolo_data_type(), 0, 1);
  check("yolo_data_jitter", annotations.yolo_data_jitter(), 0, 0.99);
}

/// What becomes of a record; all that is drawn, except by the Augmenter.
struct AnnotatedWriter::Steps {
  Distortion distortion;
  PixelBox part;  // of the image; beyond it are mean values
  bool whole = true;
  const Resize* settings = nullptr;  // of `resize`
  std::optional<Resized> resize;
  Resize::Interp_mode interpolation = Resize::LINEAR;
  std::vector<ObjectBox> objects;  // in the result
  int height() const { return resize ? resize->height : part.height; }
  int width() const { return resize ? resize->width : part.width; }
  bool changes_pixels() const {
    return !whole || resize || distortion.brightness != 0 || distortion.contrast != 1 ||
           distortion.needs_colours();
  }
};

AnnotatedWriter::AnnotatedWriter(const caffe::TransformationParameter& transform,
                                 const caffe::AnnotatedDataParameter& annotations, const Options& options)
    : transform_(transform),
      annotations_(annotations),
      options_(options),
      augmenter_(augmentation(transform), options.random_crop, options.seed,
                 ops::stream_of(options.layer.c_str()), options.layer),
      key_{transform.random_seed() >= 0 ? static_cast<std::uint64_t>(transform.random_seed()) : options.seed,
           ops::stream_of((options.layer + " boxes").c_str()), 0},
      sizes_key_{key_.seed, ops::stream_of((options.layer + " sizes").c_str()), 0},
      noise_key_{key_.seed, ops::stream_of((options.layer + " noise").c_str()), 0} {
  check_annotated(transform, annotations, options.layer);
  if (annotations.has_label_map_file() && options.objects)
    labels_ = labels_of(annotations.label_map_file(), options.layer);
}

/// nullptr: none. Of several, the one that is drawn for the record's batch.
const Resize* AnnotatedWriter::resize_of(const Record& record) const {
  ItemDraws draws(sizes_key_, record.batch);
  return draw_resize(transform_.resize_param(), draws);
}

/// Only what is drawn and where things are: touches no pixels.
AnnotatedWriter::Steps AnnotatedWriter::plan(const Record& record, std::uint64_t item) const {
  ItemDraws draws(key_, item);
  Steps steps;
  steps.objects = record.objects;
  PixelBox& part = steps.part = {0, 0, record.height, record.width};
  if (transform_.has_distort_param()) steps.distortion = draw_distortion(transform_.distort_param(), draws);

  if (transform_.has_expand_param()) {
    const bool expands = draws.next() < transform_.expand_param().prob();
    const double ratio = draws.between(1, transform_.expand_param().max_expand_ratio());
    const double down = draws.next(), right = draws.next();
    const int height = static_cast<int>(record.height * ratio),
              width = static_cast<int>(record.width * ratio);
    if (expands && (height > record.height || width > record.width)) {
      steps.whole = false;
      part = {-static_cast<int>(down * (height - record.height)),
              -static_cast<int>(right * (width - record.width)), height, width};
      look_through(fractions_of(part, record.height, record.width), nullptr, steps.objects);
    }
  }

  std::vector<Box> samples;
  if (is_fixed()) samples.push_back(jittered_part(annotations_.yolo_data_jitter(), draws));
  for (const caffe::BatchSampler& sampler : annotations_.batch_sampler()) {
    if (!sampler.use_original_image() || is_fixed()) continue;
    std::uint32_t found = 0;
    for (std::uint32_t trial = 0; trial < sampler.max_trials(); ++trial) {
      if (sampler.has_max_sample() && found >= sampler.max_sample()) break;
      const double scale = draws.next(), ratio = draws.next(), left = draws.next(), top = draws.next();
      const Box sample = sample_box(sampler.sampler(), {scale, ratio, left, top});
      if (!is_accepted(sampler.sample_constraint(), sample, steps.objects)) continue;
      samples.push_back(sample);
      ++found;
    }
  }
  if (!samples.empty()) {
    const Box& chosen = samples[static_cast<std::size_t>(draws.below(static_cast<int>(samples.size())))];
    const PixelBox inner = pixels_of(chosen, part.height, part.width);
    steps.whole = steps.whole && inner == part;
    look_through(fractions_of(inner, part.height, part.width), emit_constraint(), steps.objects);
    part = {part.top + inner.top, part.left + inner.left, inner.height, inner.width};
  }

  if (const Resize* const chosen = resize_of(record)) {
    const Resize& resize = *chosen;
    const bool resizes = draws.next() < resize.prob() || transform_.resize_param_size() > 1;
    const Resize::Interp_mode interpolation = draw_interpolation(resize, draws);
    if (!resizes) return steps;
    steps.interpolation = interpolation;
    steps.settings = chosen;
    steps.resize = resized(resize, part.height, part.width);
    const PixelBox& inner = steps.resize->inner;
    look_through(
        fractions_of({-inner.top, -inner.left, steps.height(), steps.width()}, inner.height, inner.width),
        nullptr, steps.objects);
  }
  return steps;
}

/// A record with the changed pixels.
Record AnnotatedWriter::pixels(const Record& record, const Steps& steps) const {
  const PixelBox& part = steps.part;
  Record result;
  result.channels = record.channels;
  result.height = steps.height();
  result.width = steps.width();
  result.interleaved = true;
  if (record.bytes == nullptr)
    bad_input(
        "the record holds float_data: only 8-bit images are cut, expanded, resized and distorted, or "
        "changed by noise_param");
  if (record.channels != 3 && steps.distortion.needs_colours())
    bad_input("the image has ", record.channels,
              " channels; hue, saturation and random order of distort_param need 3 (force_color)");

  const int top = std::max(part.top, 0), left = std::max(part.left, 0);
  const int bottom = std::min(part.top + part.height, record.height);
  const int right = std::min(part.left + part.width, record.width);
  const std::vector<float> means(transform_.mean_value().begin(), transform_.mean_value().end());
  // A part of an expanded image may hold none of it.
  Image image = cut(record, {top, left, std::max(bottom - top, 0), std::max(right - left, 0)});
  distort(steps.distortion, image);
  image = framed(image, {part.height, part.width, top - part.top, left - part.left, Resize::CONSTANT, means});
  if (steps.resize)
    resize_and_pad(*steps.settings, *steps.resize, steps.interpolation, image, result.scratch);
  result.image = std::move(image);
  result.bytes = result.image.pixels.data();
  return result;
}

void AnnotatedWriter::check_objects(const Record& record) const {
  if (!options_.objects) return;
  if (!record.typed_objects && !annotations_.has_anno_type())
    bad_input(
        "the record names no type of annotation, and annotated_data_param.anno_type is not given "
        "(records with one label per image are read by Data)");
  if (!labels_) return;
  for (const ObjectBox& object : record.objects)
    if (labels_->count(object.label) == 0)
      bad_input("an object has the label ", object.label, ", which label_map_file ",
                quoted(annotations_.label_map_file()), " does not name");
}

std::vector<Shape> AnnotatedWriter::shapes(const Record& record, std::uint64_t item) const {
  check_objects(record);
  const Steps steps = plan(record, item);
  Record result;
  result.channels = record.channels;
  result.height = steps.height();
  result.width = steps.width();
  const ItemShape shape = augmenter_.output_shape(result);
  std::vector<Shape> shapes{Shape{shape.channels, shape.height, shape.width}};
  if (options_.objects && is_fixed()) shapes.push_back({1, kFixedRows, kFixedLength});
  return shapes;
}

/// The objects as the item shows them.
std::vector<ObjectBox> AnnotatedWriter::shown(const Record& result, const Steps& steps,
                                              std::uint64_t item) const {
  std::vector<ObjectBox> objects = steps.objects;
  const ItemShape shape = augmenter_.output_shape(result);
  const auto [top, left, mirror] = augmenter_.draw(result, shape, item);
  look_through(fractions_of({top, left, shape.height, shape.width}, result.height, result.width),
               emit_constraint(), objects);
  if (mirror)
    for (ObjectBox& object : objects) object.box = mirrored(object.box);
  if (!steps.resize || !scales_boxes(*steps.settings)) return objects;
  const auto [height, width] = fitted_lengths(*steps.settings, steps.part);
  count_in_scales(*steps.settings, height * shape.height / result.height, width * shape.width / result.width,
                  objects);
  return objects;
}

void AnnotatedWriter::write_rows(const std::vector<ObjectBox>& objects, const ItemPlace& place) const {
  for (const auto& [box, label, instance, difficult] : objects)
    place.rows->insert(place.rows->end(), {static_cast<double>(place.index), static_cast<double>(label),
                                           static_cast<double>(instance), box.x1, box.y1, box.x2, box.y2,
                                           difficult ? 1.0 : 0.0});
}

/// Class from 0, centre and size of the first kFixedRows objects that are not difficult, then zeros.
void AnnotatedWriter::write_fixed_rows(const std::vector<ObjectBox>& objects, const ItemPlace& place) const {
  std::vector<double> rows;
  for (const auto& [box, label, instance, difficult] : objects) {
    if (label < 1)
      bad_input("an object has the label ", label, "; with yolo_data_type: 1 labels are numbered from 1");
    if (difficult || rows.size() == kFixedRows * kFixedLength) continue;
    rows.insert(rows.end(), {label - 1.0, (box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2, box.x2 - box.x1,
                             box.y2 - box.y1});
  }
  rows.resize(kFixedRows * kFixedLength);
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    std::transform(rows.begin(), rows.end(), static_cast<T*>(place.outputs[1]),
                   [](double value) { return static_cast<T>(value); });
  });
}

void AnnotatedWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  const Steps steps = plan(record, item);
  Record changed;
  const bool noisy = has_noise(transform_.noise_param());
  if (noisy || steps.changes_pixels()) changed = pixels(record, steps);
  if (noisy) {
    ItemDraws draws(noise_key_, item);
    add_noise(transform_.noise_param(), draws, changed.image);
    changed.show_image();
  }
  const Record& result = noisy || steps.changes_pixels() ? changed : record;
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    augmenter_.apply(result, item, place.layout, static_cast<T*>(place.outputs[0]));
  });
  if (!options_.objects) return;
  const std::vector<ObjectBox> objects = shown(result, steps, item);
  is_fixed() ? write_fixed_rows(objects, place) : write_rows(objects, place);
}

}  // namespace banyan::data
