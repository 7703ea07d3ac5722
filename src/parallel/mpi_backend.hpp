// The interface between libbanyan and its MPI library, a separate one (libbanyan_mpi.so) that is loaded when
// processes are to be joined. The library exports one C function, `banyan_mpi_backend`, which returns this
// table.
#pragma once

#include <memory>
#include <string>

#include "banyan/parallel/wire.hpp"

namespace banyan::parallel {

struct MpiBackend {
  /// Counts changes to this struct and to Wire: a library from another build is refused, not called.
  static constexpr int kVersion = 2;
  int version;
  std::string (*versions)();
  std::unique_ptr<Wire> (*connect)();
};

inline constexpr const char* kMpiBackendSymbol = "banyan_mpi_backend";
/// Type of the exported function: `extern "C" const banyan::parallel::MpiBackend* banyan_mpi_backend();`

}  // namespace banyan::parallel
