// BboxAccuracy (MS-CNN, Cascade R-CNN): how well a head places boxes. Inputs: shifts (R x 4 for each class,
// or R x 8 without cls_aware), regions (R x 5: image, x1, y1, x2, y2) and their true boxes (R x 6: class, x1,
// y1, x2, y2, overlap), as ProposalTarget makes them. Output: the mean overlap of the shifted regions with
// the true boxes, and, if asked for, that of the regions; of objects whose overlap is at most 0.975. -1 if
// there are none.
//
// In training on several devices an output is the device's share. The host does the work, waiting for the
// device.
#include "measuring_box_layer.hpp"

namespace banyan {
namespace {

class BboxAccuracyLayer : public MeasuringBoxLayer {
 public:
  BboxAccuracyLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : MeasuringBoxLayer(parameter, options, {3, 3, 1, 2}) {}

  void read_settings() override { scale_ = read_bbox_reg(); }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape& shifts = inputs[0]->shape;
    const bool by_class = parameter_.bbox_reg_param().cls_aware();
    if (shifts.axes() < 2 || shifts.count(1) < 8 || shifts.count(1) % 4 != 0 ||
        (!by_class && shifts.count(1) != 8))
      refuse(quoted(inputs[0]->name), " is ", shifts.to_string(), "; expected R x ",
             by_class ? "4 for each class" : "8, as cls_aware is false");
    const std::int64_t numbers[] = {0, 5, 6};
    for (std::size_t i = 1; i < 3; ++i)
      if (const Shape& shape = inputs[i]->shape;
          shape.axes() < 2 || shape[0] != shifts[0] || shape.count(1) != numbers[i])
        refuse(quoted(inputs[i]->name), " is ", shape.to_string(), "; expected ", shifts[0], " x ",
               numbers[i], i == 1 ? ": image, x1, y1, x2, y2" : ": class, x1, y1, x2, y2, overlap");
    for (Blob* output : outputs) set_output(*output, Shape{});
  }

  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override {
    Context& context = *pass.context;
    const Values shifts = values_of(context, inputs[0]->data), regions = values_of(context, inputs[1]->data),
                 truth = values_of(context, inputs[2]->data);
    std::array<double, 3> sums{};  // objects, overlaps of shifted regions and of regions
    for (std::int64_t i = 0; i < shifts.shape[0]; ++i) {
      const double* const own = truth.values.data() + 6 * i;
      constexpr double kTheBoxItself = 0.975;
      if (!(own[0] >= 1) || own[5] > kTheBoxItself) continue;
      const std::int64_t classes = shifts.shape.count(1) / 4;
      const double slot = parameter_.bbox_reg_param().cls_aware() ? std::floor(own[0]) : 1;
      if (slot >= static_cast<double>(classes)) {
        note("a true box has the class ", own[0], "; there are ", classes, " classes, 0 (background) to ",
             classes - 1);
        continue;
      }
      const double* const row = regions.values.data() + 5 * i + 1;
      const double* const code = shifts.values.data() + (i * classes + static_cast<std::int64_t>(slot)) * 4;
      const Box region{row[0], row[1], row[2], row[3]}, box{own[1], own[2], own[3], own[4]};
      Box shifted = decoded(region, {code[0], code[1], code[2], code[3]}, scale_);
      shifted.x2 -= 1, shifted.y2 -= 1;  // decoded() gives the pixel after the last
      sums[0] += 1;
      sums[1] += overlap(shifted, box, Corners::pixels);
      sums[2] += overlap(region, box, Corners::pixels);
    }
    const double objects = of_all_devices(pass, {sums[0]})[0];
    for (std::size_t i = 0; i < outputs.size(); ++i)
      set_values(context, {share(pass, sums[i + 1], objects, shifts.shape[0])}, outputs[i]->data);
  }

 private:
  ShiftScale scale_;
};

const RegisterLayer<BboxAccuracyLayer> registered_bbox_accuracy(
    "BboxAccuracy", {.about = "how well a head places boxes (MS-CNN, Cascade R-CNN)",
                     .message = "",
                     .inputs = {{16}, {5}, {6}},
                     .further = {"bbox_reg_param"}});

}  // namespace
}  // namespace banyan
