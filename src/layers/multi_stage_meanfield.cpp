// MultiStageMeanfield (CRF-RNN, Zheng et al. 2015): iterations of mean-field inference in a conditional
// random field that joins all pixels of an image. Inputs: scores u (N x L x H x W) of L classes, scores of
// the same shape with which it begins (usually the same), and images (N x 3 x H x W). In each iteration
//
//   q = softmax of the scores along the classes;  s, b = q filtered, divided by 1 filtered likewise
//   scores = u - C (S s + B b)
//
// where s is filtered by exp(-distance^2 / (2 theta_gamma^2)) and b by exp(-distance^2 / (2 theta_alpha^2) -
// difference of colours^2 / (2 theta_beta^2)). The output are the last scores. Parameters, each 1 x 1 x L x
// L: S and B, which begin with the settings' weights on the diagonal, and C, which begins with -1 there.
//
// The filters are permutohedral lattices, as in the branch. Those of the colours are made on the host for
// each image of a batch; all else is computed on the device. Images get no gradient, as there.
#include <cmath>
#include <limits>
#include <sstream>

#include "banyan/ops/basic.hpp"
#include "banyan/ops/loss.hpp"
#include "lattice_layer.hpp"

namespace banyan {
namespace {

class MultiStageMeanfieldLayer : public LatticeLayer {
 public:
  MultiStageMeanfieldLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LatticeLayer(parameter, options,
                     {.arity = {3, 3, 1, 1}, .backward_reads_outputs = false, .differentiable_inputs = 2}) {}

  void read_settings() override {
    if (settings().num_iterations() < 1) refuse("num_iterations must be positive");
    if (settings().is_no_class_weights() || settings().detection_potentials_enabled() ||
        settings().ho_potentials_enabled())
      refuse(
          "is_no_class_weights, detection_potentials_enabled and ho_potentials_enabled are not supported; "
          "only pairs of pixels have potentials, with a weight for each class");
    const auto check = [&](const char* name, double theta) {
      if (!(theta >= 1e-3) || !std::isfinite(theta)) refuse(name, " must be 0.001 or more; found ", theta);
    };
    check("theta_alpha", settings().theta_alpha());
    check("theta_beta", settings().theta_beta());
    check("theta_gamma", settings().theta_gamma());
    if (!std::isfinite(settings().spatial_filter_weight()) ||
        !std::isfinite(settings().bilateral_filter_weight()))
      refuse("spatial_filter_weight and bilateral_filter_weight must be finite; found ",
             settings().spatial_filter_weight(), " and ", settings().bilateral_filter_weight());
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    classes_ = image_shape(*inputs[0])[1];
    declare_diagonal(weights("spatial_filter_weights_str", settings().spatial_filter_weights_str(),
                             settings().spatial_filter_weight()));
    declare_diagonal(weights("bilateral_filter_weights_str", settings().bilateral_filter_weights_str(),
                             settings().bilateral_filter_weight()));
    declare_diagonal(std::vector<double>(static_cast<std::size_t>(classes_), -1.0));
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &unary = image_shape(*inputs[0]), &first = inputs[1]->shape, &image = inputs[2]->shape;
    if (unary[1] != classes_)
      refuse("input ", quoted(inputs[0]->name), " has ", unary[1], " channels; the weights are for ",
             classes_);
    if (first != unary)
      refuse(quoted(inputs[0]->name), " is ", unary.to_string(), " and ", quoted(inputs[1]->name), " ",
             first.to_string(), "; expected the same shape");
    if (const Shape wanted{unary[0], 3, unary[2], unary[3]}; image != wanted)
      refuse("the images ", quoted(inputs[2]->name), " are ", image.to_string(), "; expected ",
             wanted.to_string());
    if (unary.count(2) > std::numeric_limits<std::int32_t>::max() / 6)
      refuse("images of ", unary[3], " x ", unary[2], " pixels are too large");
    if (unary.count(2) == 0) refuse("images of ", unary[3], " x ", unary[2], " pixels have no pixels");
    maps_ = unary;
    set_output(*outputs[0], unary);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    if (maps_.count() == 0) return;
    Context& context = *pass.context;
    make_lattices(context, inputs[2]->data);
    infer(context, inputs, options().net_phase == Phase::train ? iterations() : 1);
    ops::copy(context, as_maps(scores_), outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (maps_.count() == 0) return;
    Context& context = *pass.context;
    if (stages_.size() < iterations()) infer(context, inputs, iterations());
    for (Tensor* rows : {&d_scores_, &d_unary_, &d_message_, &d_filtered_, &d_q_})
      ensure_rows(context, *rows);
    to_rows(context, outputs[0]->grad, d_scores_);
    ops::fill(context, d_unary_, 0);
    for (std::size_t i = iterations(); i-- > 0;) {
      const Stage& stage = stages_[i];
      ops::axpby(context, 1, d_scores_, 1, d_unary_);
      if (Tensor& grad = parameters_[2].grad; grad.defined()) {
        make_message(context, stage);
        add_product(context, -1, d_scores_, message_, grad);
      }
      ops::gemm(context, {false, false, row_count(), classes_, classes_}, -1, d_scores_, parameters_[2].value,
                0, d_message_);
      for (std::size_t kind = 0; kind < 2; ++kind) {
        if (Tensor& grad = parameters_[kind].grad; grad.defined())
          add_product(context, 1, d_message_, kind == 0 ? stage.spatial : stage.bilateral, grad);
        ops::gemm(context, {false, false, row_count(), classes_, classes_}, 1, d_message_,
                  parameters_[kind].value, 0, d_filtered_);
        filter(context, kind, true, d_filtered_, d_q_);
      }
      ops::softmax_backward(context, stage.q, d_q_, {row_count(), classes_, 1}, d_scores_);
    }
    if (propagate[0]) ops::copy(context, as_maps(d_unary_), inputs[0]->grad);
    if (propagate[1]) ops::copy(context, as_maps(d_scores_), inputs[1]->grad);
  }

  /// Without the lattices' vertices, whose number the colours decide.
  double forward_flops(const Blobs&, const Blobs&) const override {
    const auto classes = static_cast<double>(classes_), points = static_cast<double>(maps_.count());
    return static_cast<double>(settings().num_iterations()) * points * (3 * classes + 2 * (3 + 6));
  }

 private:
  /// What an iteration leaves for the backward pass: N * H * W x L each.
  struct Stage {
    Tensor q, spatial, bilateral;
  };

  const caffe::MultiStageMeanfieldParameter& settings() const {
    return parameter_.multi_stage_meanfield_param();
  }
  std::size_t iterations() const { return settings().num_iterations(); }
  std::int64_t row_count() const { return maps_[0] * pixels(); }
  std::int64_t pixels() const { return maps_.count(2); }

  /// A number for each class: those of `text`, or `weight` for all.
  std::vector<double> weights(const char* name, const std::string& text, double weight) const {
    const auto classes = static_cast<std::size_t>(classes_);
    if (text.empty()) return std::vector<double>(classes, weight);
    std::vector<double> numbers;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      std::istringstream number(word);
      if (!(number >> numbers.emplace_back()) || number.peek() != std::istringstream::traits_type::eof())
        refuse(name, " must be ", classes_, " numbers, one for each class; found ", quoted(word));
    }
    if (numbers.size() != classes)
      refuse(name, " has ", numbers.size(), " numbers; expected ", classes_, ", one for each class");
    return numbers;
  }

  void declare_diagonal(const std::vector<double>& numbers) {
    caffe::FillerParameter filler;
    filler.set_type("diagonal");
    for (const double number : numbers) filler.add_diag_val(static_cast<float>(number));
    declare(Shape{1, 1, classes_, classes_}, filler);
  }

  /// The lattice of the positions, unless there is one for this size, and one for each image.
  void make_lattices(Context& context, const Tensor& images) {
    if (const Shape size{maps_[2], maps_[3]}; size != spatial_size_) {
      const double theta = settings().theta_gamma();
      std::vector<double> features;
      for (std::int64_t p = 0; p < pixels(); ++p)
        for (const std::int64_t at : {p % maps_[3], p / maps_[3]})
          features.push_back(static_cast<double>(at) / theta);
      bring(context, Permutohedral(features, 2, context.device().threads()), spatial_);
      spatial_size_ = size;
    }
    const Values colors = values_of(context, images);
    bilateral_.resize(static_cast<std::size_t>(maps_[0]));
    for (std::int64_t n = 0; n < maps_[0]; ++n)
      bring(context, Permutohedral(bilateral_features(colors, n), 5, context.device().threads()),
            bilateral_[static_cast<std::size_t>(n)]);
  }

  std::vector<double> bilateral_features(const Values& colors, std::int64_t image) {
    const double alpha = settings().theta_alpha(), beta = settings().theta_beta();
    std::vector<double> features;
    features.reserve(static_cast<std::size_t>(5 * pixels()));
    for (std::int64_t p = 0; p < pixels(); ++p) {
      features.push_back(static_cast<double>(p % maps_[3]) / alpha);
      features.push_back(static_cast<double>(p / maps_[3]) / alpha);
      for (std::int64_t channel = 0; channel < 3; ++channel) {
        const double color = colors.values[static_cast<std::size_t>((3 * image + channel) * pixels() + p)];
        features.push_back(color_coordinate(image, color, beta, "theta_beta"));
      }
    }
    return features;
  }

  /// Leaves the last scores in scores_, and what the last `kept` iterations computed in stages_.
  void infer(Context& context, const Blobs& inputs, std::size_t kept) {
    stages_.resize(kept);
    for (Stage& stage : stages_)
      for (Tensor* rows : {&stage.q, &stage.spatial, &stage.bilateral}) ensure_rows(context, *rows);
    for (Tensor* rows : {&unary_, &scores_, &message_}) ensure_rows(context, *rows);
    to_rows(context, inputs[0]->data, unary_);
    to_rows(context, inputs[1]->data, scores_);
    for (std::size_t i = 0; i < iterations(); ++i) {
      Stage& stage = stages_[i % kept];
      ops::softmax_forward(context, scores_, {row_count(), classes_, 1}, stage.q);
      filter(context, 0, false, stage.q, stage.spatial);
      filter(context, 1, false, stage.q, stage.bilateral);
      make_message(context, stage);
      ops::axpby(context, 1, unary_, 0, scores_);
      ops::gemm(context, {false, true, row_count(), classes_, classes_}, -1, message_, parameters_[2].value,
                1, scores_);
    }
  }

  void make_message(Context& context, const Stage& stage) {
    ops::gemm(context, {false, true, row_count(), classes_, classes_}, 1, stage.spatial, parameters_[0].value,
              0, message_);
    ops::gemm(context, {false, true, row_count(), classes_, classes_}, 1, stage.bilateral,
              parameters_[1].value, 1, message_);
  }

  /// grad += factor * (transposed of dy) x.
  void add_product(Context& context, double factor, const Tensor& dy, const Tensor& x, Tensor& grad) const {
    ops::gemm(context, {true, false, classes_, classes_, row_count()}, factor, dy, x, 1, grad);
  }

  /// y = x filtered, image by image: 0 by the positions, 1 by the colours too. `transposed`: by the
  /// transposed matrices; what kind 1 gives is added to y.
  void filter(Context& context, std::size_t kind, bool transposed, const Tensor& x, Tensor& y) {
    for (std::int64_t n = 0; n < maps_[0]; ++n) {
      Tensor to = of_image(y, n);
      apply(context, kind == 0 ? spatial_ : bilateral_[static_cast<std::size_t>(n)], of_image(x, n),
            {.transposed = transposed, .add = transposed && kind == 1}, to);
    }
  }

  Tensor of_image(const Tensor& rows, std::int64_t n) const {
    return rows.slice(n * pixels() * classes_, Shape{pixels(), classes_});
  }
  void ensure_rows(Context& context, Tensor& tensor) const {
    ensure(context, tensor, Shape{row_count(), classes_}, dtype());
  }
  /// Rows of classes as the maps that they are, the channel innermost.
  Tensor as_maps(const Tensor& rows) const { return rows.slice(0, maps_, Layout::channels_last); }
  void to_rows(Context& context, const Tensor& maps, Tensor& rows) const {
    Tensor to = as_maps(rows);
    ops::copy(context, maps, to);
  }

  std::int64_t classes_ = 0;
  Shape maps_, spatial_size_;
  LatticeTensors spatial_;
  std::vector<LatticeTensors> bilateral_;  ///< of each image
  std::vector<Stage> stages_;
  Tensor unary_, scores_, message_;
  Tensor d_scores_, d_unary_, d_message_, d_filtered_, d_q_;
};

const RegisterLayer<MultiStageMeanfieldLayer> registered_multi_stage_meanfield(
    "MultiStageMeanfield",
    {.about = "mean-field inference in a CRF that joins all pixels (CRF-RNN)",
     .message = "multi_stage_meanfield_param",
     .examples = {"num_iterations: 2 theta_alpha: 4 theta_beta: 2 theta_gamma: 3 spatial_filter_weight: 0.5 "
                  "bilateral_filter_weight: 0.8"},
     .inputs = {{3, 4, 5}, {3, 4, 5}, {3, 4, 5}}});

}  // namespace
}  // namespace banyan
