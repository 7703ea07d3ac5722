// GenerateAugmentationParameters (FlowNet2): coefficients for DataAugmentation and FlowAugmentation, drawn
// and, unless the mode is "regenerate", joined with those of its first input. Inputs: images (or coefficients
// alone, with the images' size in the settings); or coefficients, images and what was cut out of them.
#include "layers/augmentation_layer.hpp"

namespace banyan {
namespace {

class GenerateAugmentationParametersLayer : public AugmentationLayer {
 public:
  GenerateAugmentationParametersLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : AugmentationLayer(parameter, options, {1, 3, 1, 1}) {}

  void read_settings() override {
    AugmentationLayer::read_settings();
    const std::string& mode = settings().mode();
    if (mode != "add" && mode != "replace" && mode != "regenerate")
      refuse("mode must be add, replace or regenerate; found ", quoted(mode));
    if (parameter_.bottom_size() == 2)
      refuse("takes one input, or coefficients, images and what was cut out of them; found two");
    if (parameter_.bottom_size() == 1) check_cut();
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const std::int64_t samples = image_shape(*inputs[0])[0];
    how_ = draws();
    const bool images = inputs.size() == 1 && (inputs[0]->shape[2] > 1 || inputs[0]->shape[3] > 1);
    using Mode = ops::AugmentationDraws::Mode;
    const std::string& mode = settings().mode();
    how_.mode = images || mode == "regenerate" ? Mode::regenerate
                : mode == "replace"            ? Mode::replace
                                               : Mode::add;
    if (!images) check_rows(*inputs[0], samples);
    if (inputs.size() == 3) {
      const Shape &whole = image_shape(*inputs[1]), &part = image_shape(*inputs[2]);
      set_sizes(whole[2], whole[3], part[2], part[3]);
    } else {
      const auto& s = settings();
      set_sizes(images ? inputs[0]->shape[2] : s.bottomheight(),
                images ? inputs[0]->shape[3] : s.bottomwidth(), s.crop_height(), s.crop_width());
    }
    if (how_.spatial() && (how_.height < 1 || how_.width < 1))
      refuse("an input that holds coefficients needs bottomwidth and bottomheight, the size of the images");
    set_output(*outputs[0], rows_shape(samples));
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    how_.passes = pass.passes;
    const bool joins = how_.mode != ops::AugmentationDraws::Mode::regenerate;
    ops::draw_augmentation(*pass.context, how_, random_key(pass), pass.samples,
                           joins ? inputs[0]->data : none_, outputs[0]->data);
  }

 private:
  void set_sizes(std::int64_t height, std::int64_t width, std::int64_t cut_height, std::int64_t cut_width) {
    how_.height = height;
    how_.width = width;
    how_.cut_height = cut_height;
    how_.cut_width = cut_width;
  }

  ops::AugmentationDraws how_;
  Tensor none_;
};

const RegisterLayer<GenerateAugmentationParametersLayer> registered_generate_augmentation_parameters(
    "GenerateAugmentationParameters",
    {.about = "random coefficients for DataAugmentation (FlowNet2)",
     .message = "augmentation_param",
     .examples = {"rotate { spread: 0.1 } gamma { rand_type: 'gaussian' exp: true spread: 0.2 }",
                  "mode: 'replace' zoom { exp: true spread: 0.1 } sat_mult { exp: true mean: 0.2 }",
                  "mode: 'regenerate' mirror { rand_type: 'bernoulli' prob: 0.5 }"},
     .inputs = {{42, 1, 1}, {3, 8, 9}, {3, 5, 6}},
     .further = {"coeff_schedule_param"}});

}  // namespace
}  // namespace banyan
