// Settings from Caffe's forks that are read but have no effect.
#pragma once

#include "proto/banyan.pb.h"

namespace banyan {

/// Warns about number formats, which change only the rounding (`default_forward_type: FLOAT16` and the like),
/// about word lengths of inference (`quantization_param`), what concerns several machines (`multinode`) and
/// the like; says where native layers have settings that a project in Python may have changed.
void warn_of_fork_settings(const caffe::NetParameter& net);

}  // namespace banyan
