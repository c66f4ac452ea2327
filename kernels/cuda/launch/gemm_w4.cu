#include "run_gemm.cuh"

namespace tessera::kernels::cuda {

template <>
Status run_gemm<4>(const GemmPlan& plan, Real activation_type, const GemmArguments& arguments,
                   Stream stream) {
  return run_gemm_of<4>(plan, activation_type, arguments, stream);
}

}  // namespace tessera::kernels::cuda
