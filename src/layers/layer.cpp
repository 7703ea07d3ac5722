#include "banyan/layers/layer.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "io/other_types.hpp"
#include "layers/python_layers.hpp"

namespace banyan {

void Layer::setup(const Blobs&, const Blobs&) {}

void Layer::prepare(Pass&, const Blobs&) {}

std::int64_t Layer::choose_samples(Pass&, const Blobs&) {
  runtime_failure("layer ", quoted(name()), " (", type(), ") chooses no samples");
}

std::vector<const io::BlobData*> Layer::match_blobs(const io::LayerWeights& source) const {
  if (source.blobs.size() != parameters_.size())
    refuse("the net needs ", parameters_.size(), " blobs, the file has ", source.blobs.size());
  std::vector<const io::BlobData*> blobs;
  for (const io::BlobData& blob : source.blobs) blobs.push_back(&blob);
  return blobs;
}

double Layer::forward_flops(const Blobs&, const Blobs&) const { return 0; }

void Layer::check_results(Context&) {}

void Layer::ensure(Context& context, Tensor& tensor, const Shape& shape, DType dtype, Layout layout) {
  const bool usable = tensor.defined() && &tensor.device() == &context.device() && tensor.dtype() == dtype;
  if (usable && tensor.shape() == shape && tensor.layout() == layout) return;
  // Memory may be freed: work enqueued on it must be done first.
  if (tensor.defined() && !(usable && tensor.has_room_for(shape))) context.synchronize();
  if (usable)
    tensor.resize(shape, layout);
  else
    tensor = Tensor(context.device(), shape, dtype, layout);
}

Parameter& Layer::declare(const Shape& shape, const caffe::FillerParameter& filler, ParameterKind kind) {
  const int position = static_cast<int>(parameters_.size());
  Parameter& added = parameters_.emplace_back();
  added.shape = shape;
  added.kind = kind;
  added.filler = filler;
  if (position < parameter_.param_size()) {
    const caffe::ParamSpec& spec = parameter_.param(position);
    added.share_name = spec.name();
    added.permissive = spec.share_mode() == caffe::ParamSpec::PERMISSIVE;
    added.lr_mult = spec.lr_mult();
    added.decay_mult = spec.decay_mult();
  }
  if (kind == ParameterKind::statistic) added.forced_mult = added.lr_mult = added.decay_mult = 0;
  return added;
}

ops::PassKey Layer::random_key(const Pass& pass) const {
  return {pass.seed, ops::stream_of(name().c_str()), pass.draw_on_device};
}

void Layer::set_output(Blob& output, const Shape& shape, Layout layout) {
  output.shape = shape;
  output.layout = layout;
}

namespace {

// Function-local: static objects of other files add the entries, in unspecified order.
struct Registry {
  std::map<std::string, LayerFactory> factories;
  std::map<std::string, LayerInfo> infos;
  std::set<std::string> doubled;
};
Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

void register_layer(const std::string& type, LayerFactory factory, LayerInfo info) {
  // Nothing may be thrown before main(): a duplicate name is reported when it is requested.
  if (!registry().factories.emplace(type, factory).second) registry().doubled.insert(type);
  io::add_layer_type(type, info.messages());
  registry().infos[type] = std::move(info);
}

std::vector<std::string> registered_layer_types() {
  std::vector<std::string> types;
  for (const auto& [type, factory] : registry().factories) types.push_back(type);
  return types;
}

std::vector<std::string> LayerInfo::messages() const {
  std::vector<std::string> all = further;
  if (!message.empty()) all.insert(all.begin(), message);
  return all;
}

const LayerInfo& layer_info(const std::string& type) { return registry().infos.at(type); }

std::vector<int> sync_group_sizes(const caffe::NetParameter& net) {
  std::set<int> sizes{0};  // of losses
  for (const caffe::LayerParameter& layer : net.layer())
    if (const auto found = registry().infos.find(layer.type());
        found != registry().infos.end() && found->second.sync_group_size != nullptr)
      sizes.insert(found->second.sync_group_size(layer));
  return {sizes.begin(), sizes.end()};
}

std::unique_ptr<Layer> make_layer(const caffe::LayerParameter& parameter, const LayerOptions& options) {
  if (parameter.type() == "Python")
    if (const auto native = native_layer(parameter, options.phase)) {
      LayerOptions chosen = options;
      if (native->has_phase()) chosen.phase = phase_of(native->phase());
      return make_layer(*native, chosen);
    }
  const Registry& known = registry();
  const auto found = known.factories.find(parameter.type());
  if (found == known.factories.end())
    bad_input("layer ", quoted(parameter.name()), " ", io::about_missing_type(parameter.type()));
  if (known.doubled.count(parameter.type()) != 0)
    runtime_failure("layer type ", quoted(parameter.type()), " is registered twice in this program");
  return found->second(parameter, options);
}

}  // namespace banyan
