// Weights and solver states in Caffe's HDF5 form (.caffemodel.h5, .solverstate.h5). Internal to the program.
//
//   model  data/LAYER/i      blob i of a layer; a shared parameter once, with the layer that owns it
//          diff/LAYER/i      its gradient, if the model has them
//   state  iter, current_step, learned_net, history/i
//          banyan            BanyanState in protobuf's form; Caffe ignores it
//
// As in Caffe, a `/` in a layer's name makes nested groups.
#pragma once

#include <string>
#include <vector>

#include "banyan/io/weights.hpp"
#include "proto/banyan.pb.h"

namespace banyan::io {

/// Throws bad_input if the names of the net's layers cannot all be groups of one file; looks at names,
/// numbers of blobs and shared parameters only.
void check_hdf5_names(const caffe::NetParameter& net);

/// The contents of the files. `name` is for messages. Of what is moved in, each array is given up when it is
/// written.
std::string hdf5_model(caffe::NetParameter net, const std::string& name);
std::string hdf5_state(caffe::SolverState state, const std::string& name);

/// Throw bad_input with the file and the dataset for what is no such file, or damaged. As in Caffe, blobs
/// that a model does not hold are `missing`; the reader of the net knows which of them are shared.
ModelWeights read_hdf5_model(const std::string& path);
caffe::SolverState read_hdf5_state(const std::string& path);

}  // namespace banyan::io
