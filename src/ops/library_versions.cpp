#include "banyan/ops/library_versions.hpp"

#include <cblas.h>

#include <oneapi/dnnl/dnnl.hpp>

#include "banyan/base/error.hpp"

namespace banyan::ops {

std::vector<std::pair<std::string, std::string>> library_versions() {
  const dnnl_version_t& dnnl = *dnnl_version();
  std::string blas = openblas_get_config();
  if (blas.starts_with("OpenBLAS ")) blas.erase(0, 9);
  while (blas.ends_with(' ')) blas.pop_back();
  return {{"oneDNN", cat(dnnl.major, ".", dnnl.minor, ".", dnnl.patch)}, {"OpenBLAS", blas}};
}

}  // namespace banyan::ops
