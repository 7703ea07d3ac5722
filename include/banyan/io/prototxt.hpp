// Text files of nets and solvers (.prototxt). Every problem is a bad_input `file:line:column: what was
// expected and found`, lines and columns counted from 1, a tab being one column. For an unknown name, the
// nearest known one is suggested. Nothing is rewritten here: files of earlier formats go through io/upgrade.
#pragma once

#include <string>
#include <string_view>

#include "proto/banyan.pb.h"

namespace banyan::io {

caffe::NetParameter read_net_text(const std::string& path);
caffe::SolverParameter read_solver_text(const std::string& path);

/// The same from memory; `origin` takes the place of the file name in messages.
caffe::NetParameter parse_net_text(std::string_view text, const std::string& origin);
caffe::SolverParameter parse_solver_text(std::string_view text, const std::string& origin);
/// The same for any message. An empty text gives a message with nothing set.
void parse_text(std::string_view text, const std::string& origin, google::protobuf::Message& message);

/// The message as text that the functions above (and Caffe, as far as it knows the fields) can read.
std::string to_text(const google::protobuf::Message& message);

}  // namespace banyan::io
