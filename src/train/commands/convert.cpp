// `trainer convert`: weights from one kind of file to another, and nets to ONNX.
#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/array_names.hpp"
#include "banyan/io/binary_proto.hpp"
#include "banyan/net/parameter_values.hpp"
#include "banyan/onnx/export.hpp"
#include "banyan/train/commands.hpp"
#include "io/hdf5_model.hpp"

namespace banyan {
namespace {

constexpr std::size_t kLargestMap = std::size_t{1} << 30;

enum class FileKind : std::uint8_t { caffemodel, h5, safetensors, npz, onnx };

FileKind kind_of(const std::string& path) {
  constexpr std::array<const char*, 5> endings = {".caffemodel", ".caffemodel.h5", ".safetensors", ".npz",
                                                  ".onnx"};
  for (std::size_t i = 0; i < endings.size(); ++i)
    if (path.ends_with(endings[i])) return static_cast<FileKind>(i);
  bad_input(quoted(path),
            ": expected a name that ends in .caffemodel, .caffemodel.h5, .safetensors, .npz or .onnx");
}

bool is_model(FileKind kind) { return kind == FileKind::caffemodel || kind == FileKind::h5; }

[[noreturn]] void refuse_onnx(const std::string& path) {
  bad_input(quoted(path), ": ONNX files can be written, not read");
}

io::NamedArrays read_arrays(const std::string& path, FileKind kind) {
  return kind == FileKind::npz ? io::read_npz(path) : io::read_safetensors(path);
}

io::ModelWeights read_model(const ConvertOptions& options, FileKind kind) {
  if (is_model(kind)) return io::read_weights(options.from);
  io::NamedArrays arrays = read_arrays(options.from, kind);
  if (options.map.empty()) return io::from_arrays(std::move(arrays), options.from);
  return io::from_arrays_by_map(arrays, io::read_file(options.map, kLargestMap), options.map);
}

void refuse_missing_blobs(const io::ModelWeights& weights, const std::string& from) {
  for (const io::LayerWeights& layer : weights.layers)
    for (const io::BlobData& blob : layer.blobs)
      if (blob.missing)
        bad_input(quoted(from), ": layer ", quoted(layer.name),
                  " shares a blob, which HDF5 stores with its owner only; --model=NET says which that is");
}

void write_model(const ConvertOptions& options, FileKind kind, const io::ModelWeights& weights) {
  if (kind == FileKind::caffemodel) {
    io::write_binary_proto(options.to, io::to_proto(weights));
    return;
  }
  if (kind == FileKind::h5) {
    caffe::NetParameter net = io::to_proto(weights);
    io::check_hdf5_names(net);
    io::write_file(options.to, io::hdf5_model(std::move(net), options.to));
    return;
  }
  const io::NamedArrays arrays = io::to_arrays(weights, options.names);
  (kind == FileKind::npz ? io::write_npz : io::write_safetensors)(options.to, arrays);
}

void export_net(const ConvertOptions& options) {
  if (options.model.model.empty())
    bad_input("--model is missing: the deploy net whose weights go to ", quoted(options.to));
  if (options.from.empty() && options.model.weights.empty())
    bad_input("the weights of the net are missing: convert IN ", options.to, ", or --weights=IN");
  if (!options.from.empty() && !options.model.weights.empty())
    bad_input("the weights are given twice: by ", quoted(options.from),
              " and by --weights; give one of them");
  if (!options.from.empty() && kind_of(options.from) == FileKind::onnx) refuse_onnx(options.from);
  ModelOptions model_options = options.model;
  model_options.fold = false;
  Model model(model_options);
  if (!options.from.empty())
    load_weights(model.net(), read_model(options, kind_of(options.from)), options.from);
  onnx::write_net(model.net(), options.to);
  const std::string& name = model.net().name();
  LOG(INFO) << "Wrote the net " << (name.empty() ? "" : quoted(name) + " ") << "to " << options.to;
}

}  // namespace

void convert_files(const ConvertOptions& options) {
  const FileKind to = kind_of(options.to);
  if (options.from.empty() && to != FileKind::onnx)
    bad_input("convert needs two files, such as net.caffemodel net.safetensors");
  if (std::filesystem::is_directory(options.to))
    bad_input(quoted(options.to), " is a folder; expected the name of a file");
  if (!options.overwrite && std::filesystem::exists(options.to))
    bad_input(quoted(options.to), " exists; remove it, or pass --overwrite");
  const bool of_arrays = !options.from.empty() && !is_model(kind_of(options.from));
  if (!options.map.empty() && !(of_arrays && (is_model(to) || to == FileKind::onnx)))
    bad_input("--map is for arrays that become a .caffemodel or ONNX");
  if (to == FileKind::onnx) {
    export_net(options);
    return;
  }
  const FileKind from = kind_of(options.from);
  if (from == FileKind::onnx) refuse_onnx(options.from);
  if (!options.model.weights.empty())
    bad_input("--weights is for ONNX; the weights are ", quoted(options.from));
  io::ModelWeights weights = read_model(options, from);
  if (!options.model.model.empty()) {
    Model model(options.model, true);
    add_shared_blobs(model.net(), weights);
    check_weights(model.net(), weights, options.from);
    weights.name = model.net().name();
  }
  const auto count = std::count_if(weights.layers.begin(), weights.layers.end(),
                                   [](const io::LayerWeights& layer) { return !layer.blobs.empty(); });
  if (count == 0) bad_input(quoted(options.from), " holds no weights");
  refuse_missing_blobs(weights, options.from);
  write_model(options, to, weights);
  LOG(INFO) << "Wrote the weights of " << count << (count == 1 ? " layer to " : " layers to ") << options.to;
}

}  // namespace banyan
