// What the three upgrade programs share: read IN, upgrade it, write OUT.
#pragma once

#include <utility>

#include "banyan/io/atomic_file.hpp"
#include "banyan/io/upgrade.hpp"
#include "tool.hpp"

namespace banyan::tools {

inline void upgrade(caffe::NetParameter& net, const std::string& origin) { io::upgrade_net(net, origin); }
inline void upgrade(caffe::SolverParameter& solver, const std::string& origin) {
  io::upgrade_solver(solver, origin);
}

/// `what` is NetParameter or SolverParameter, with its format. Prints Caffe's lines.
template <class Message>
void upgrade_file(const std::vector<std::string>& arguments, bool overwrite, const char* what,
                  Message (*read)(const std::string& path),
                  void (*write)(const std::string& path, const Message& message)) {
  const std::string &from = arguments[0], &to = arguments[1];
  Message message = read(from);
  expect_absent(to, overwrite);
  if (message.ByteSizeLong() == 0) bad_input(banyan::quoted(from), " is empty");
  const std::string before = message.SerializeAsString();
  upgrade(message, from);
  if (message.SerializeAsString() == before) LOG(ERROR) << "File already in latest proto format: " << from;
  write(to, message);
  LOG(INFO) << "Wrote upgraded " << what << " proto to " << to;
}

}  // namespace banyan::tools
