#include "tessera/solver/serving/kv_capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stage_of_plan.h"
#include "tessera/core/units.h"
#include "tessera/cost/memory.h"
#include "tessera/cost/tensor_parallel.h"
#include "tessera/solver/serving/step_cost.h"

namespace tessera::solver {
namespace {

constexpr double kDriverBytes = 440 * kMiB;
constexpr double kRuntimeBytes = 0.16 * kGiB, kGroupRuntimeBytes = 0.20 * kGiB;
// Logits in BF16 and FP32 (6), sorted values and 64-bit indices with the sort's own copies (24),
// softmax and its running sum (8): vllm/v1/sample/ops/topk_topp_sampler.py.
constexpr double kSamplingBytesPerLogit = 38;
constexpr double kHalfBytes = 2;

double number(std::int64_t value) { return static_cast<double>(value); }

/// Sines and cosines of all positions, which each device holds once for all its layers.
double rotary_bytes(const ModelShape& model) {
  if (model.position_embedding_parameters > 0 || model.family == "bloom") return 0;
  const LayerShape& layer = model.layer_classes.front();
  return number(model.max_context_tokens) * number(layer.rope_width.value_or(layer.head_dim)) *
         kHalfBytes;
}

double weight_bytes(const ModelShape& member, const StageOfPlan& stage,
                    const cost::MemoryQuery& query) {
  double bytes = cost::embedding_bytes(member, stage.place, query) + rotary_bytes(member);
  for (const auto& [kind, count] : stage.layers) {
    const auto& layer = member.layer_classes[static_cast<std::size_t>(kind.layer_class)];
    bytes += number(count) * cost::layer_weight_bytes(layer, kind.bitwidth, query);
  }
  return bytes;
}

double activation_bytes(const ModelShape& whole, const ModelShape& member, StagePlace place,
                        const serving::EngineOptions& engine, const cost::MemoryQuery& query) {
  Workload step;
  step.batch_size = 1;
  step.max_prompt_tokens = engine.max_num_batched_tokens;
  step.prompt_tokens = number(engine.max_num_batched_tokens);
  const double layers = cost::prefill_activation_bytes(member, step, 1, place, query);
  if (!is_last(place)) return layers;
  const double rows = number(std::min(engine.max_num_seqs, engine.max_num_batched_tokens));
  const double hidden_bytes =
      number(engine.max_num_batched_tokens) * number(whole.hidden_size) * kHalfBytes;
  // Logits of the whole vocabulary are gathered on every device.
  return std::max(layers, hidden_bytes + rows * number(whole.vocab_size) * kSamplingBytesPerLogit);
}

/// Layers that see all tokens take a block for each; those with a window keep, of each request, the
/// blocks of the window and one more, where vLLM's hybrid manager gives back the others. With few
/// tokens in the cache that is more than all of them, and then all are kept.
void add_blocks(const ModelShape& member, const StageOfPlan& stage,
                const serving::EngineOptions& engine, std::int32_t kv_bitwidth,
                StageKvMemory& memory) {
  double whole = 0, windowed = 0, of_windows = 0;
  for (const auto& [kind, count] : stage.layers) {
    const auto& layer = member.layer_classes[static_cast<std::size_t>(kind.layer_class)];
    const double bytes =
        number(count) * kv_cache_bytes(layer, 1, number(engine.block_size), kv_bitwidth);
    if (!layer.attention_window) {
      whole += bytes;
      continue;
    }
    windowed += bytes;
    of_windows += bytes * number(ceil_div(*layer.attention_window, engine.block_size) + 1);
  }
  memory.block_bytes = whole + windowed;
  if (whole == 0 || windowed == 0) return;
  const double reserved = number(engine.max_num_seqs) * of_windows;
  if ((memory.kv_bytes - reserved) / whole <= memory.kv_bytes / memory.block_bytes) return;
  memory.block_bytes = whole;
  memory.window_bytes = reserved;
}

StageKvMemory memory_of(const ServingProblem& serving, const StageOfPlan& stage,
                        const serving::EngineOptions& engine, std::int32_t kv_bitwidth) {
  const cost::MemoryQuery query{cost::MemoryPreset::physical, kv_bitwidth};
  const ModelShape member = cost::shard(serving.model, stage.degree());
  const Device& device = serving.cluster.devices[stage.members.front()].device;
  StageKvMemory memory;
  memory.usable_bytes = engine.gpu_memory_utilization * (device.memory_bytes - kDriverBytes);
  memory.weight_bytes = weight_bytes(member, stage, query);
  memory.activation_bytes = activation_bytes(serving.model, member, stage.place, engine, query);
  memory.runtime_bytes = stage.degree() > 1 ? kGroupRuntimeBytes : kRuntimeBytes;
  memory.kv_bytes =
      memory.usable_bytes - memory.weight_bytes - memory.activation_bytes - memory.runtime_bytes;
  add_blocks(member, stage, engine, kv_bitwidth, memory);
  return memory;
}

std::string no_room(const StageKvMemory& memory, std::size_t stage, const std::string& device,
                    const serving::EngineOptions& engine) {
  const double short_of = memory.block_bytes - memory.kv_bytes;
  return fmt::format(
      "no KV cache fits on stage {} ({}): of {} that gpu_memory_utilization {:g} allows, weights "
      "take {}, a step of {} tokens and {} requests {}, the runtime {}; {} are missing for one "
      "block of {} tokens. Use fewer bits, more devices, or a smaller max_num_batched_tokens or "
      "max_num_seqs",
      stage, device, format_bytes(memory.usable_bytes), engine.gpu_memory_utilization,
      format_bytes(memory.weight_bytes), engine.max_num_batched_tokens, engine.max_num_seqs,
      format_bytes(memory.activation_bytes), format_bytes(memory.runtime_bytes),
      format_bytes(short_of), engine.block_size);
}

}  // namespace

KvCapacity kv_capacity(const PipelinePlan& plan, const serving::EngineOptions& engine) {
  constexpr double kMostBlocks = 1e15;
  const std::vector<StageOfPlan> stages = stages_of_plan(plan);
  const ServingProblem& serving = *plan.problem.serving();
  const std::int32_t kv_bitwidth = kv_bitwidth_of(plan, engine);
  KvCapacity capacity;
  capacity.block_size = engine.block_size;
  double fewest = kMostBlocks;
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const StageKvMemory memory = memory_of(serving, stages[k], engine, kv_bitwidth);
    capacity.stages.push_back(memory);
    if (memory.block_bytes <= 0) continue;  // a stage without layers
    const double blocks = std::floor((memory.kv_bytes - memory.window_bytes) / memory.block_bytes);
    if (blocks >= fewest) continue;
    fewest = blocks;
    capacity.binding_stage = k;
  }
  if (engine.kv_blocks) {
    capacity.blocks = *engine.kv_blocks;
  } else if (fewest < 1) {
    const std::size_t k = capacity.binding_stage;
    capacity.why_not = no_room(capacity.stages[k], k, plan.stages[k].device, engine);
  } else {
    capacity.blocks = static_cast<std::int64_t>(fewest);
  }
  return capacity;
}

}  // namespace tessera::solver
