// DetectNetTransformation (NVIDIA): images and the boxes of their objects become what DetectNet learns from.
// Inputs: images N x 3 x H x W (B, G, R in [0, 255]) and rows of 16 numbers, N x 1 x (1 + most objects) x 16.
// The first row of a sample begins with the number of its objects and the length of a row; a row per object
// follows: left, top, width, height in pixels, an angle and the class; the angle and what comes behind the
// class are not read. Outputs: images of image_size_y x image_size_x without the mean, and the grid of
// targets (data::CoverageGrid).
//
// Random changes in training depend on the sample's place in the whole batch and the pass. The host does the
// work, waiting for the device.
#include <atomic>
#include <cmath>
#include <new>
#include <utility>

#include "banyan/base/log.hpp"
#include "banyan/data/augmenter.hpp"
#include "banyan/data/detectnet.hpp"
#include "layers/box_layer.hpp"

namespace banyan {
namespace {

constexpr std::int64_t kNumbersOfObject = 16;  // numbers per object

class DetectNetTransformationLayer : public BoxLayer {
 public:
  DetectNetTransformationLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : BoxLayer(parameter, options, {2, 2, 2, 2}),
        changes_(parameter_.detectnet_augmentation_param(), parameter_.detectnet_groundtruth_param(),
                 options.phase == Phase::train, parameter_.name()),
        grid_(parameter_.detectnet_groundtruth_param(), parameter_.name()) {}

  void read_settings() override {
    const auto& a = parameter_.detectnet_augmentation_param();
    for (const auto& [given, field] : {std::pair{a.has_resize_param(), "resize_param"},
                                       {a.has_noise_param(), "noise_param"},
                                       {a.has_emit_constraint(), "emit_constraint"},
                                       {a.has_distort_param(), "distort_param"},
                                       {a.has_expand_param(), "expand_param"}})
      if (given)
        refuse("detectnet_augmentation_param.", field,
               " is not supported: images change as in NVIDIA's 0.17 (flip, scale, rotation, cut, hue, "
               "saturation); remove it");
    const int means = parameter_.transform_param().mean_value_size();
    if (means != 0 && means != 1 && means != 3)
      refuse("transform_param has ", means, " values of mean_value; expected 1, or 3: of B, G and R");
  }

  void setup(const Blobs&, const Blobs&) override {
    caffe::TransformationParameter others = parameter_.transform_param();
    if (!others.mean_file().empty())
      mean_image_ = read_mean(others.mean_file());
    else if (others.mean_value_size() > 0)
      for (int c = 0; c < 3; ++c) mean_.push_back(others.mean_value(others.mean_value_size() == 1 ? 0 : c));
    others.clear_mean_file();
    others.clear_mean_value();
    if (others.ByteSizeLong() > 0 && options().rank == 0)
      log_warning(cat("layer ", quoted(name()), " (", type(),
                      "): of transform_param only mean_value and mean_file have an effect, as in NVIDIA's "
                      "Caffe"));
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& images = image_shape(*inputs[0]);
    const Shape& labels = inputs[1]->shape;
    if (images[1] != 3) refuse(quoted(inputs[0]->name), " has ", images[1], " channels; expected 3: B, G, R");
    if (labels.axes() < 2 || labels[0] != images[0] || labels.count(1) == 0 ||
        labels.count(1) % kNumbersOfObject != 0)
      refuse(quoted(inputs[1]->name), " is ", labels.to_string(), "; expected ", images[0],
             " x 1 x rows x 16: a first row, and one for each object");
    if (images[2] < 1 || images[3] < 1) refuse(quoted(inputs[0]->name), " has no pixels");
    if (!mean_image_.values.empty())
      mean_ = data::resized(mean_image_, static_cast<int>(images[2]), static_cast<int>(images[3])).values;
    const auto& grid = parameter_.detectnet_groundtruth_param();
    set_output(*outputs[0], Shape{images[0], 3, grid.image_size_y(), grid.image_size_x()});
    set_output(*outputs[1], Shape{images[0], grid_.channels(), grid_.rows(), grid_.columns()});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    const Values images = values_of(*pass.context, inputs[0]->data);
    const Values labels = values_of(*pass.context, inputs[1]->data);
    const std::int64_t samples = images.shape[0], pixels = images.shape.count(1),
                       changed_pixels = outputs[0]->shape.count(1), targets = outputs[1]->shape.count(1);
    const int height = static_cast<int>(images.shape[2]), width = static_cast<int>(images.shape[3]);
    std::vector<std::vector<data::GridObject>> objects;
    for (std::int64_t sample = 0; sample < samples; ++sample) objects.push_back(read_objects(labels, sample));
    std::vector<double> changed(static_cast<std::size_t>(samples * changed_pixels)),
        cells(static_cast<std::size_t>(samples * targets));
    const ops::RandomKey key{pass.seed, ops::stream_of(name().c_str()), 0};
    std::atomic<bool> no_memory{false};
    const auto write = [&](std::int64_t sample) {
      const auto item = static_cast<std::uint64_t>(pass.draw) << 32 |
                        static_cast<std::uint64_t>(global_sample(pass, sample));
      const data::ImageChange how = changes_.draw(height, width, key, item);
      const double* from = images.values.data() + sample * pixels;
      const data::Planes image =
          changes_.change({height, width, std::vector<float>(from, from + pixels)}, mean_, how);
      std::copy(image.values.begin(), image.values.end(), changed.begin() + sample * changed_pixels);
      grid_.write(changes_.change(std::move(objects[static_cast<std::size_t>(sample)]), height, width, how),
                  cells.data() + sample * targets);
    };
#pragma omp parallel for schedule(dynamic) num_threads(pass.context->device().threads())
    for (std::int64_t sample = 0; sample < samples; ++sample) try {
        write(sample);
      } catch (const std::bad_alloc&) {  // no exception may leave the loop
        no_memory = true;
      }
    if (no_memory)
      runtime_failure("layer ", quoted(name()), " (", type(), "): there is no memory for changed images of ",
                      width, " x ", height, ", enlarged up to ",
                      parameter_.detectnet_augmentation_param().scale_max(), " times (scale_max)");
    set_values(*pass.context, changed, outputs[0]->data);
    set_values(*pass.context, cells, outputs[1]->data);
  }

 private:
  data::Planes read_mean(const std::string& path) const {
    data::MeanImage mean = data::read_mean_image(path, name());
    if (mean.shape.channels != 3)
      refuse("mean_file ", quoted(path), " has ", mean.shape.channels, " channels; expected 3");
    return {mean.shape.height, mean.shape.width, std::move(mean.values)};
  }

  std::vector<data::GridObject> read_objects(const Values& labels, std::int64_t sample) {
    const std::int64_t length = labels.shape.count(1), rows = length / kNumbersOfObject - 1;
    const double* row = labels.values.data() + sample * length;
    const double count = row[0];
    std::vector<data::GridObject> objects;
    if (count == 0) return objects;
    if (!(count >= 0 && count <= static_cast<double>(rows) && count == std::floor(count)) ||
        row[1] != kNumbersOfObject) {
      note("the label of sample ", sample, " begins with ", count, ", ", row[1],
           "; expected the number of its objects, at most ", rows, ", and 16");
      return objects;
    }
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i) {
      row += kNumbersOfObject;
      if (!(std::isfinite(row[0] + row[1] + row[2] + row[3]) && row[5] >= 0 && row[5] < 4e9)) {
        note("object ", i, " of sample ", sample, " is ", row[0], ", ", row[1], ", ", row[2], ", ", row[3],
             " with the class ", row[5], "; expected finite pixels and a class from 0");
        continue;
      }
      objects.push_back({row[0], row[1], row[2], row[3], static_cast<std::uint32_t>(row[5])});
    }
    return objects;
  }

  data::DetectNetChanges changes_;
  data::CoverageGrid grid_;
  data::Planes mean_image_;
  std::vector<float> mean_;
};

const RegisterLayer<DetectNetTransformationLayer> registered_detectnet_transformation(
    "DetectNetTransformation", {.about = "changed images and grids of targets for their boxes (DetectNet)",
                                .message = "detectnet_groundtruth_param",
                                .examples = {"stride: 2 image_size_x: 8 image_size_y: 6"},
                                .inputs = {{3, 6, 8}, {1, 3, kNumbersOfObject}},
                                .further = {"detectnet_augmentation_param", "transform_param"}});

}  // namespace
}  // namespace banyan
