// DummyData: constant or random blobs. One data_filler or shape for all outputs, or one for each (likewise
// the old num, channels, height, width). Random fillers draw new values in every pass; sample i of the global
// batch gets the same values whichever device holds it. Others give the same in every pass.
#include "banyan/layers/filler.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"

namespace banyan {
namespace {

class DummyDataLayer : public Layer {
 public:
  DummyDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(
            parameter, options,
            {.arity = {0, 0, 1, -1}, .source = true, .backward_reads_outputs = false, .repeatable = false}) {}

  void setup(const Blobs& inputs, const Blobs& outputs) override;
  void reshape(const Blobs&, const Blobs& outputs) override {
    for (std::size_t i = 0; i < outputs.size(); ++i) set_output(*outputs[i], shapes_[i]);
  }
  void prepare(Pass&, const Blobs& outputs) override { reshape({}, outputs); }
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  Shape read_shape(int output, int outputs) const;
  void fill_random(Pass& pass, const caffe::FillerParameter& filler, std::size_t output, Tensor& to);
  void fill_alike(Pass& pass, std::size_t output, Tensor& to);
  const caffe::DummyDataParameter& settings() const { return parameter_.dummy_data_param(); }

  std::vector<Shape> shapes_;
  std::vector<caffe::FillerParameter> fillers_;
  /// Of outputs that are neither constant nor random; their own memory may be another's between passes.
  std::vector<Tensor> kept_;
};

Shape DummyDataLayer::read_shape(int output, int outputs) const {
  const auto& s = settings();
  const bool old = s.num_size() + s.channels_size() + s.height_size() + s.width_size() > 0;
  if (old && s.shape_size() > 0)
    refuse("give either shape or num, channels, height and width (old), not both");
  const auto pick = [&](const char* field, int size) {
    if (size != 1 && size != outputs)
      refuse("expected one ", field, " or one for each of ", outputs, " outputs; found ", size);
    return size == 1 ? 0 : output;
  };
  std::vector<std::int64_t> dims;
  if (old) {
    dims = {s.num(pick("num", s.num_size())), s.channels(pick("channels", s.channels_size())),
            s.height(pick("height", s.height_size())), s.width(pick("width", s.width_size()))};
  } else {
    const auto& shape = s.shape(pick("shape", s.shape_size())).dim();
    dims.assign(shape.begin(), shape.end());
  }
  for (const std::int64_t dim : dims)
    if (dim < 0) refuse("shape holds the negative length ", dim);
  return Shape(dims);
}

void DummyDataLayer::setup(const Blobs&, const Blobs& outputs) {
  const int count = static_cast<int>(outputs.size()), fillers = settings().data_filler_size();
  if (fillers > 1 && fillers != count)
    refuse("expected at most one data_filler or one for each of ", count, " outputs; found ", fillers);
  for (int i = 0; i < count; ++i) {
    shapes_.push_back(read_shape(i, count));
    fillers_.push_back(fillers == 0 ? caffe::FillerParameter()
                                    : settings().data_filler(fillers == 1 ? 0 : i));
    check_filler(fillers_.back(), shapes_.back());
  }
  kept_.resize(outputs.size());
  reshape({}, outputs);
}

void DummyDataLayer::forward(Pass& pass, const Blobs&, const Blobs& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (fillers_[i].type() == "constant")
      ops::fill(*pass.context, outputs[i]->data, fillers_[i].value());
    else if (draws_values(fillers_[i]))
      fill_random(pass, fillers_[i], i, outputs[i]->data);
    else
      fill_alike(pass, i, outputs[i]->data);
  }
}

void DummyDataLayer::fill_alike(Pass& pass, std::size_t output, Tensor& to) {
  Context& context = *pass.context;
  Tensor& kept = kept_[output];
  if (!kept.defined()) {
    kept = Tensor(context.device(), to.shape(), to.dtype());
    dispatch_float(to.dtype(), "DummyData", [&]<class T>() {
      std::vector<T> values(static_cast<std::size_t>(to.count()));
      fill_values(fillers_[output], to.shape(), {pass.seed, name(), static_cast<int>(output)}, 1,
                  values.data());
      copy_from_host(context, values.data(), kept);
    });
  }
  ops::copy(context, kept, to);
}

/// Fills one sample at a time, like a parameter of one sample identified by the sample's position in the
/// whole run. Runs on the host: such a pass cannot be captured.
void DummyDataLayer::fill_random(Pass& pass, const caffe::FillerParameter& filler, std::size_t output,
                                 Tensor& to) {
  const Shape& shape = to.shape();
  const std::int64_t samples = shape.axes() == 0 ? 1 : shape[0];
  if (shape.count() == 0) return;
  std::vector<std::int64_t> one = shape.dims();
  if (!one.empty()) one[0] = 1;
  const std::int64_t size = shape.count() / samples;
  dispatch_float(to.dtype(), "DummyData", [&]<class T>() {
    std::vector<T> values(static_cast<std::size_t>(shape.count()));
    for (std::int64_t i = 0; i < samples; ++i) {
      const auto sample = static_cast<std::uint64_t>(pass.samples.first + i * pass.samples.stride);
      const auto draw = static_cast<std::uint64_t>(pass.draw);
      // Odd constants (from splitmix64) spread draws and samples over the seed's 64 bits.
      const std::uint64_t seed =
          pass.seed ^ (draw * 0x9E3779B97F4A7C15u) ^ (sample * 0xBF58476D1CE4E5B9u + sample);
      fill_values(filler, Shape(one), {seed, name(), static_cast<int>(output)}, 1, values.data() + i * size);
    }
    copy_from_host(*pass.context, values.data(), to);
  });
}

const RegisterLayer<DummyDataLayer> registered_dummy_data("DummyData", {"constant or random blobs",
                                                                        "dummy_data_param",
                                                                        {}});

}  // namespace
}  // namespace banyan
