// MemoryData: a batch of images and their labels that the program puts in (Net::set_input,
// Session::set_input), without any transformation; they stay until the next ones.
#include <algorithm>
#include <array>

#include "banyan/layers/layer.hpp"

namespace banyan {
namespace {

class MemoryDataLayer : public Layer {
 public:
  MemoryDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {0, 0, 2, 2},
               .source = true,
               .filled_by_user = true,
               .backward_reads_outputs = false,
               .repeatable = false}) {}

  void check_settings() const override {
    const auto& s = parameter_.memory_data_param();
    if (s.batch_size() == 0 || s.channels() == 0 || s.height() == 0 || s.width() == 0)
      refuse("memory_data_param must have positive batch_size, channels, height and width, found ",
             s.batch_size(), ", ", s.channels(), ", ", s.height(), " and ", s.width());
    if (parameter_.has_transform_param())
      refuse(
          "transform_param has no effect on values that a program puts in: leave it out, and put in values "
          "as "
          "the net needs them");
  }
  void setup(const Blobs&, const Blobs& outputs) override {
    check_settings();
    const auto& s = parameter_.memory_data_param();
    set_output(*outputs[0], Shape{s.batch_size(), s.channels(), s.height(), s.width()});
    set_output(*outputs[1], Shape{s.batch_size()});
  }
  void reshape(const Blobs&, const Blobs&) override {}
  void prepare(Pass&, const Blobs& outputs) override {
    for (std::size_t i = 0; i < filled_.size(); ++i)
      if (!filled_[i])
        refuse(
            "nothing was put into its output ", quoted(outputs[i]->name),
            ": a program does that by Session::set_input or Net::set_input; to train without a program, read "
            "the data from a file (Data, HDF5Data, ImageData)");
  }
  void filled(std::size_t output) override { filled_.at(output) = true; }
  void forward(Pass&, const Blobs&, const Blobs&) override {}
  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

 private:
  std::array<bool, 2> filled_{};
};

const RegisterLayer<MemoryDataLayer> registered_memory_data(
    "MemoryData", {"images and labels that the program puts in", "memory_data_param", {}});

}  // namespace
}  // namespace banyan
