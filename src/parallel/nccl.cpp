// NCCL is used by the CUDA back end, which knows what a stream is; it opens NCCL's library itself.
#include "banyan/base/error.hpp"
#include "banyan/parallel/device_wire.hpp"
#include "base/sibling_library.hpp"
#include "parallel/nccl_backend.hpp"

namespace banyan::parallel {

const DeviceWires& nccl_wires() {
  std::string why;
  const auto function = reinterpret_cast<NcclBackendFunction>(
      load_sibling("libbanyan_cuda.so", "CUDA back end", kNcclBackendSymbol, why));
  const DeviceWires* wires = function == nullptr ? nullptr : function(&why);
  if (wires == nullptr) bad_input("--uplink=nccl: ", why);
  return *wires;
}

}  // namespace banyan::parallel
