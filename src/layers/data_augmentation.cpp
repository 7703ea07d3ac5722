// DataAugmentation (FlowNet2): parts of images, moved, turned, zoomed and mirrored, with other colours, by
// coefficients that it draws or takes as a second input; it shows them as a second output. Without a crop
// nothing changes. Then the mean of the results is subtracted.
//
// Blobs: how many passes there were; with recompute_mean the mean of each pixel, and of each channel (without
// mean_per_pixel only the latter is learned, and the former repeats it).
//
// Colours have coordinates along chromatic_eigvec, whose means and largest values are those of the batch of
// all devices, before the part is cut out.
#include "banyan/layers/loss.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/normalization.hpp"
#include "layers/augmentation_layer.hpp"

namespace banyan {
namespace {

class DataAugmentationLayer : public AugmentationLayer {
 public:
  DataAugmentationLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : AugmentationLayer(parameter, options, {1, 2, 1, 2}) {}

  void read_settings() override {
    AugmentationLayer::read_settings();
    if (cuts()) check_cut();
    const auto& s = settings();
    if (s.chromatic_eigvec_size() != 0 && s.chromatic_eigvec_size() != 9)
      refuse("chromatic_eigvec has ", s.chromatic_eigvec_size(), " numbers; expected 9");
    if (parameter_.bottom_size() == 1 && changes_colors(draws()) && s.chromatic_eigvec_size() == 0)
      refuse("lmult, sat, col and ladd need chromatic_eigvec, 9 numbers");
    if (s.mean_size() != 0 && s.mean_size() != 3)
      refuse("mean has ", s.mean_size(), " numbers; expected 3, one for each channel");
    if (!(s.max_multiplier() > 0)) refuse("max_multiplier must be above 0; found ", s.max_multiplier());
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    const Shape& image = image_shape(*inputs[0]);
    channels_ = image[1];
    if (has_fixed_mean() && channels_ != 3)
      refuse("mean has 3 numbers; the images have ", channels_, " channels");
    draws_ = draws();
    has_axes_ = settings().chromatic_eigvec_size() == 9 && channels_ == 3;
    for (int i = 0; i < settings().chromatic_eigvec_size(); ++i)
      limits_.axes.at[i] = settings().chromatic_eigvec(i);
    limits_.most = settings().max_multiplier();
    // Where coefficients come in, they may change colours.
    measures_ = cuts() && has_axes_ && (inputs.size() > 1 || changes_colors(draws_));
    if (measures_ || learns_mean()) traits_.meets = Meets::forward;
    const caffe::FillerParameter zero;
    declare(Shape{1, 1, 1, 1}, zero, ParameterKind::statistic);
    if (!has_mean()) return;
    const Shape result = cut_of(image);
    declare(Shape{1, channels_, result[2], result[3]}, zero, ParameterKind::statistic);
    declare(Shape{1, channels_, 1, 1}, zero, ParameterKind::statistic);
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& image = image_shape(*inputs[0]);
    const Shape result = cut_of(image);
    if (result[2] > image[2] || result[3] > image[3] || image[2] < 1 || image[3] < 1)
      refuse("the part, ", result[2], " x ", result[3], ", is larger than the images of ",
             quoted(inputs[0]->name), ", ", image[2], " x ", image[3]);
    if (has_mean() && settings().mean_per_pixel() &&
        parameters_[1].shape != Shape{1, channels_, result[2], result[3]})
      refuse("mean_per_pixel needs results of one size; found ", result.to_string(), ", the mean is ",
             parameters_[1].shape.to_string());
    if (inputs.size() > 1) check_rows(*inputs[1], image[0]);
    set_output(*outputs[0], result);
    if (outputs.size() > 1) set_output(*outputs[1], rows_shape(image[0]));
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Tensor& x = inputs[0]->data;
    Tensor& y = outputs[0]->data;
    const Tensor& rows = rows_of(pass, inputs, outputs);
    if (cuts()) {
      ensure(context, table_, Shape{x.shape()[0], ops::augmentation::kRow}, DType::f64);
      ops::augmentation_table(
          context, {x.shape()[2], x.shape()[3], y.shape()[2], y.shape()[3], channels_ == 3, has_axes_}, rows,
          table_);
      if (measures_) measure_colors(pass, x);
      const ops::PassKey noise{pass.seed, ops::stream_of((name() + " noise").c_str()), pass.draw_on_device};
      ops::augment_images(context, x, table_, measures_ ? space_ : none_, limits_, noise, pass.samples, y);
    } else {
      ops::copy(context, x, y);
    }
    subtract_mean(pass, y);
  }

  /// Coefficients that come in may ask for what cannot be done with these images.
  void check_results(Context& context) override {
    if (has_axes_ || !table_.defined()) return;
    std::vector<double> table(static_cast<std::size_t>(table_.count()));
    copy_to_host(context, table_, table.data());
    for (std::size_t end = ops::augmentation::kRow; end <= table.size(); end += ops::augmentation::kRow) {
      if (table[end - 1] == 1) refuse("colours and effects need 3 channels; the images have ", channels_);
      if (table[end - 1] == 2)
        refuse("the coefficients change colours, which needs chromatic_eigvec, 9 numbers");
    }
  }

  /// With a mean for each channel only, files from results of another size hold what counts.
  std::vector<const io::BlobData*> match_blobs(const io::LayerWeights& source) const override {
    std::vector<const io::BlobData*> blobs = Layer::match_blobs(source);
    if (has_mean() && !settings().mean_per_pixel() &&
        blobs[1]->count() != static_cast<std::size_t>(parameters_[1].shape.count()))
      blobs[1] = nullptr;
    return blobs;
  }

 private:
  bool cuts() const { return settings().has_crop_width() && settings().has_crop_height(); }
  bool has_mean() const { return settings().recompute_mean() > 0; }
  bool has_fixed_mean() const {
    return !has_mean() && settings().mean_size() == 3 && !settings().mean_per_pixel();
  }
  bool learns_mean() const { return has_mean() && options().phase == Phase::train; }
  Shape cut_of(const Shape& image) const {
    if (!cuts()) return image;
    return {image[0], image[1], settings().crop_height(), settings().crop_width()};
  }

  const Tensor& rows_of(Pass& pass, const Blobs& inputs, const Blobs& outputs) {
    Context& context = *pass.context;
    if (inputs.size() > 1) {
      if (outputs.size() > 1) ops::copy(context, inputs[1]->data, outputs[1]->data);
      return inputs[1]->data;
    }
    const Shape& image = inputs[0]->shape;
    if (outputs.size() < 2) ensure(context, rows_, rows_shape(image[0]), dtype());
    Tensor& rows = outputs.size() > 1 ? outputs[1]->data : rows_;
    ops::AugmentationDraws how = draws_;
    if (!cuts()) how = {};
    how.height = image[2];
    how.width = image[3];
    how.cut_height = outputs[0]->shape[2];
    how.cut_width = outputs[0]->shape[3];
    how.passes = pass.passes;
    ops::draw_augmentation(context, how, random_key(pass), pass.samples, none_, rows);
    return rows;
  }

  /// Sums of all devices; a largest value has a place for each device, where the others add 0.
  void measure_colors(Pass& pass, const Tensor& x) {
    Context& context = *pass.context;
    const int devices = pass.exchange == nullptr ? 1 : pass.exchange->devices(),
              rank = pass.exchange == nullptr ? 0 : pass.exchange->rank();
    ensure(context, message_, Shape{4 + 3 * devices}, DType::f64);
    ensure(context, space_, Shape{10}, DType::f64);
    ops::fill(context, message_, 0);
    ops::color_moments(context, x, limits_.axes, rank, message_);
    sum_over_devices(pass, message_, {name().c_str(), "colors"});
    ops::finish_colors(context, message_, limits_.axes, space_);
  }

  void subtract_mean(Pass& pass, Tensor& y) {
    Context& context = *pass.context;
    const auto& s = settings();
    if (!has_mean() && !has_fixed_mean()) return;
    const std::int64_t pixels = y.shape()[2] * y.shape()[3];
    const bool per_pixel = has_mean() && s.mean_per_pixel();
    if (has_mean()) {
      if (learns_mean() && pass.update_statistics) update_mean(pass, y);
      const Tensor& mean = parameters_[per_pixel ? 1 : 2].value;
      ensure(context, minus_, mean.shape(), dtype());
      ops::axpby(context, -1, mean, 0, minus_);
    } else {
      ensure(context, minus_, Shape{3}, dtype());
      for (int c = 0; c < 3; ++c) {
        Tensor one = minus_.slice(c, Shape{1});
        ops::fill(context, one, -static_cast<double>(s.mean(c)));
      }
    }
    const std::int64_t inner = per_pixel ? 1 : pixels;
    ops::scale_bias(context, y, none_, minus_, {y.shape()[0], minus_.count(), inner}, {}, y);
  }

  void update_mean(Pass& pass, const Tensor& y) {
    Context& context = *pass.context;
    const bool per_pixel = settings().mean_per_pixel();
    Tensor &of_pixels = parameters_[1].value, &of_channels = parameters_[2].value;
    const Tensor seen = per_pixel ? y.reshaped(Shape{y.shape()[0], of_pixels.count()}) : y;
    ensure(context, moments_, Shape{1 + 2 * seen.shape()[1]}, DType::f64);
    ops::batch_moments(context, seen, moments_);
    if (pass.exchange != nullptr && pass.exchange->devices() > 1)
      pass.exchange->all_reduce(context, moments_, Merge::moments, 0, {name().c_str(), "mean"});
    ops::running_mean(context, moments_, settings().recompute_mean(), per_pixel ? of_pixels : of_channels,
                      parameters_[0].value);
    const std::int64_t pixels = of_pixels.count() / channels_;
    Tensor& derived = per_pixel ? of_channels : of_pixels;
    ops::fill(context, derived, 0);
    if (per_pixel) {
      ops::scale_backward(context, none_, of_pixels, {1, channels_, pixels}, of_channels);
      ops::axpby(context, 1 / static_cast<double>(pixels), of_channels, 0, of_channels);
    } else {
      ops::scale_bias(context, of_pixels, none_, of_channels, {1, channels_, pixels}, {}, of_pixels);
    }
  }

  std::int64_t channels_ = 0;
  bool has_axes_ = false, measures_ = false;
  ops::AugmentationDraws draws_;
  ops::ColorLimits limits_;
  Tensor rows_, table_, message_, space_, minus_, moments_, none_;
};

const RegisterLayer<DataAugmentationLayer> registered_data_augmentation(
    "DataAugmentation",
    {.about = "images cut, moved and coloured at random, without their mean (FlowNet2)",
     .message = "augmentation_param",
     .examples =
         {"crop_height: 5 crop_width: 6 max_multiplier: 3 rotate { spread: 0.1 } translate { spread: 0.1 } "
          "noise { mean: 0.1 } gamma { mean: 1.2 } recompute_mean: 2 "
          "lmult_pow { rand_type: 'gaussian' exp: true spread: 0.1 } "
          "chromatic_eigvec: [0.51, 0.56, 0.65, 0.79, 0.01, -0.62, 0.35, -0.83, 0.44]",
          "mean: 1 mean: 2 mean: 3 mean_per_pixel: false",
          "crop_height: 8 crop_width: 9 recompute_mean: 3 mean_per_pixel: false"},
     .inputs = {{3, 8, 9}},
     .further = {"coeff_schedule_param"}});

}  // namespace
}  // namespace banyan
