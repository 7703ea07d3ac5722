// upgrade_solver_proto_text IN OUT: rewrites a solver of an earlier format, as Caffe's tool of that name.
#include "banyan/io/prototxt.hpp"
#include "common/upgrade_tool.hpp"

DEFINE_bool(overwrite, false, "replace OUT if it exists; it may be IN");

int main(int argc, char** argv) {
  using namespace banyan;
  const auto run = [](const std::vector<std::string>& files) {
    tools::upgrade_file<caffe::SolverParameter>(
        files, FLAGS_overwrite, "SolverParameter text",
        [](const std::string& path) { return io::read_solver_text(path); },
        [](const std::string& path, const auto& solver) { io::write_file(path, io::to_text(solver)); });
  };
  return tools::run_tool(
      argc, argv,
      {"upgrade_solver_proto_text", "IN OUT",
       "Rewrites a solver (.prototxt) whose rule is given as solver_type: NAME into one with type: \"Name\".",
       "upgrade_solver_proto_text old_solver.prototxt solver.prototxt", 2, 2, run});
}
