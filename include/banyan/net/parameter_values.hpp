// Values of a net's parameters: fillers, sharing with another net, reading and writing of weights.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "banyan/io/weights.hpp"
#include "banyan/net/net.hpp"

namespace banyan {

/// Initial values from the fillers, by the net's seed and each parameter's identity: the same on every
/// device.
void fill_parameters(Net& net);
/// Lets `net` use the values of `other` (on the same device) wherever their layers have the same name. Throws
/// bad_input naming layer and shapes where parameters differ.
void share_parameters(Net& net, Net& other, bool share_statistics);
enum class OtherShapes : std::uint8_t { refuse, skip };
/// Fills parameters by layer name. Layers that exist on only one side are skipped. `origin` names the file in
/// messages; throws bad_input naming layer, blob and both shapes where something does not fit, or skips that
/// blob with a warning. Returns which of the parameter store's parameters it filled.
std::set<int> load_weights(Net& net, const io::ModelWeights& weights, const std::string& origin,
                           OtherShapes other_shapes = OtherShapes::refuse);
/// Logs a warning if layers of a train net normalize with stored statistics (use_global_stats) and have none.
void warn_of_missing_statistics(const Net& net);
/// Gives layers of a file that holds shared blobs once (HDF5) those that they share in `net`, which needs no
/// storage. Throws bad_input for a blob that is nowhere.
void add_shared_blobs(const Net& net, io::ModelWeights& weights);
/// Throws bad_input unless the file's layers with blobs are the net's layers with parameters, and all shapes
/// fit. Gives the file's layers their types. The net needs no storage.
void check_weights(const Net& net, io::ModelWeights& weights, const std::string& origin);
/// The contents of a .caffemodel: the name, and every layer with its blobs.
caffe::NetParameter to_proto(Net& net, bool with_gradients);

}  // namespace banyan
