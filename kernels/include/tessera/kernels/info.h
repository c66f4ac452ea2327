#pragma once

#include <span>

namespace tessera::kernels {

/// One version of one kernel.
struct KernelInfo {
  const char* name;  ///< "dequant_gemm"
  const char* isa;   ///< "scalar", "avx2", "avx512", "avx512-vnni", "cuda sm_90"
  bool runs_here;    ///< this machine can run it
  bool chosen;       ///< what a call uses here and now
};

/// Every version of every CPU kernel in this program, kernels together, slowest version first.
std::span<const KernelInfo> cpu_kernels();

inline constexpr int kNewestCapability = 999;  ///< of a CUDA kernel: no GPU is too new

/// A CUDA kernel.
struct CudaKernelInfo {
  const char* name;      ///< of its __global__ function, without _kernel
  int first_capability;  ///< 75: sm_75 and newer have what it needs
  int last_capability;   ///< 72: newer GPUs have something better
  bool tested;       ///< the tests have run it on some GPU; otherwise only compiled, and emulated
  const char* does;  ///< for a reader: "products of at most 16 tokens, tensor cores"
};

/// Every CUDA kernel of kernels/cuda; whether or not this build compiled them.
std::span<const CudaKernelInfo> cuda_kernels();

/// The architectures for which this build compiles the CUDA kernels: "sm_80 sm_90"; empty where no
/// working toolkit was found.
const char* cuda_architectures();

/// Makes calls use the versions for `isa` from now on, and the next slower ones where a kernel has
/// none; null goes back to the fastest ones. False where the machine cannot run them. For
/// tests and benchmarks; do not call it while kernels run. The environment variable
/// TESSERA_KERNELS_ISA does the same from the start of the program.
bool use_isa(const char* isa);

/// What TESSERA_KERNELS_ISA names where nothing runs here by that name, so that the fastest are in
/// use; nullptr else. Whoever compares versions wants to know.
const char* unknown_isa();

}  // namespace tessera::kernels
