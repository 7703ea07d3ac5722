#include "io/hdf5_model.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/number.hpp"
#include "banyan/base/text.hpp"
#include "io/hdf5_file.hpp"

namespace banyan::io {

namespace {

constexpr const char* kData = "data";
constexpr const char* kDiff = "diff";
constexpr const char* kHistory = "history";
constexpr const char* kBanyan = "banyan";

const caffe::LayerParameter& layer_of(const caffe::NetParameter& net, int l) { return net.layer(l); }
caffe::LayerParameter& layer_of(caffe::NetParameter& net, int l) { return *net.mutable_layer(l); }

/// Calls visit(layer, blob number) for the blobs that a file holds. `Net`: a NetParameter, const or not.
template <class Net, class Visit>
void for_each_stored_blob(Net& net, const Visit& visit) {
  std::set<std::string> shared;
  for (int l = 0; l < net.layer_size(); ++l) {
    auto& layer = layer_of(net, l);
    for (int i = 0; i < layer.blobs_size(); ++i) {
      const bool named = i < layer.param_size() && !layer.param(i).name().empty();
      if (named && !shared.insert(layer.param(i).name()).second) continue;  // an earlier layer owns it
      visit(layer, i);
    }
  }
}

bool is_path(const std::string& name) {
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part.find('\0') != std::string::npos) return false;
    begin = end + 1;
  }
  return true;
}

void write_values(Hdf5File& file, const std::string& path, const caffe::BlobProto& blob, bool diff) {
  const std::vector<std::int64_t> shape(blob.shape().dim().begin(), blob.shape().dim().end());
  const auto& floats = diff ? blob.diff() : blob.data();
  const auto& doubles = diff ? blob.double_diff() : blob.double_data();
  if (!doubles.empty())
    file.write(path, shape, doubles.data());
  else
    file.write(path, shape, floats.data());
}

/// The number in a dataset's name, or -1.
int number_of(const std::string& name) {
  constexpr int kMost = 4096;
  const int number = number_in<int>(name).value_or(-1);
  return number <= kMost ? number : -1;
}

BlobData read_blob(const Hdf5Dataset& set) {
  BlobData blob;
  blob.shape = set.shape();
  if (set.is_double())
    blob.doubles = set.values<double>();
  else
    blob.floats = set.values<float>();
  return blob;
}

class Hdf5ModelReader {
 public:
  explicit Hdf5ModelReader(const Hdf5File& file) : file_(file) {}

  ModelWeights read() {
    if (!file_.contains(kData) || !file_.is_group(kData))
      bad_input(
          file_.name(),
          ": expected a net with weights (.caffemodel.h5), found an HDF5 file without a group \"data\"");
    read_group(kData, "", 0);
    if (model_.layers.empty())
      bad_input(file_.name(), ": expected a net with weights (.caffemodel.h5), found no layer");
    model_.shared_once = true;
    return std::move(model_);
  }

 private:
  /// The group of a layer, of layers whose names begin alike, or of both.
  void read_group(const std::string& path, const std::string& layer, int depth) {
    constexpr int kDeepest = 32;
    constexpr std::size_t kMostLayers = 1'000'000;
    if (depth > kDeepest || model_.layers.size() > kMostLayers)
      bad_input(file_.name(), ": groups in ", quoted(path), " are nested more than ", kDeepest,
                " deep, or they are too many");
    std::map<int, std::string> blobs;
    std::vector<std::string> groups;
    for (const std::string& name : file_.names_in(path)) {
      const std::string inside = path + "/" + name;
      if (file_.is_group(inside)) {
        groups.push_back(name);
        continue;
      }
      const int number = number_of(name);
      if (number < 0 || layer.empty())
        bad_input(file_.name(), ", dataset ", quoted(inside),
                  ": expected LAYER/NUMBER within the group \"data\"");
      blobs[number] = inside;
    }
    if (!layer.empty() && (!blobs.empty() || groups.empty())) add_layer(layer, blobs);
    for (const std::string& name : groups)
      read_group(path + "/" + name, layer.empty() ? name : layer + "/" + name, depth + 1);
  }

  void add_layer(const std::string& name, const std::map<int, std::string>& blobs) {
    LayerWeights layer{name, "", {}};
    for (const auto& [number, path] : blobs) {
      BlobData missing;
      missing.missing = true;
      layer.blobs.resize(static_cast<std::size_t>(number), missing);
      layer.blobs.push_back(read_blob(*file_.dataset(path)));
    }
    model_.layers.push_back(std::move(layer));
  }

  const Hdf5File& file_;
  ModelWeights model_;
};

}  // namespace

void check_hdf5_names(const caffe::NetParameter& net) {
  std::map<std::string, bool> is_set;  // paths within `data`: a dataset, or a group
  const auto refuse = [](const std::string& layer, const std::string& why) {
    bad_input("layer ", quoted(layer), " cannot be stored in HDF5: ", why,
              "; use snapshot_format: BINARYPROTO");
  };
  std::set<std::string> names;
  for (const caffe::LayerParameter& layer : net.layer()) {
    if (!is_path(layer.name())) refuse(layer.name(), "its name is not one that a group can have");
    if (!names.insert(layer.name()).second) refuse(layer.name(), "another layer has the same name");
    for (std::size_t end = 0; end != std::string::npos;) {
      end = layer.name().find('/', end + 1);
      is_set[layer.name().substr(0, end)] = false;
    }
  }
  for_each_stored_blob(net, [&](const caffe::LayerParameter& layer, int i) {
    const std::string path = cat(layer.name(), "/", i);
    if (!is_set.emplace(path, true).second)
      refuse(layer.name(),
             cat("blob ", i, " would be ", quoted(path), ", which is the name of another layer"));
  });
}

std::string hdf5_model(caffe::NetParameter net, const std::string& name) {
  const std::unique_ptr<Hdf5File> file = Hdf5File::create_in_memory(name);
  file->make_group(kData);
  for (const caffe::LayerParameter& layer : net.layer()) file->make_group(cat(kData, "/", layer.name()));
  for_each_stored_blob(net, [&](caffe::LayerParameter& layer, int i) {
    caffe::BlobProto blob;  // what is in the file is given up: a model is large
    blob.Swap(layer.mutable_blobs(i));
    write_values(*file, cat(kData, "/", layer.name(), "/", i), blob, false);
    if (blob.diff_size() + blob.double_diff_size() > 0)
      write_values(*file, cat(kDiff, "/", layer.name(), "/", i), blob, true);
  });
  return file->bytes();
}

ModelWeights read_hdf5_model(const std::string& path) {
  const auto read = [&] { return Hdf5ModelReader(*Hdf5File::open(path)).read(); };
  rehearse_hdf5(path, read);
  return read();
}

std::string hdf5_state(caffe::SolverState state, const std::string& name) {
  const std::unique_ptr<Hdf5File> file = Hdf5File::create_in_memory(name);
  const std::int32_t iteration = state.iter(), step = state.current_step();
  file->write("iter", {1}, &iteration);
  file->write_text("learned_net", state.learned_net());
  file->write("current_step", {1}, &step);
  file->make_group(kHistory);
  for (int i = 0; i < state.history_size(); ++i) {
    caffe::BlobProto blob;
    blob.Swap(state.mutable_history(i));
    write_values(*file, cat(kHistory, "/", i), blob, false);
  }
  if (state.has_banyan()) {
    const std::string bytes = state.banyan().SerializeAsString();
    file->write(kBanyan, {static_cast<std::int64_t>(bytes.size())},
                reinterpret_cast<const std::uint8_t*>(bytes.data()));
  }
  return file->bytes();
}

namespace {

caffe::SolverState read_state(const std::string& path) {
  const std::unique_ptr<Hdf5File> file = Hdf5File::open(path);
  if (!file->contains("iter") || !file->contains("learned_net") || !file->contains(kHistory))
    bad_input(file->name(),
              ": expected a solver state (.solverstate.h5), found an HDF5 file without iter, learned_net or "
              "history");
  caffe::SolverState state;
  state.set_iter(file->number<std::int32_t>("iter"));
  state.set_learned_net(file->text("learned_net"));
  if (file->contains("current_step")) state.set_current_step(file->number<std::int32_t>("current_step"));
  const std::size_t count = file->names_in(kHistory).size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::unique_ptr<Hdf5Dataset> set = file->dataset(cat(kHistory, "/", i));
    *state.add_history() = set->is_double() ? encode_blob(set->shape(), set->values<double>().data())
                                            : encode_blob(set->shape(), set->values<float>().data());
  }
  if (file->contains(kBanyan)) {
    const std::vector<std::uint8_t> bytes = file->dataset(kBanyan)->values<std::uint8_t>();
    if (!state.mutable_banyan()->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      bad_input(file->name(), ", dataset \"banyan\": damaged");
  }
  return state;
}

}  // namespace

caffe::SolverState read_hdf5_state(const std::string& path) {
  const auto read = [&] { return read_state(path); };
  rehearse_hdf5(path, read);
  return read();
}

}  // namespace banyan::io
