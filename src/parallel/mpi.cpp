#include "banyan/parallel/mpi.hpp"

#include <array>
#include <cstdlib>

#include "banyan/base/error.hpp"
#include "base/sibling_library.hpp"
#include "parallel/mpi_backend.hpp"

namespace banyan::parallel {
namespace {

constexpr const char* kLibrary = "libbanyan_mpi.so";

const LoadedBackend<MpiBackend>& backend() {
  static const auto loaded = load_backend<MpiBackend>(kLibrary, "MPI library", kMpiBackendSymbol);
  return loaded;
}

}  // namespace

std::optional<Launch> find_launch() {
  struct Variable {
    const char* name;
    const char* launcher;
    const char* process;
    const char* turn_on_host;
  };
  // mpirun inside a Slurm job has variables of both.
  constexpr std::array<Variable, 3> kVariables = {
      Variable{"OMPI_COMM_WORLD_SIZE", "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
      Variable{"SLURM_STEP_NUM_TASKS", "srun", "SLURM_PROCID", "SLURM_LOCALID"},
      Variable{"PMI_SIZE", "mpirun", "PMI_RANK", "MPI_LOCALRANKID"}};
  const auto number = [](const char* name, int otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::atoi(value) : otherwise;
  };
  for (const Variable& variable : kVariables)
    if (const char* processes = std::getenv(variable.name))
      return Launch{variable.launcher, std::atoi(processes), number(variable.process, -1),
                    number(variable.turn_on_host, 0)};
  return std::nullopt;
}

bool built_with_mpi() { return !sibling_library(kLibrary).empty(); }

std::string mpi_version() { return backend().table != nullptr ? backend().table->versions() : "none"; }

ConnectWire connect_by_mpi() {
  const std::optional<Launch> launch = find_launch();
  if (!launch)
    bad_input(
        "--uplink and --parameter_server join processes that mpirun or srun started; this one was started by "
        "itself (such as mpirun -np 2 trainer --uplink=mpi ...)");
  if (backend().table == nullptr) bad_input("MPI: ", backend().why);
  return [launched = *launch] {
    std::unique_ptr<Wire> wire = backend().table->connect();
    if (wire->processes() == 1 && launched.processes > 1)
      bad_input(launched.launcher, " started ", launched.processes, " processes, but ", mpi_version(),
                " finds this one alone: mpirun must be of the same MPI, and srun "
                "needs its plugin for it (--mpi=pmix)");
    return wire;
  };
}

}  // namespace banyan::parallel
