#include "banyan/data/library_versions.hpp"

#include <lmdb.h>
#include <png.h>

#include "banyan/base/error.hpp"

namespace banyan::data {

std::vector<std::pair<std::string, std::string>> library_versions() {
  int major = 0, minor = 0, patch = 0;
  mdb_version(&major, &minor, &patch);
  return {{"LMDB", cat(major, ".", minor, ".", patch)}, {"libpng", png_get_libpng_ver(nullptr)}};
}

}  // namespace banyan::data
