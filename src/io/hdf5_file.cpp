#include "io/hdf5_file.hpp"

#include <atomic>
#include <cstring>
#include <fstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "base/sibling_library.hpp"
#include "io/hdf5_backend.hpp"

namespace banyan::io {
namespace {

std::atomic<bool> rehearses = true;

const LoadedBackend<Hdf5Backend>& backend() {
  constexpr const char* kLibrary = "libbanyan_hdf5.so";
  static const auto loaded =
      load_part<Hdf5Backend>(kLibrary, "part for HDF5 (libbanyan_hdf5.so)", kHdf5BackendSymbol);
  return loaded;
}

const Hdf5Backend& backend_for(const char* doing, const std::string& path) {
  require_hdf5(cat(doing, " ", quoted(path, 4096)));
  return *backend().table;
}

}  // namespace

#ifdef BANYAN_WITH_HDF5
bool has_hdf5() { return true; }
#else
bool has_hdf5() { return false; }
#endif

void require_hdf5(const std::string& what) {
  if (!has_hdf5())
    bad_input(what, " needs HDF5, which this build of Banyan lacks: install libhdf5-dev and build again");
  if (backend().table == nullptr) bad_input(what, " needs HDF5: ", backend().why);
}

bool looks_like_hdf5(const std::string& path) {
  char head[8] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(head, sizeof head) && std::memcmp(head, "\x89HDF\r\n\x1a\n", sizeof head) == 0;
}

void rehearse_hdf5(const std::string& path, const std::function<void()>& read) {
  if (!rehearses || !has_hdf5() || backend().table == nullptr) return;  // `read` will say what is missing
  backend().table->rehearse(path, read);
}

void stop_rehearsing_hdf5() { rehearses = false; }

std::unique_ptr<Hdf5File> Hdf5File::open(const std::string& path) {
  return backend_for("reading", path).open(path);
}

std::unique_ptr<Hdf5File> Hdf5File::create(const std::string& path) {
  return backend_for("writing", path).create(path);
}

std::unique_ptr<Hdf5File> Hdf5File::create_in_memory(const std::string& name) {
  return backend_for("writing", name).create_in_memory(name);
}

}  // namespace banyan::io
