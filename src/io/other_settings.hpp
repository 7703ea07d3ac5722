// Settings of the Caffe family that are not here, in messages that are: what is said of them, as in the table
// in docs/from_caffe.md.
#pragma once

#include <string>

namespace banyan::io {

/// Why a message has no such field, or what takes its place; "" for a field that nobody knows.
std::string about_other_field(const std::string& message, const std::string& field);

}  // namespace banyan::io
