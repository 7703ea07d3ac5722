// CompactBilinear (Gao et al. 2016): maps N x A x H x W and N x B x H x W; at each place all products a_i b_j
// of their channels, gathered in a sketch of num_output channels: product (i, j) counts in channel h(i) +
// g(j) modulo num_output, with the sign s(i) t(j). Summed over all places with sum_pool (N x num_output x 1 x
// 1). That is the circular convolution of two count sketches; since each has but A or B values, it takes A B
// products per place without a Fourier transform. All of it counts num_output times, since the branch's
// inverse transform does not divide.
//
// h, g, s and t are drawn as the branch has them drawn by glibc's rand() after srand(1), so that weights
// trained with it fit.
#include <vector>

#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/products.hpp"

namespace banyan {
namespace {

/// glibc's rand() after srand(1): an additive feedback generator, r(i) = r(i - 3) + r(i - 31).
class NumbersOfGlibc {
 public:
  NumbersOfGlibc() {
    std::int64_t last = 1;
    for (std::size_t i = 0; i < kLength; ++i) {
      state_[i] = static_cast<std::uint32_t>(last);
      last = last * 16807 % 2147483647;
    }
    for (int i = 0; i < 310; ++i) next();
  }
  std::int32_t next() {
    state_[at_] += state_[(at_ + kLength - 3) % kLength];
    const std::uint32_t found = state_[at_];
    at_ = (at_ + 1) % kLength;
    return static_cast<std::int32_t>(found >> 1);
  }

 private:
  static constexpr std::size_t kLength = 31;
  std::uint32_t state_[kLength];
  std::size_t at_ = 3;
};

class CompactBilinearLayer : public Layer {
 public:
  CompactBilinearLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1}, .by_sample = true, .backward_reads_outputs = false}) {}

  void read_settings() override {
    if (settings().num_output() < 1 || settings().num_output() > kMost)
      refuse("num_output must be 1 to ", kMost, "; found ", settings().num_output());
  }

  void setup(const Blobs& inputs, const Blobs&) override {
    sketch_ = {image_shape(*inputs[0])[1], image_shape(*inputs[1])[1], settings().num_output(),
               static_cast<double>(settings().num_output())};
    if (sketch_.a * sketch_.b > kMost)
      refuse("products of ", sketch_.a, " and ", sketch_.b, " channels are too many; at most ", kMost);
    draw();
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &a = image_shape(*inputs[0]), &b = image_shape(*inputs[1]);
    if (a[0] != b[0] || a[2] != b[2] || a[3] != b[3] || a[1] != sketch_.a || b[1] != sketch_.b)
      refuse("the inputs must differ in their channels only, of which there were ", sketch_.a, " and ",
             sketch_.b, " at first; ", quoted(inputs[0]->name), " is ", a.to_string(), ", ",
             quoted(inputs[1]->name), " is ", b.to_string());
    pixels_ = a[2] * a[3];
    set_output(*outputs[0], settings().sum_pool() ? Shape{a[0], sketch_.length, 1, 1}
                                                  : Shape{a[0], sketch_.length, a[2], a[3]});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    bring_tables(context);
    const Tensor &a = inputs[0]->data, &b = inputs[1]->data;
    if (!settings().sum_pool())
      return ops::sketch_pixels(context, a, b, starts_, entries_, sketch_, pixels_, outputs[0]->data);
    ensure(context, products_, Shape{sketch_.a, sketch_.b}, dtype());
    for (std::int64_t n = 0; n < a.shape()[0]; ++n) {
      ops::gemm(context, {false, true, sketch_.a, sketch_.b, pixels_}, sketch_.scale, of_sample(a, n),
                of_sample(b, n), 0, products_);
      Tensor y = of_sample(outputs[0]->data, n);
      ops::sketch_products(context, products_, starts_, entries_, y);
    }
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    Context& context = *pass.context;
    bring_tables(context);
    const Tensor& dy = outputs[0]->grad;
    if (!settings().sum_pool()) {
      for (std::size_t i = 0; i < 2; ++i)
        if (propagate[i])
          ops::sketch_pixels_backward(context, dy, inputs[1 - i]->data, hashes_, sketch_, pixels_, i == 1,
                                      inputs[i]->grad);
      return;
    }
    ensure(context, products_, Shape{sketch_.a, sketch_.b}, dtype());
    for (std::int64_t n = 0; n < dy.shape()[0]; ++n) {
      ops::sketch_products_backward(context, of_sample(dy, n), hashes_, sketch_, products_);
      for (std::size_t i = 0; i < 2; ++i) {
        if (!propagate[i]) continue;
        const std::int64_t rows = i == 0 ? sketch_.a : sketch_.b, others = i == 0 ? sketch_.b : sketch_.a;
        Tensor dx = of_sample(inputs[i]->grad, n);
        ops::gemm(context, {i == 1, false, rows, pixels_, others}, sketch_.scale, products_,
                  of_sample(inputs[1 - i]->data, n), 0, dx);
      }
    }
  }

  double forward_flops(const Blobs& inputs, const Blobs&) const override {
    return static_cast<double>(inputs[0]->shape[0]) * static_cast<double>(sketch_.a * sketch_.b) *
           static_cast<double>(pixels_);
  }

 private:
  static constexpr std::int64_t kMost = 1 << 28;

  const caffe::CompactBilinearParameter& settings() const { return parameter_.compact_bilinear_param(); }

  static Tensor of_sample(const Tensor& maps, std::int64_t n) {
    const std::int64_t count = maps.shape().count(1);
    return maps.slice(n * count, Shape{count});
  }

  /// Places and signs of all channels, then which products each place adds up, in ascending order.
  void draw() {
    NumbersOfGlibc numbers;
    for (const std::int64_t channels : {sketch_.a, sketch_.b}) {
      const std::size_t first = codes_.size();
      for (std::int64_t c = 0; c < channels; ++c)
        codes_.push_back(2 * (numbers.next() % static_cast<std::int32_t>(sketch_.length)));
      for (std::int64_t c = 0; c < channels; ++c)
        if (numbers.next() % 2 == 0) ++codes_[first + static_cast<std::size_t>(c)];
    }
    const auto products = static_cast<std::size_t>(sketch_.a * sketch_.b);
    first_entry_.assign(static_cast<std::size_t>(sketch_.length) + 1, 0);
    listed_.resize(products);
    for (std::size_t p = 0; p < products; ++p) ++first_entry_[place_of(p) + 1];
    for (std::size_t place = 1; place < first_entry_.size(); ++place)
      first_entry_[place] += first_entry_[place - 1];
    std::vector<std::int32_t> next = first_entry_;
    for (std::size_t p = 0; p < products; ++p) {
      const bool negative = (first_code(p) + second_code(p)) % 2 == 1;
      listed_[static_cast<std::size_t>(next[place_of(p)]++)] =
          2 * static_cast<std::int32_t>(p) + (negative ? 1 : 0);
    }
  }
  std::int32_t first_code(std::size_t product) const {
    return codes_[product / static_cast<std::size_t>(sketch_.b)];
  }
  std::int32_t second_code(std::size_t product) const {
    return codes_[static_cast<std::size_t>(sketch_.a) + product % static_cast<std::size_t>(sketch_.b)];
  }
  std::size_t place_of(std::size_t product) const {
    return static_cast<std::size_t>((first_code(product) / 2 + second_code(product) / 2) % sketch_.length);
  }

  void bring_tables(Context& context) {
    const auto bring = [&](const std::vector<std::int32_t>& from, Tensor& to) {
      to = Tensor(context.device(), Shape{static_cast<std::int64_t>(from.size())}, DType::i32);
      copy_from_host(context, from.data(), to);
    };
    if (hashes_.defined()) return;
    bring(codes_, hashes_);
    bring(first_entry_, starts_);
    bring(listed_, entries_);
  }

  ops::Sketch sketch_;
  std::int64_t pixels_ = 0;
  std::vector<std::int32_t> codes_, first_entry_, listed_;
  Tensor hashes_, starts_, entries_;  ///< these, see ops/products.hpp
  Tensor products_;                   ///< of one sample's channels, or its gradient
};

const RegisterLayer<CompactBilinearLayer> registered_compact_bilinear(
    "CompactBilinear", {.about = "products of all pairs of channels, in a sketch (Gao et al. 2016)",
                        .message = "compact_bilinear_param",
                        .examples = {"num_output: 7", "num_output: 6 sum_pool: false"},
                        .inputs = {{3, 2, 4}, {5, 2, 4}}});

}  // namespace
}  // namespace banyan
