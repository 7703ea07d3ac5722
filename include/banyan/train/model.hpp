// Model: a net on one device, without a solver. For training, see Session (session.hpp).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/io/prototxt.hpp"
#include "banyan/net/net.hpp"
#include "banyan/tensor/values.hpp"
#include "banyan/train/train.hpp"

namespace banyan {

struct ModelOptions {
  std::string model;                 ///< prototxt
  std::vector<std::string> weights;  ///< .caffemodel files, later ones overwrite
  DeviceChoice device;
  int threads = 0;  ///< 0: all cores
  Phase phase = Phase::test;
  std::optional<int> level;         ///< in place of that of the file's own state
  std::vector<std::string> stages;  ///< besides those of the file's own state
  int iterations = 50;
  RunPrecision precision = RunPrecision::f32;
  /// Test nets: normalizations by stored statistics become a part of the convolutions before them
  /// (net/fold.hpp).
  bool fold = true;
  bool keep_blobs = false;  ///< blobs share no memory: after a pass each one can be read; nothing is folded
  io::UnknownFields unknown_fields = io::UnknownFields::refuse;
  std::map<std::string, Shape> shapes;  ///< summary, time: of outputs of sources whose data need not exist
  bool missing_data = false;            ///< time: where data are missing, shapes come from the settings
};

/// The shapes of a source's tops if `shapes` has one of them, else none: a top without a shape of its own has
/// as many entries as the first top, in the form that the source gives its labels, or that a program would
/// have to fill. What reads it in `net`, if given, tells how many joints a list has. Throws bad_input if the
/// first one's shape is not known by either way.
std::vector<Shape> stand_in_shapes(const caffe::LayerParameter& source,
                                   const std::map<std::string, Shape>& shapes,
                                   const caffe::NetParameter* net = nullptr);

/// Replaces every source that makes a blob of `shapes` (upgraded net) by one that makes constant values: 0.5
/// in its first blob, 0 in others and where only layers read that pass no gradient to it, as labels (if
/// `passes` follow, boxes that lie in the images; with further layers); shapes: stand_in_shapes. Logs a
/// warning if the source would be refused. Throws bad_input for a blob that no source makes. Returns the
/// types of the replaced layers by their names. With a `state` layers that it leaves out stay as they are.
std::map<std::string, std::string> make_up_data(caffe::NetParameter& net,
                                                const std::map<std::string, Shape>& shapes,
                                                bool passes = true, const caffe::NetState* state = nullptr);

class Model {
 public:
  /// Reads and upgrades the net file, builds the net, fills its parameters and loads the weights.
  explicit Model(const ModelOptions& options, bool shapes_only = false);

  /// Who writes parameters after a pass must call net().parameters_replaced(), or a test net may go on with
  /// the old ones.
  Net& net() { return *net_; }
  const Net& net() const { return *net_; }
  Context& context() { return *context_; }
  Device& device() { return *device_; }
  Activity& activity() { return *activity_; }
  /// Types in the file of the layers that `shapes` replaced, by name.
  const std::map<std::string, std::string>& stood_in_for() const { return stood_in_for_; }
  /// The next pass of the options' phase; numbers passes from 0 and leaves running statistics alone.
  Pass next_pass();
  double loss();

 private:
  void fold(const NetOptions& options);

  std::unique_ptr<Device> device_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Activity> activity_;
  std::unique_ptr<Net> net_;
  std::map<std::string, std::string> stood_in_for_;
  std::int64_t passes_ = 0;
};

}  // namespace banyan
