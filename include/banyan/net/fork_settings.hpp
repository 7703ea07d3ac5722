// Settings from Caffe's forks that are read but cannot be honoured.
#pragma once

#include "proto/banyan.pb.h"

namespace banyan {

/// Throws bad_input for settings that would change what a net learns (`bn_stats_batch_size`); if `log`, warns
/// about number formats, which change only the rounding (`default_forward_type: FLOAT16` and the like), about
/// word lengths of inference (`quantization_param`) and what concerns several machines (`multinode`).
void check_fork_settings(const caffe::NetParameter& net, bool log);

}  // namespace banyan
