// The processes that mpirun or srun started, joined by MPI.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "banyan/parallel/wire.hpp"

namespace banyan::parallel {

/// What the environment says of how this process was started.
struct Launch {
  std::string launcher;  ///< "mpirun", "srun"
  int processes = 1;
  int process = -1;      ///< this one's number; -1: it does not say
  int turn_on_host = 0;  ///< this one's number among those of this host
};
/// Nothing if this process was started by itself.
std::optional<Launch> find_launch();

/// Is there an MPI library beside this one?
bool built_with_mpi();
/// "Open MPI 4.1.4", or "none". Loads the library.
std::string mpi_version();
/// Throws bad_input if it cannot be loaded, or if nothing has started this process as one of several.
ConnectWire connect_by_mpi();

}  // namespace banyan::parallel
