// Messages in protobuf's binary form: .solverstate, mean .binaryproto, and writing .caffemodel. (io/weights
// reads models, from every branch of the Caffe family.)
#pragma once

#include <string>

#include "banyan/io/atomic_file.hpp"
#include "proto/banyan.pb.h"

namespace banyan::io {

/// Protobuf's limit for a message: 2^31 - 1 bytes.
constexpr std::size_t kLargestMessage = (std::size_t{1} << 31) - 1;

/// Writes the message through an AtomicFile. Throws runtime_failure if it is larger than kLargestMessage or
/// cannot be written; the earlier file is then as it was.
void write_binary_proto(const std::string& path, const google::protobuf::Message& message);
/// The same as the entire contents of a file, which is completed here and committed by the caller.
void write_binary_proto(AtomicFile& file, const google::protobuf::Message& message);

/// Reads a message written by Caffe or by write_binary_proto. Throws bad_input, naming the file and what was
/// expected, if it is missing, empty, too large, damaged or another kind of message.
void read_binary_proto(const std::string& path, google::protobuf::Message& message);

template <class Message>
Message read_binary_proto(const std::string& path) {
  Message message;
  read_binary_proto(path, message);
  return message;
}

}  // namespace banyan::io
