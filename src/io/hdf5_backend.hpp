// The interface between libbanyan and what calls HDF5, a separate library (libbanyan_hdf5.so) that is loaded
// with the first HDF5 file. The library exports one C function, `banyan_hdf5_backend`, which returns this
// table.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/hdf5_file.hpp"

namespace banyan::io {

/// Each member has the meaning of the function of the same purpose in hdf5_file.hpp.
struct Hdf5Backend {
  /// Counts changes to this struct, to Hdf5File and to Hdf5Dataset: a library from another build is refused,
  /// not called.
  static constexpr int kVersion = 1;
  int version;
  std::unique_ptr<Hdf5File> (*open)(const std::string& path);
  std::unique_ptr<Hdf5File> (*create)(const std::string& path);
  std::unique_ptr<Hdf5File> (*create_in_memory)(const std::string& name_in_messages);
  void (*rehearse)(const std::string& path, const std::function<void()>& read);
};

inline constexpr const char* kHdf5BackendSymbol = "banyan_hdf5_backend";
/// Type of the exported function: `extern "C" const banyan::io::Hdf5Backend* banyan_hdf5_backend();`

}  // namespace banyan::io
