// upgrade_net_proto_binary IN OUT: rewrites a .caffemodel of an earlier format, as Caffe's tool of that name.
#include "banyan/io/binary_proto.hpp"
#include "common/upgrade_tool.hpp"

DEFINE_bool(overwrite, false, "replace OUT if it exists; it may be IN");

int main(int argc, char** argv) {
  using namespace banyan;
  const auto run = [](const std::vector<std::string>& files) {
    tools::upgrade_file<caffe::NetParameter>(
        files, FLAGS_overwrite, "NetParameter binary",
        [](const std::string& path) { return io::read_binary_proto<caffe::NetParameter>(path); },
        [](const std::string& path, const auto& net) { io::write_binary_proto(path, net); });
  };
  return tools::run_tool(
      argc, argv,
      {"upgrade_net_proto_binary", "IN OUT",
       "Rewrites a net with weights (.caffemodel) of an earlier format of BVLC Caffe into the current one.\n"
       "The trainer needs no such step: it reads the weights of every format and branch.",
       "upgrade_net_proto_binary old.caffemodel net.caffemodel", 2, 2, run});
}
