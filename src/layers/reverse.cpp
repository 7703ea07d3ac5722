// Reverse (branches for reading text): the order along an axis reversed, along axis 0 (the time steps of
// recurrent layers) unless written. Several axes may be named (Synopsys). Branches that reverse parts of it,
// as a second input says, are refused by the number of inputs.
#include "reversing_layer.hpp"

namespace banyan {
namespace {

class ReverseLayer : public ReversingLayer {
 public:
  using ReversingLayer::ReversingLayer;

 private:
  std::vector<bool> reversed_axes(const Blob& input) const override {
    const auto& named = parameter_.reverse_param().axis();
    const int axes = input.shape.axes();
    std::vector<bool> reversed(static_cast<std::size_t>(axes), false);
    const auto reverse = [&](int axis) {
      if (axis < -axes || axis >= axes)
        refuse("axis ", axis, " does not exist; input ", quoted(input.name), " has ", axes, " axes");
      const auto at = static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
      if (reversed[at]) refuse("axis ", at, " is named twice");
      reversed[at] = true;
    };
    if (named.empty()) reverse(0);
    for (const int axis : named) reverse(axis);
    return reversed;
  }
};

const RegisterLayer<ReverseLayer> registered_reverse("Reverse", {"reverses the order along an axis",
                                                                 "reverse_param",
                                                                 {"", "axis: 1", "axis: [-1, 1]"}});

}  // namespace
}  // namespace banyan
