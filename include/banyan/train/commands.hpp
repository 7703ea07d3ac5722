// What `trainer` does besides training. Log lines have Caffe's forms; reports are returned as text.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/draw/draw.hpp"
#include "banyan/io/array_names.hpp"
#include "banyan/tensor/shape.hpp"
#include "banyan/train/model.hpp"
#include "banyan/train/train.hpp"

namespace banyan {

namespace parallel {
class WireUplink;
}

struct TimeOptions {
  ModelOptions model;  ///< `device` is not used
  std::vector<DeviceChoice> devices;
  SyncBatchNorm sync_bn = SyncBatchNorm::as_written;  ///< with multiple devices
  std::string tree = "auto";                          ///< the same
  Pinning pinning = Pinning::automatic;               ///< the same
  bool updates = false;                               ///< one device trains too, as several always do
  bool json = false;
  std::shared_ptr<Timeline> timeline;  ///< nullptr: one is made
  SignalFlags* signals = nullptr;      ///< outlives the call; nullptr: none
};

/// Runs `iterations` batches and logs each output and the means.
void test_model(const ModelOptions& options);
/// Logs the mean time of each layer, of a forward and a backward pass, and samples per second. One device
/// runs these passes alone; multiple devices, or one with `updates`, train (with exchanges, sums of gradients
/// and updates, at a tiny rate), and the shares of computation, of exposed and hidden communication and of
/// the update in an iteration are logged too. Returns the report as JSON if asked to, else "".
std::string time_model(const TimeOptions& options);
/// Reads, decodes and augments `iterations` batches of each data layer, without the net: logs samples per
/// second of each part on one core and of the whole pipeline. Returns it as JSON if asked to, else "". Throws
/// bad_input if the net reads no data set.
std::string time_data(const TimeOptions& options);
enum class SummaryFormat : std::uint8_t {
  table,  ///< layers with output shapes, parameters, multiply-adds and memory
  json,   ///< the same
  plan,   ///< every tensor with its place in memory, every step (net/plan.hpp)
};
std::string summarize_model(const ModelOptions& options, SummaryFormat format);

/// The net as SVG, or as a graph for Graphviz; `drawing.types` is not used.
std::string draw_model(const ModelOptions& options, DrawOptions drawing, bool dot);

/// A page with what the runs measured, whose --metrics folders these are (report/report.hpp), to the file
/// `out`; if that is empty, to report.html in the first folder. Throws bad_input.
void write_report(const std::vector<std::string>& folders, const std::string& out);

/// A table (or JSON) of all types of layers: what they take, make and support, and where their settings are.
std::string describe_layers(bool json);
/// These types, each with every field of its settings. Throws bad_input for an unknown one.
std::string describe_layer_types(const std::vector<std::string>& types, bool json);
/// What is known of a field of solvers, nets or layers, named by its path from one of these
/// (`convolution_param.stride`, `lr_policy`), from its message (`ConvolutionParameter.stride`) or alone: then
/// every field of that name. A message's name gives all its fields. Throws bad_input for an unknown one.
std::string describe_field(const std::string& name, bool json);
/// Names that it knows: messages, fields of solvers, and settings of layers by their paths.
std::vector<std::string> described_fields();

struct CheckOptions {
  std::vector<std::string> files;  ///< solvers and nets (.prototxt)
  std::optional<int> level;  ///< with stages: of train nets, as in training; of a net's file: of both phases
  std::vector<std::string> stages;
  std::optional<Phase> phase;           ///< of nets' files: this one only
  std::map<std::string, Shape> shapes;  ///< of outputs of sources whose data does not exist
  io::UnknownFields unknown_fields = io::UnknownFields::refuse;
  std::optional<int> max_iter;  ///< of solvers, whatever they say
};
struct CheckedFile {
  std::string path, what;             ///< what: a solver, a net of 12 layers...
  std::vector<std::string> problems;  ///< of it and of what it names
  std::vector<std::string> notes;     ///< what was not checked, was passed over, or is worth knowing
};
struct CheckReport {
  std::string text;  ///< a line for each problem and each file
  int problems = 0;
  std::vector<CheckedFile> files;
};
/// Everything that is wrong with the files and the nets that they name: text, settings, connections, every
/// layer of both phases. Needs no data: what depends on the shape of data that does not exist, and of which
/// neither `shapes` nor a crop_size tells, is not checked, and the report says so.
CheckReport check_files(const CheckOptions& options);

struct ConvertOptions {
  std::string from, to;  ///< their kinds are those of their endings; `from` may be empty for .onnx
  std::string map;       ///< file with the blobs' names in `from` (io/array_names.hpp); empty: none
  io::NameStyle names = io::NameStyle::index;  ///< of arrays written
  bool overwrite = false;                      ///< replace `to`
  ModelOptions model;                          ///< its `model` may be empty, but for .onnx
};
/// Weights between .caffemodel, .caffemodel.h5, .safetensors and .npz; with a model, their names and shapes
/// must be those of the net. A net with its weights, `from` or the model's, to .onnx. Throws bad_input.
void convert_files(const ConvertOptions& options);

struct TopologyOptions {
  std::vector<DeviceChoice> devices;
  int threads = 0;            ///< of each CPU device; 0: an equal share of the cores
  std::string tree = "auto";  ///< parallel::choose_tree
  int repeats = 0;            ///< of each sum; 0: as many as fit in a fraction of a second
  bool json = false;
  bool dot = false;  ///< only the tree, as a graph; nothing is measured
  /// Joins this process to others, which all call describe_topology; outlives the call. nullptr: there are
  /// none.
  parallel::WireUplink* uplink = nullptr;
};
/// With an uplink: all processes as one picture, the network between them, and sums over all devices; the
/// same text in every process. Otherwise: links, tree, speed and correctness of each link, speed of sums over
/// all devices, advice. A link that stalls ends the process with code 1 after the report, because the driver
/// may never release it.
std::string describe_topology(const TopologyOptions& options);
/// Predicts the iterations of the machine and the net described in `file` (proto/simulation.proto, text) on 1
/// to 16 devices; measures nothing. Throws bad_input.
std::string describe_simulation(const std::string& file, bool json);

/// Describes the listed GPUs, or all of them, and the processor.
std::string describe_devices(const std::vector<DeviceChoice>& gpus);
/// Program, libraries and devices, one per line.
std::string version_report();
/// Of the program: 0.1.0
std::string program_version();

/// `data:32,3,227,227`; throws bad_input.
std::pair<std::string, Shape> parse_shape_flag(const std::string& text);

}  // namespace banyan
