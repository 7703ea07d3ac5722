// UniqueLabel (DeepLab): the different values in each sample of a map of labels (N, 1, H, W), in ascending
// order, those of force_label included and those of ignore_label left out: (N, max_labels, 1, 1), filled up
// with -1.
#include <limits>

#include "banyan/layers/index_note.hpp"
#include "banyan/layers/layer.hpp"
#include "label_list.hpp"

namespace banyan {
namespace {

class UniqueLabelLayer : public Layer {
 public:
  UniqueLabelLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 0,
               .label_input = 0}) {}

  void read_settings() override {
    const auto& s = parameter_.unique_label_param();
    if (s.max_labels() < 1) refuse("max_labels must be given and positive; found ", s.max_labels());
    if (s.max_labels() <= s.force_label_size())
      refuse("max_labels, ", s.max_labels(), ", must be more than the ", s.force_label_size(),
             " force_label");
    ignored_ = label_list(s.ignore_label(), name(), "ignore_label");
    forced_ = label_list(s.force_label(), name(), "force_label");
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& input = inputs[0]->shape;
    if (input.axes() < 2 || input[1] != 1)
      refuse("input ", quoted(inputs[0]->name), " of shape ", input.to_string(),
             " must have one channel of labels");
    set_output(*outputs[0], Shape{input[0], most(), 1, 1});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    ensure(context, last_, Shape{inputs[0]->shape[0]}, DType::f64);
    ops::fill(context, last_, -std::numeric_limits<double>::infinity());
    for (std::int64_t place = 0; place <= most(); ++place)
      ops::next_value(context, inputs[0]->data, ignored_, forced_, place, last_, outputs[0]->data);
    ops::note_finite(context, last_, note_.on(context));
  }

  void backward(Pass&, const Blobs&, const std::vector<bool>&, const Blobs&) override {}

  void check_results(Context& context) override {
    note_.check(context, [&](const IndexNote::Found& found) {
      refuse("sample ", found.number, " has more than max_labels (", most(), ") labels; the next one is ",
             found.value);
    });
  }

 private:
  std::int64_t most() const { return parameter_.unique_label_param().max_labels(); }

  ops::LabelList ignored_, forced_;
  Tensor last_;
  IndexNote note_;
};

const RegisterLayer<UniqueLabelLayer> registered_unique_label(
    "UniqueLabel", {.about = "lists the different labels of each sample (DeepLab)",
                    .message = "unique_label_param",
                    .examples = {"max_labels: 5 force_label: 9 ignore_label: 2"},
                    .inputs = {{1, 5, 5}}});

}  // namespace
}  // namespace banyan
