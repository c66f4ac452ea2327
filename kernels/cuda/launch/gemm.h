#pragma once

#include "../device/gemm_arguments.cuh"
#include "runtime.h"
#include "tessera/kernels/cuda/gemm.h"

namespace tessera::kernels::cuda {

/// Starts the plan's kernel for weights of `Bitwidth` bits. One file for each bitwidth, so that
/// they compile side by side.
template <int Bitwidth>
Status run_gemm(const GemmPlan& plan, Real activation_type, const GemmArguments& arguments,
                Stream stream);
template <>
Status run_gemm<3>(const GemmPlan& plan, Real activation_type, const GemmArguments& arguments,
                   Stream stream);
template <>
Status run_gemm<4>(const GemmPlan& plan, Real activation_type, const GemmArguments& arguments,
                   Stream stream);
template <>
Status run_gemm<8>(const GemmPlan& plan, Real activation_type, const GemmArguments& arguments,
                   Stream stream);

}  // namespace tessera::kernels::cuda
