// What the comments of proto/banyan.proto say about messages, fields and values: the documentation of the
// text formats, at hand in the program.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace banyan::io {

struct FieldNote {
  std::string about;   ///< what it means, in one line; "" if nobody has written that
  std::string branch;  ///< the branch of Caffe that it comes from; "": BVLC
};

/// Of messages of proto/banyan.proto, whichever pool their descriptors are from.
FieldNote note_of(const google::protobuf::FieldDescriptor& field);
std::string note_of(const google::protobuf::Descriptor& message);
std::string note_of(const google::protobuf::EnumDescriptor& type);

}  // namespace banyan::io
