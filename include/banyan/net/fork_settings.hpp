// Settings of Caffe's forks that are read but cannot be honoured.
#pragma once

#include "proto/banyan.pb.h"

namespace banyan {

/// Throws bad_input for settings of a net that would change what it learns (`bn_stats_batch_size`); logs a
/// warning for number formats, which change the rounding only (`default_forward_type: FLOAT16` and the like),
/// if `log`.
void check_fork_settings(const caffe::NetParameter& net, bool log);

}  // namespace banyan
