// DenseCRF (Kraehenbuehl and Koltun 2011): refines scores x (N x C x H x W) of C classes by mean-field
// inference in a conditional random field that joins all pixels of an image. It begins with q = softmax of x
// along the classes, and repeats
//
//   q = softmax of (x + sum over the filters k of w_k * (q filtered by k, divided by 1 filtered likewise))
//
// A filter is exp(-d^2 / 2), where d is the distance of two pixels, each coordinate divided by its deviation:
// of places alone, or of places and the colours of images (N x 3 x H x W, blue first).
//
// With three inputs and dense_crf_param it is DeepLab's: x, the height and width of what is real in the upper
// left corner of each image (N x 2 or more; elsewhere the output is 0), and images; the output is q or its
// logarithm. With two, x and images, and densecrf_param it is that of CCNN: one filter of each kind, 10
// repetitions; the output is the class with the largest q (N x 1 x H x W).
//
// There are no parameters and no gradients. The filters are permutohedral lattices, made on the host.
#include <algorithm>
#include <cmath>
#include <limits>

#include "banyan/ops/basic.hpp"
#include "banyan/ops/loss.hpp"
#include "lattice_layer.hpp"

namespace banyan {
namespace {

class DenseCrfLayer : public LatticeLayer {
 public:
  DenseCrfLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : LatticeLayer(parameter, options,
                     {.arity = {2, 3, 1, 1},
                      .backward_reads_inputs = false,
                      .backward_reads_outputs = false,
                      .differentiable_inputs = 0}) {}

  void read_settings() override {
    const caffe::DenseCRFParameter& lists = parameter_.dense_crf_param();
    if (lists.pos_w_size() != lists.pos_xy_std_size())
      refuse("expected a pos_w and a pos_xy_std for each filter; found ", lists.pos_w_size(), " and ",
             lists.pos_xy_std_size());
    if (lists.bi_w_size() != lists.bi_xy_std_size() || lists.bi_w_size() != lists.bi_rgb_std_size())
      refuse("expected a bi_w, a bi_xy_std and a bi_rgb_std for each filter; found ", lists.bi_w_size(), ", ",
             lists.bi_xy_std_size(), " and ", lists.bi_rgb_std_size());
    if (lists.max_iter() < 0) refuse("max_iter must not be negative; found ", lists.max_iter());
    for (const bool labels : {false, true})
      for (const Filter& filter : read_filters(labels)) {
        if (!std::isfinite(filter.weight)) refuse("a filter's weight must be finite; found ", filter.weight);
        for (const double deviation : filter.deviations)
          if (!(deviation >= 1e-3) || !std::isfinite(deviation))
            refuse("a filter's deviation must be 0.001 or more, and finite; found ", deviation);
      }
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    gives_labels_ = inputs.size() == 2;
    if (gives_labels_ && parameter_.has_dense_crf_param())
      refuse("takes three inputs with dense_crf_param: scores, heights and widths, and images");
    if (!gives_labels_ && parameter_.has_densecrf_param())
      refuse("takes two inputs with densecrf_param: scores and images");
    filters_ = read_filters(gives_labels_);
    repetitions_ = gives_labels_ ? 10 : parameter_.dense_crf_param().max_iter();
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Blob& images = *inputs.back();
    maps_ = image_shape(*inputs[0]);
    if (const Shape wanted{maps_[0], 3, maps_[2], maps_[3]}; images.shape != wanted)
      refuse("the images ", quoted(images.name), " are ", images.shape.to_string(), "; expected ",
             wanted.to_string());
    if (maps_[1] == 0) refuse(quoted(inputs[0]->name), " has no classes");
    if (maps_.count(2) > std::numeric_limits<std::int32_t>::max() / 6)
      refuse("images of ", maps_[3], " x ", maps_[2], " pixels are too large");
    if (!gives_labels_) {
      const Shape& sizes = inputs[1]->shape;
      if (sizes.axes() == 0 || sizes[0] != maps_[0] || (maps_[0] > 0 && sizes.count(1) < 2))
        refuse("the sizes ", quoted(inputs[1]->name), " are ", sizes.to_string(), "; expected ", maps_[0],
               " x 2: a height and a width for each image");
    }
    set_output(*outputs[0], gives_labels_ ? Shape{maps_[0], 1, maps_[2], maps_[3]} : maps_);
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    if (maps_.count() == 0) return;
    Context& context = *pass.context;
    const Values scores = values_of(context, inputs[0]->data),
                 images = values_of(context, inputs.back()->data);
    Values sizes;
    if (!gives_labels_) sizes = values_of(context, inputs[1]->data);
    result_.assign(static_cast<std::size_t>(outputs[0]->shape.count()), 0);
    for (std::int64_t n = 0; n < maps_[0]; ++n) {
      const Region region = region_of(sizes, n);
      if (region.pixels() == 0) continue;
      infer(context, region, scores, images);
      write(region, values_of(context, q_));
    }
    set_values(context, result_, outputs[0]->data);
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

  /// Without the lattices' vertices, whose number the colours decide.
  double forward_flops(const Blobs&, const Blobs&) const override {
    return static_cast<double>(repetitions_) * static_cast<double>(maps_.count()) *
           (2 + 6 * static_cast<double>(filters_.size()));
  }

 private:
  /// Deviations of columns and rows, and, unless it is of places alone, of the three channels.
  struct Filter {
    double weight = 0;
    std::vector<double> deviations;
  };
  /// The upper left corner of an image.
  struct Region {
    std::int64_t image = 0, height = 0, width = 0;
    std::int64_t pixels() const { return height * width; }
  };

  std::vector<Filter> read_filters(bool of_labels) const {
    std::vector<Filter> filters;
    if (of_labels) {
      const caffe::CcnnDenseCRFParameter& one = parameter_.densecrf_param();
      filters.push_back({one.wt_gauss(), {one.x_gauss(), one.y_gauss()}});
      filters.push_back(
          {one.wt_bilateral(),
           {one.x_bilateral(), one.y_bilateral(), one.b_bilateral(), one.g_bilateral(), one.r_bilateral()}});
      return filters;
    }
    const caffe::DenseCRFParameter& lists = parameter_.dense_crf_param();
    for (int k = 0; k < lists.pos_w_size(); ++k)
      filters.push_back({lists.pos_w(k), {lists.pos_xy_std(k), lists.pos_xy_std(k)}});
    for (int k = 0; k < lists.bi_w_size(); ++k) {
      const double place = lists.bi_xy_std(k), color = lists.bi_rgb_std(k);
      filters.push_back({lists.bi_w(k), {place, place, color, color, color}});
    }
    return filters;
  }

  /// What is real of image n.
  Region region_of(const Values& sizes, std::int64_t n) {
    Region region{n, maps_[2], maps_[3]};
    if (gives_labels_) return region;
    const std::size_t per_image = sizes.values.size() / static_cast<std::size_t>(maps_[0]);
    const double height = sizes.values[static_cast<std::size_t>(n) * per_image],
                 width = sizes.values[static_cast<std::size_t>(n) * per_image + 1];
    const auto usable = [](double size) { return size >= 0 && size < 1e9; };  // a NaN is not
    if (!usable(height) || !usable(width)) {
      note_problem(cat("image ", n, " has the size ", height, " x ", width));
      return {n, 0, 0};
    }
    region.height = std::min(region.height, static_cast<std::int64_t>(height));
    region.width = std::min(region.width, static_cast<std::int64_t>(width));
    return region;
  }

  std::size_t place(const Region& region, std::int64_t channels, std::int64_t channel, std::int64_t p) const {
    const std::int64_t row = p / region.width, column = p % region.width;
    return static_cast<std::size_t>(((region.image * channels + channel) * maps_[2] + row) * maps_[3] +
                                    column);
  }

  std::vector<double> features(const Region& region, const Filter& filter, const Values& images) {
    std::vector<double> features;
    features.reserve(filter.deviations.size() * static_cast<std::size_t>(region.pixels()));
    for (std::int64_t p = 0; p < region.pixels(); ++p) {
      features.push_back(static_cast<double>(p % region.width) / filter.deviations[0]);
      features.push_back(static_cast<double>(p / region.width) / filter.deviations[1]);
      for (std::size_t d = 2; d < filter.deviations.size(); ++d) {
        const double color = images.values[place(region, 3, static_cast<std::int64_t>(d) - 2, p)];
        features.push_back(color_coordinate(region.image, color, filter.deviations[d], "a deviation of"));
      }
    }
    return features;
  }

  /// Leaves q of the region in q_: pixels x C.
  void infer(Context& context, const Region& region, const Values& scores, const Values& images) {
    const std::int64_t classes = maps_[1];
    const Shape size{region.height, region.width};
    lattices_.resize(filters_.size());
    for (std::size_t k = 0; k < filters_.size(); ++k) {
      const bool has_colors = filters_[k].deviations.size() > 2;
      if (!has_colors && places_of_ == size) continue;
      bring(context,
            Permutohedral(features(region, filters_[k], images),
                          static_cast<int>(filters_[k].deviations.size()), context.device().threads()),
            lattices_[k]);
    }
    places_of_ = size;
    std::vector<double> rows;
    rows.reserve(static_cast<std::size_t>(region.pixels() * classes));
    for (std::int64_t p = 0; p < region.pixels(); ++p)
      for (std::int64_t c = 0; c < classes; ++c) rows.push_back(scores.values[place(region, classes, c, p)]);
    for (Tensor* tensor : {&unary_, &sums_, &filtered_, &q_})
      ensure(context, *tensor, Shape{region.pixels(), classes}, dtype());
    set_values(context, rows, unary_);
    ops::softmax_forward(context, unary_, {region.pixels(), classes, 1}, q_);
    for (int repetition = 0; repetition < repetitions_; ++repetition) {
      ops::axpby(context, 1, unary_, 0, sums_);
      for (std::size_t k = 0; k < filters_.size(); ++k) {
        apply(context, lattices_[k], q_, {}, filtered_);
        ops::axpby(context, filters_[k].weight, filtered_, 1, sums_);
      }
      ops::softmax_forward(context, sums_, {region.pixels(), classes, 1}, q_);
    }
  }

  void write(const Region& region, const Values& q) {
    const std::int64_t classes = maps_[1];
    for (std::int64_t p = 0; p < region.pixels(); ++p) {
      const auto first = q.values.begin() + static_cast<std::ptrdiff_t>(p * classes);
      if (gives_labels_) {
        result_[place(region, 1, 0, p)] =
            static_cast<double>(std::max_element(first, first + classes) - first);
        continue;
      }
      for (std::int64_t c = 0; c < classes; ++c) {
        const double one = first[c], least = std::numeric_limits<float>::min();
        result_[place(region, classes, c, p)] =
            parameter_.dense_crf_param().output_probability() ? one : std::log(std::max(one, least));
      }
    }
  }

  bool gives_labels_ = false;
  int repetitions_ = 0;
  std::vector<Filter> filters_;
  Shape maps_;
  Shape places_of_;  ///< height and width for which the lattices of places alone were made
  std::vector<LatticeTensors> lattices_;
  Tensor unary_, sums_, filtered_, q_;
  std::vector<double> result_;
};

const RegisterLayer<DenseCrfLayer> registered_dense_crf(
    "DenseCRF", {.about = "refines scores in a CRF that joins all pixels (DeepLab, CCNN)",
                 .message = "dense_crf_param",
                 .examples = {"max_iter: 3 pos_w: 3 pos_xy_std: 2 bi_w: 4 bi_xy_std: 5 bi_rgb_std: 3"},
                 .inputs = {{3, 4, 5}, {2}, {3, 4, 5}},
                 .further = {"densecrf_param"}});

}  // namespace
}  // namespace banyan
