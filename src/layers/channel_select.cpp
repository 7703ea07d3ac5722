// ChannelSelect (torrvision/caffe-tvg): of masks (N, C, H, W) the channel 0 of the first one, and of each
// further one that of its detection's label: (N, 1, H, W). The second input lists the detections of all masks
// but the first, six numbers each of which the label is the first. Masks without a detection give 0. On
// several devices each has its own masks and detections.
#include <algorithm>
#include <utility>
#include <vector>

#include "banyan/layers/index_note.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/ops/elementwise.hpp"
#include "banyan/ops/rows.hpp"
#include "banyan/tensor/values.hpp"

namespace banyan {
namespace {

constexpr std::int64_t kNumbers = 6;  ///< of a detection: label, box, score

class ChannelSelectLayer : public Layer {
 public:
  ChannelSelectLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.arity = {2, 2, 1, 1},
               .backward_reads_inputs = false,
               .backward_reads_outputs = false,
               .differentiable_inputs = 1}) {}

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    masks_ = image_shape(*inputs[0]);
    const Shape& list = inputs[1]->shape;
    detections_ = list.count() / kNumbers;
    if (list.axes() < 2 || list.count() % kNumbers != 0 ||
        detections_ > std::max<std::int64_t>(masks_[0] - 1, 0))
      refuse("the detections ", quoted(inputs[1]->name), " have the shape ", list.to_string(),
             "; expected 1 x ", masks_[0] - 1, " x 1 x 6 or fewer: one less than the masks ",
             quoted(inputs[0]->name), ", which are ", masks_.to_string());
    reshaped_ = true;
    set_output(*outputs[0], Shape{masks_[0], 1, masks_[2], masks_[3]});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    if (masks_[0] == 0) return;
    find_rows(*pass.context, inputs[1]->data);
    ops::gather_rows(*pass.context, inputs[0]->data, masks_[0] * masks_[1], rows_, outputs[0]->data);
  }

  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override {
    if (!propagate[0]) return;
    ops::fill(*pass.context, inputs[0]->grad, 0);
    if (masks_[0] > 0)
      ops::add_to_rows(*pass.context, outputs[0]->grad, rows_, masks_[0] * masks_[1], inputs[0]->grad);
  }

  void check_results(Context& context) override {
    note_.check(context, [&](const IndexNote::Found& found) {
      refuse("detection ", found.number, " has the label ", found.value,
             "; the masks have the channels 0 to ", masks_[1] - 1);
    });
  }

 private:
  /// Rows of the masks are their channels. -1: there is no detection.
  void find_rows(Context& context, const Tensor& list) {
    ensure(context, rows_, Shape{masks_[0]}, dtype());
    if (std::exchange(reshaped_, false)) {
      ensure(context, firsts_, Shape{masks_[0]}, dtype());
      std::vector<double> firsts(static_cast<std::size_t>(masks_[0]), -1);
      for (std::int64_t mask = 0; mask <= detections_; ++mask)
        firsts[static_cast<std::size_t>(mask)] = static_cast<double>(mask * masks_[1]);
      set_values(context, firsts, firsts_);
    }
    ops::fill(context, rows_, 0);
    if (detections_ > 0) {
      ops::note_outside(context, list, kNumbers, masks_[1], note_.on(context));
      ops::copy_blocks(context, list, rows_, {detections_, 1, 0, kNumbers, 1, 1});
    }
    ops::axpby(context, 1, firsts_, 1, rows_);
  }

  Shape masks_;
  std::int64_t detections_ = 0;
  bool reshaped_ = true;  ///< firsts_ are to be made
  Tensor rows_, firsts_;
  IndexNote note_;
};

const RegisterLayer<ChannelSelectLayer> registered_channel_select(
    "ChannelSelect",
    {.about = "of each mask the channel of its detection (torrvision)", .message = "", .examples = {}});

}  // namespace
}  // namespace banyan
