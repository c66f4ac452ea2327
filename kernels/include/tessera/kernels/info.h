#pragma once

#include <span>

namespace tessera::kernels {

/// One version of one kernel.
struct KernelInfo {
  const char* name;  ///< "dequant_gemm"
  const char* isa;   ///< "scalar", "avx2", "avx512", "avx512-vnni", "amx-int8", "cuda sm_90"
  bool runs_here;    ///< this machine can run it
  bool tested;       ///< the tests have run it on some machine; otherwise it has only been compiled
  bool chosen;       ///< what a call uses here and now
};

/// Every version of every CPU kernel in this program, kernels together, slowest version first.
std::span<const KernelInfo> cpu_kernels();

/// Makes calls use the versions for `isa` from now on, and the next slower ones where a kernel has
/// none; null goes back to the fastest tested ones. False where the machine cannot run them. For
/// tests and benchmarks; do not call it while kernels run. The environment variable
/// TESSERA_KERNELS_ISA does the same from the start of the program.
bool use_isa(const char* isa);

}  // namespace tessera::kernels
