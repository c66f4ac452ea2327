#include "tessera/solver/problem/runtime_kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/cost/tensor_parallel.h"

namespace tessera::solver {
namespace {

struct Kernels {
  const char* name;
  std::vector<std::int32_t> bitwidths, kv_bitwidths;
};

const Kernels& kernels_of(Runtime runtime) {
  static const Kernels vllm{"vLLM", {4, 8, 16}, {8, 16}};
  static const Kernels llama_cpp{"llama.cpp", {3, 4, 8, 16}, {4, 8, 16}};
  return runtime == Runtime::vllm ? vllm : llama_cpp;
}

/// Formats of checkpoints, and the least compute capability on which vLLM reads them; on AMD's GPUs
/// it reads each (vllm/platforms/rocm.py, supported_quantization).
struct FormatKernels {
  const char *format, *name;
  double min_compute_capability;
};
constexpr FormatKernels kFormatKernels[] = {
    {"awq", "AWQ", 7.5},       // vllm/model_executor/layers/quantization/awq.py
    {"mxfp4", "MXFP4", 8.0}};  // the same, mxfp4.py, which gpt-oss's inherits

constexpr double kLeastGroup = 16;
constexpr double kCuda = 2;  // compute capabilities below it are of no NVIDIA GPU

bool is_rocm(const Device& device) { return device.backend == "rocm"; }

/// Weights that share a scale in what a runtime is to load; 0 where that is no matter of cuts.
double group_size_of(const ModelShape& model, const cost::KernelRule& rule, std::int32_t bitwidth) {
  if (model.checkpoint_bits == bitwidth && model.checkpoint_format)
    return static_cast<double>(model.checkpoint_group_size.value_or(0));
  if (bitwidth >= 16 || rule.format() != WeightFormat::weights_only) return 0;
  double size = rule.group_size;
  while (size > kLeastGroup && cost::why_groups_break(model, size, 1)) size /= 2;
  return size;
}

bool has(const std::vector<std::int32_t>& list, std::int32_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

std::optional<std::string> bitwidth_obstacle(Runtime runtime,
                                             const std::vector<std::int32_t>& bitwidths) {
  if (runtime == Runtime::tessera) return std::nullopt;
  const Kernels& kernels = kernels_of(runtime);
  for (const std::int32_t bitwidth : bitwidths) {
    if (has(kernels.bitwidths, bitwidth)) continue;
    return fmt::format("{} has no kernel for {}-bit weights", kernels.name, bitwidth);
  }
  return std::nullopt;
}

std::optional<std::string> kv_obstacle(Runtime runtime, std::int32_t kv_bitwidth) {
  if (runtime == Runtime::tessera) return std::nullopt;
  const Kernels& kernels = kernels_of(runtime);
  if (has(kernels.kv_bitwidths, kv_bitwidth)) return std::nullopt;
  return fmt::format("{} has no KV cache of {} bits", kernels.name, kv_bitwidth);
}

std::optional<std::string> device_obstacle(Runtime runtime, const Device& device,
                                           std::int32_t kv_bitwidth) {
  if (runtime != Runtime::vllm) return std::nullopt;
  if (is_rocm(device)) {
    // gfx94, gfx95 and gfx12 have FP8 (vllm/platforms/rocm.py, supports_fp8)
    if (kv_bitwidth != 8 || device.flop_per_s.contains("fp8")) return std::nullopt;
    return fmt::format("an 8-bit KV cache is FP8 in vLLM, of which {} has no rate", device.name);
  }
  const double has = device.compute_capability;
  if (has < kCuda) {
    return fmt::format("launch files are for NVIDIA's and AMD's GPUs, and {} is neither",
                       device.name);
  }
  if (has < 7) {
    return fmt::format("{} has compute capability {:g}; vLLM needs 7.0", device.name, has);
  }
  if (kv_bitwidth != 8 || has >= kFp8Capability) return std::nullopt;
  return fmt::format(
      "an 8-bit KV cache is FP8 in vLLM, which needs compute capability {:g}; {} has {:g}",
      kFp8Capability, device.name, has);
}

std::optional<std::string> rocm_obstacle(const Device& device, const cost::KernelSet& kernels) {
  if (!is_rocm(device) || kernels.runtime == name_of(Runtime::vllm)) return std::nullopt;
  return fmt::format(
      "vLLM runs on those of AMD's GPUs that its kernel set vllm_rocm names, and {} is priced by "
      "{}",
      device.name, kernels.name);
}

std::optional<std::string> format_obstacle(Runtime runtime, const ModelShape& model,
                                           const std::vector<std::int32_t>& bitwidths,
                                           const Device& device) {
  if (runtime != Runtime::vllm || !has(bitwidths, 4) || is_rocm(device)) return std::nullopt;
  const std::string format =
      model.checkpoint_format.value_or(cost::has_mxfp4_experts(model) ? "mxfp4" : "");
  for (const FormatKernels& known : kFormatKernels) {
    const double least = known.min_compute_capability;
    if (format != known.format || device.compute_capability >= least) continue;
    return fmt::format("vLLM reads {} from compute capability {:.1f} on; {} has {:.1f}", known.name,
                       least, device.name, device.compute_capability);
  }
  return std::nullopt;
}

std::optional<std::string> cut_obstacle(Runtime runtime, const ModelShape& model,
                                        const cost::KernelRule& rule, std::int32_t bitwidth,
                                        std::int64_t degree, const cost::GroupSplit& split) {
  if (runtime != Runtime::vllm || degree == 1) return std::nullopt;
  const auto why =
      cost::why_groups_break(model, group_size_of(model, rule, bitwidth), degree, split);
  if (!why) return std::nullopt;
  return *why + ", and vLLM loads whole groups on every GPU";
}

std::optional<std::string> sharing_obstacle(const Device& device, std::int32_t kv_bitwidth) {
  if (!is_rocm(device) && device.compute_capability < kCuda) {
    return fmt::format("llama.cpp shares layers among CUDA's and ROCm's GPUs; {} is neither",
                       device.name);
  }
  if (kv_bitwidth == 16) return std::nullopt;
  return fmt::format("llama.cpp shares layers with a KV cache of 16 bits; this one has {}",
                     kv_bitwidth);
}

std::vector<std::string> kernel_obstacles(Runtime runtime, const ModelShape& model,
                                          const std::vector<std::int32_t>& bitwidths,
                                          std::int32_t kv_bitwidth, const Device& device) {
  std::vector<std::string> found;
  for (auto&& reason :
       {bitwidth_obstacle(runtime, bitwidths), device_obstacle(runtime, device, kv_bitwidth),
        format_obstacle(runtime, model, bitwidths, device), kv_obstacle(runtime, kv_bitwidth)}) {
    if (reason) found.push_back(*reason);
  }
  return found;
}

std::string eight_bit_kind(const cost::KernelSet& kernels, const Device& device) {
  const cost::KernelRule* rule = kernels.find(device, 8);
  if (rule == nullptr) return "int";
  const WeightFormat format = rule->format();
  if (format == WeightFormat::int8_activations) return "w8a8";
  const bool fp8 = format == WeightFormat::fp8_weights || format == WeightFormat::fp8_activations;
  return fp8 ? "fp8" : "int";
}

std::vector<std::vector<std::int32_t>> checkpoint_bitwidths(std::optional<Runtime> runtime,
                                                            const BatchProblem& batch,
                                                            const cost::KernelSet& kernels) {
  const auto& slots = batch.cluster.devices;
  const bool one_scheme =
      runtime != Runtime::vllm || std::all_of(slots.begin(), slots.end(), [&](const auto& slot) {
        return eight_bit_kind(kernels, slot.device) == "int";
      });
  std::vector<std::int32_t> whole, eight;
  for (const std::int32_t bitwidth : batch.bitwidths) {
    if (runtime && bitwidth_obstacle(*runtime, {bitwidth})) continue;
    (bitwidth == 8 && !one_scheme ? eight : whole).push_back(bitwidth);
  }
  std::vector<std::vector<std::int32_t>> sets;
  for (auto* set : {&eight, &whole}) {
    if (!set->empty()) sets.push_back(std::move(*set));
  }
  if (sets.empty()) sets.push_back(batch.bitwidths);
  return sets;
}

}  // namespace tessera::solver
