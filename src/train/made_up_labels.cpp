#include "train/made_up_labels.hpp"

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/layers/layer.hpp"

namespace banyan {
namespace {

/// Follows a blob through the layers that read it, and what they make of it.
class Readers {
 public:
  explicit Readers(const caffe::NetParameter& net) : net_(net) {
    for (const auto& layer : net.layer())
      for (const std::string& bottom : std::set<std::string>(layer.bottom().begin(), layer.bottom().end()))
        readers_[bottom].push_back(&layer);
  }

  bool find_label(const std::string& blob) {
    follow(blob, true);
    while (!as_label_ && !next_.empty()) {
      const auto [of, moved] = next_.back();
      next_.pop_back();
      if (const auto readers = readers_.find(of); readers != readers_.end())
        for (const caffe::LayerParameter* layer : readers->second) read(*layer, of, moved);
    }
    return as_label_ || (without_gradient_ && !with_gradient_);
  }

 private:
  /// `moved`: so far the values were only moved.
  void follow(const std::string& blob, bool moved) {
    if (seen_.emplace(blob, moved).second) next_.emplace_back(blob, moved);
  }
  void read(const caffe::LayerParameter& parameter, const std::string& blob, bool moved) {
    if (parameter.type() == "Python") {
      if (moved) without_gradient_ = true;
      return;
    }
    try {
      const std::unique_ptr<Layer> layer = make_layer(parameter, {});
      for (int i = 0; i < parameter.bottom_size(); ++i)
        if (parameter.bottom(i) == blob) read(*layer, i, moved);
    } catch (const Error&) {  // the net's complaint, if it has this layer in its phase
    }
  }
  void read(const Layer& layer, int input, bool moved) {
    const LayerTraits& traits = layer.traits();
    const auto& tops = layer.parameter().top();
    if (input == traits.label_input) as_label_ = true;
    if (traits.arity.max_outputs == 0 || !traits.differentiable(input)) {
      if (moved) without_gradient_ = true;
      return;
    }
    const bool each = traits.arity.outputs_equal_inputs || traits.chooses_samples;  // of input i, output i
    const bool moves = traits.storage == StorageRule::follows;
    if (moved && !moves) with_gradient_ = true;
    for (int k = 0; k < tops.size(); ++k)
      if (traits.differentiable_output(k) && (!each || k == input)) follow(tops.Get(k), moved && moves);
  }

  const caffe::NetParameter& net_;
  std::map<std::string, std::vector<const caffe::LayerParameter*>> readers_;
  std::set<std::pair<std::string, bool>> seen_;
  std::vector<std::pair<std::string, bool>> next_;
  bool as_label_ = false, with_gradient_ = false, without_gradient_ = false;
};

}  // namespace

bool is_read_as_label(const caffe::NetParameter& net, const std::string& blob) {
  return Readers(net).find_label(blob);
}

}  // namespace banyan
