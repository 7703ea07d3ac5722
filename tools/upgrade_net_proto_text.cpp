// upgrade_net_proto_text IN OUT: rewrites a net's prototxt of an earlier format, as Caffe's tool of that
// name.
#include "banyan/io/prototxt.hpp"
#include "common/upgrade_tool.hpp"

DEFINE_bool(overwrite, false, "replace OUT if it exists; it may be IN");

int main(int argc, char** argv) {
  using namespace banyan;
  const auto run = [](const std::vector<std::string>& files) {
    tools::upgrade_file<caffe::NetParameter>(
        files, FLAGS_overwrite, "NetParameter text",
        [](const std::string& path) { return io::read_net_text(path); },
        [](const std::string& path, const auto& net) { io::write_file(path, io::to_text(net)); });
  };
  return tools::run_tool(argc, argv,
                         {"upgrade_net_proto_text", "IN OUT",
                          "Rewrites a net (.prototxt) of an earlier format of Caffe into the current one.",
                          "upgrade_net_proto_text old.prototxt net.prototxt", 2, 2, run});
}
