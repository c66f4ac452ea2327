#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/solver/problem/problem.h"

/// What a runtime has kernels for. Reasons are sentences without full stops. `tessera` runs all
/// that has a price.
namespace tessera::solver {

/// The least compute capability on which vLLM's attention reads FP8, its KV cache of 8 bits. The
/// kernel sets of vLLM say the same (kv_rules).
inline constexpr double kFp8Capability = 8.9;

/// Why a runtime cannot run weights of these bitwidths, or a KV cache of this one; absent where it
/// can.
std::optional<std::string> bitwidth_obstacle(Runtime runtime,
                                             const std::vector<std::int32_t>& bitwidths);
std::optional<std::string> kv_obstacle(Runtime runtime, std::int32_t kv_bitwidth);
/// Why a runtime's launch files are not for a device; absent where they are.
std::optional<std::string> device_obstacle(Runtime runtime, const Device& device,
                                           std::int32_t kv_bitwidth);
/// Why a runtime does not read the format of a model's checkpoint on a device.
std::optional<std::string> format_obstacle(Runtime runtime, const ModelShape& model,
                                           const std::vector<std::int32_t>& bitwidths,
                                           const Device& device);
/// Why vLLM does not run on one of AMD's GPUs with such kernels: which of them it runs on, and at
/// which bitwidths, its own kernel sets say; absent on others' GPUs.
std::optional<std::string> rocm_obstacle(const Device& device, const cost::KernelSet& kernels);
/// Why vLLM does not load weights of a bitwidth cut over `degree` devices: a device needs whole
/// groups of weights that share a scale, or whole FP8 blocks. They are the checkpoint's, else those
/// of the copy that is made: the kernel's, or as many times half as many as divide the whole
/// matrices.
std::optional<std::string> cut_obstacle(Runtime runtime, const ModelShape& model,
                                        const cost::KernelRule& rule, std::int32_t bitwidth,
                                        std::int64_t degree, const cost::GroupSplit& split);
/// Why llama.cpp does not share layers among devices of a kind (--split-mode tensor, builds from
/// April 2026 on; docs/multi-gpu.md and pull request 19378 of ggml-org/llama.cpp).
std::optional<std::string> sharing_obstacle(const Device& device, std::int32_t kv_bitwidth);
/// All of these, of engines of any shape.
std::vector<std::string> kernel_obstacles(Runtime runtime, const ModelShape& model,
                                          const std::vector<std::int32_t>& bitwidths,
                                          std::int32_t kv_bitwidth, const Device& device);

/// "int" (weights alone), "fp8" or "w8a8": what 8 bit means on a device.
std::string eight_bit_kind(const cost::KernelSet& kernels, const Device& device);

/// The sets of a problem's bitwidths that one checkpoint for the runtime can have, none of them
/// empty: where 8 bit means integers for the weights alone on every device all that it has kernels
/// for, else 8 bit alone, or all others. What is given where there is nothing to choose.
std::vector<std::vector<std::int32_t>> checkpoint_bitwidths(std::optional<Runtime> runtime,
                                                            const BatchProblem& batch,
                                                            const cost::KernelSet& kernels);

}  // namespace tessera::solver
