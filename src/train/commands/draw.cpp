#include "banyan/draw/draw.hpp"

#include "banyan/train/commands.hpp"

namespace banyan {

std::string draw_model(const ModelOptions& options, DrawOptions drawing, bool dot) {
  ModelOptions of_model = options;
  of_model.missing_data = true;
  const Model model(of_model, true);
  drawing.types = model.stood_in_for();
  return dot ? net_dot(model.net(), drawing) : net_svg(model.net(), drawing);
}

}  // namespace banyan
