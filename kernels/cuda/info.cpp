// The list of the CUDA kernels: plain C++, because a program lists them also where no CUDA is.
#include "tessera/kernels/info.h"

#ifndef TESSERA_CUDA_COMPILED
#define TESSERA_CUDA_COMPILED ""
#endif

namespace tessera::kernels {
namespace {

constexpr int kNewest = kNewestCapability;
constexpr bool kTested = true;  // on an H100; what it does not run is marked below

constexpr CudaKernelInfo kAll[] = {
    {"attention", 60, kNewest, kTested, "attention over keys and values in blocks"},
    {"partial_moments", 60, kNewest, kTested, "moments of a tensor, one part a block"},
    {"merge_moments", 60, kNewest, kTested, "moments of a tensor, the parts together"},
    {"group_moments", 60, kNewest, kTested, "moments of every row or group"},
    {"choose_scales", 60, kNewest, kTested, "scales and zero points"},
    {"quantise", 60, kNewest, kTested, "codes of 3, 4 and 8 bits"},
    {"dequantise", 60, kNewest, kTested, "codes back to f32"},
    {"pack", 60, kNewest, kTested, "codes to dense bits"},
    {"unpack", 60, kNewest, kTested, "dense bits to codes"},
    {"pack_weights", 60, kNewest, kTested, "codes into the tiles of the products"},
    {"pack_scales", 60, kNewest, kTested, "scales into the order of the products"},
    {"round_activations", 60, kNewest, kTested, "activations to the type that a product takes"},
    {"decode_gemm", 75, kNewest, kTested,
     "3-, 4- and 8-bit products, at most 16 tokens, tensor cores"},
    {"tile_gemm", 75, kNewest, kTested,
     "3-, 4- and 8-bit products, any number of tokens, tensor cores"},
    {"sum_splits", 60, kNewest, kTested, "partial sums of a product split over k"},
    {"wmma_gemm", 70, 72, !kTested, "3-, 4- and 8-bit products, the first tensor cores"},
    {"fma_decode", 60, kNewest, kTested,
     "3-, 4- and 8-bit products, at most 4 tokens, multiply-adds"},
    {"fma_gemm", 60, kNewest, kTested, "3-, 4- and 8-bit products, multiply-adds; f32 activations"},
    {"quantise_rows", 60, kNewest, kTested, "activations to int8 with a scale per row"},
    {"int8_gemm", 75, kNewest, kTested, "W8A8 products, tensor cores"},
    {"int8_dot", 60, kNewest, !kTested, "W8A8 products, dp4a from sm_61 on"},
    {"find_outliers", 60, kNewest, kTested, "LLM.int8(): columns with outliers"},
    {"list_outliers", 60, kNewest, kTested, "LLM.int8(): their list"},
    {"add_outliers", 60, kNewest, kTested, "LLM.int8(): their product, added"},
    {"list_token_outliers", 60, kNewest, kTested, "LLM.int8() token by token: every token's list"},
    {"add_token_outliers", 60, kNewest, kTested, "LLM.int8() token by token: the product, added"},
};

}  // namespace

std::span<const CudaKernelInfo> cuda_kernels() { return kAll; }
const char* cuda_architectures() { return TESSERA_CUDA_COMPILED; }

}  // namespace tessera::kernels
