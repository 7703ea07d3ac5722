#include "banyan/draw/draw.hpp"

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "draw/graphviz.hpp"
#include "draw/picture.hpp"
#include "draw/scene.hpp"
#include "draw/svg.hpp"

namespace banyan {
namespace {

std::vector<draw::Drawing> lay_out_all(const std::vector<draw::Plot>& plots) {
  std::vector<draw::Drawing> drawings;
  for (const draw::Plot& plot : plots) drawings.push_back(draw::lay_out(plot));
  return drawings;
}

}  // namespace

std::string net_svg(const Net& net, const DrawOptions& options) {
  const draw::Picture picture = draw::picture_of(net, {options.plan, options.types});
  if (options.layout == DrawLayout::dot ||
      (options.layout == DrawLayout::automatic && draw::have_graphviz())) {
    try {
      return draw::to_svg(picture, draw::arrange(picture, draw::lay_out_with_graphviz));
    } catch (const Error& error) {
      if (options.layout == DrawLayout::dot) throw;
      log_warning(cat(error.message(), "; our own layout takes its place"));
    }
  }
  return draw::to_svg(picture, draw::arrange(picture, lay_out_all));
}

std::string net_dot(const Net& net, const DrawOptions& options) {
  return draw::to_dot(draw::picture_of(net, {options.plan, options.types}));
}

}  // namespace banyan
