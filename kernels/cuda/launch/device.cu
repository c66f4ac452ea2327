#include "../device/intrinsics.cuh"
#include "runtime.h"

namespace tessera::kernels::cuda {
namespace {

/// Exists to be asked for what it was compiled.
TESSERA_GLOBAL void probe_kernel() {}

}  // namespace

Status current_device(Device* out) {
  if (out == nullptr) return Status::invalid_argument;
  int device = 0, major = 0, minor = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    cudaGetLastError();  // so that the next launch does not report it
    return Status::unsupported;
  }
  cudaFuncAttributes compiled;
  if (cudaFuncGetAttributes(&compiled, reinterpret_cast<const void*>(&probe_kernel)) !=
      cudaSuccess) {
    cudaGetLastError();
    return Status::unsupported;  // no code for this GPU, and none that the driver can compile for
                                 // it
  }
  const int capability = 10 * major + minor;
  *out = {compiled.ptxVersion < capability ? compiled.ptxVersion : capability, count};
  return Status::ok;
}

}  // namespace tessera::kernels::cuda
