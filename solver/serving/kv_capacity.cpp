#include "tessera/solver/serving/kv_capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/units.h"
#include "tessera/cost/device_group.h"
#include "tessera/cost/tensor_parallel.h"
#include "tessera/solver/serving/step_cost.h"

namespace tessera::solver {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

/// Layers that see all tokens take a block for each; those with a window keep, of each request, the
/// blocks of the window and one more, where vLLM's hybrid manager gives back the others. With few
/// tokens in the cache that is more than all of them, and then all are kept.
void add_blocks(const ModelShape& member, const cost::Stage& stage,
                const serving::EngineOptions& engine, std::int64_t seats, std::int32_t kv_bitwidth,
                StageKvMemory& memory) {
  double whole = 0, windowed = 0, of_windows = 0;
  for (const auto& [kind, count] : stage.layers) {
    const auto& layer = member.layer_classes[static_cast<std::size_t>(kind.layer_class)];
    if (layer.state) memory.state_bytes += number(seats * count) * layer.state->bytes();
    const double bytes =
        number(count) * kv_cache_bytes(layer, 1, number(engine.block_size), kv_bitwidth);
    whole += number(count) * kv_entry_bytes(layer, 1, number(engine.block_size), kv_bitwidth);
    if (!layer.attention_window) {
      whole += bytes;
      continue;
    }
    windowed += bytes;
    of_windows += bytes * number(ceil_div(*layer.attention_window, engine.block_size) + 1);
  }
  memory.block_bytes = whole + windowed;
  if (whole == 0 || windowed == 0) return;
  const double reserved = number(seats) * of_windows, room = memory.kv_bytes - memory.state_bytes;
  if ((room - reserved) / whole <= room / memory.block_bytes) return;
  memory.block_bytes = whole;
  memory.window_bytes = reserved;
}

cost::MemoryQuery memory_query(const serving::EngineOptions& engine,
                               std::int32_t kv_bitwidth = 16) {
  return {.preset = cost::MemoryPreset::vllm,
          .kv_bitwidth = kv_bitwidth,
          .version = runtime_version(engine.runtime_version, "engine.runtime_version")};
}

/// The weights of an account, of a device that holds its share of the model.
void add_weights(const ModelShape& member, const cost::Stage& stage, const cost::MemoryQuery& query,
                 cost::MemoryAccount& memory) {
  for (const auto& [kind, count] : stage.layers) {
    const auto& layer = member.layer_classes[static_cast<std::size_t>(kind.layer_class)];
    memory.weight_bytes += number(count) * cost::layer_weight_bytes(layer, kind.bitwidth, query);
  }
  memory.embedding_bytes = cost::embedding_bytes(member, stage.place, query);
}

/// Of the model's own layers for drafts, which the last stage loads where they draft, at the bits
/// of its last layers.
double drafting_bytes(const ModelShape& model, const cost::Stage& stage,
                      const serving::EngineOptions& engine) {
  const bool drafts = engine.speculative && engine.speculative->method == serving::DraftMethod::mtp;
  if (!drafts || !is_last(stage.place) || stage.layers.empty()) return 0;
  const double bits = stage.layers.rbegin()->first.bitwidth;
  return number(model.next_token_parameters) * bits / 8 / number(stage.degree());
}

StageKvMemory memory_of(const cost::PricingContext& context, const cost::Stage& stage,
                        const serving::EngineOptions& engine, std::int32_t kv_bitwidth) {
  const cost::MemoryQuery query =
      cost::of_checkpoint(memory_query(engine, kv_bitwidth), context.model, context.kernel_set);
  const ModelShape member = cost::shard(context.model, stage.degree(), context.split);
  const std::int64_t seats = ceil_div(engine.max_num_seqs, context.split.attention_data_parallel);
  std::int64_t num_layers = 0;
  for (const auto& [kind, count] : stage.layers) num_layers += count;
  StageKvMemory memory{cost::empty_account(context, stage.members, query,
                                           engine.gpu_memory_utilization, num_layers)};
  add_weights(member, stage, query, memory);
  memory.weight_bytes += drafting_bytes(context.model, stage, engine);
  memory.activation_bytes = cost::step_activation_bytes(
      context.model, member, engine.max_num_batched_tokens, seats, stage.place, query);
  memory.kv_bytes = memory.left_bytes();
  add_blocks(member, stage, engine, seats, kv_bitwidth, memory);
  return memory;
}

}  // namespace

double stage_weight_bytes(const cost::PricingContext& context, const cost::Stage& stage) {
  cost::MemoryAccount memory;
  add_weights(cost::shard(context.model, stage.degree(), context.split), stage,
              cost::of_checkpoint(memory_query(serving::EngineOptions{}), context.model,
                                  context.kernel_set),
              memory);
  return memory.weight_bytes + memory.embedding_bytes;
}

double gpu_memory_utilization(const serving::EngineOptions& engine) {
  return engine.gpu_memory_utilization.value_or(
      cost::runtime_memory(memory_query(engine)).utilisation);
}

namespace {

std::string no_room(const StageKvMemory& memory, std::size_t stage, const std::string& device,
                    const serving::EngineOptions& engine) {
  const double short_of = memory.block_bytes - memory.cache_bytes();
  const std::string states = memory.state_bytes > 0
                                 ? fmt::format("states of {} requests {}, ", engine.max_num_seqs,
                                               format_bytes(memory.state_bytes))
                                 : "";
  return fmt::format(
      "no KV cache fits on stage {} ({}): of {} that gpu_memory_utilization {:g} allows, weights "
      "take {}, a step of {} tokens and {} requests {}, {}the runtime {}; {} are missing for one "
      "block of {} tokens. Use fewer bits, more devices, or a smaller max_num_batched_tokens or "
      "max_num_seqs",
      stage, device, format_bytes(memory.usable_bytes), gpu_memory_utilization(engine),
      format_bytes(memory.weight_bytes + memory.embedding_bytes), engine.max_num_batched_tokens,
      engine.max_num_seqs, format_bytes(memory.activation_bytes), states,
      format_bytes(memory.reserve_bytes), format_bytes(short_of), engine.block_size);
}

}  // namespace

KvCapacity kv_capacity(const PricedEngine& priced, const serving::EngineOptions& engine) {
  constexpr double kMostBlocks = 1e15;
  const std::int32_t kv_bitwidth = kv_bitwidth_of(priced, engine);
  KvCapacity capacity;
  capacity.block_size = engine.block_size;
  double fewest = kMostBlocks;
  for (std::size_t k = 0; k < priced.stages.size(); ++k) {
    const StageKvMemory memory = memory_of(priced.context, priced.stages[k], engine, kv_bitwidth);
    capacity.stages.push_back(memory);
    if (memory.block_bytes <= 0 && memory.cache_bytes() >= 0) continue;  // nothing grows there
    if (memory.block_bytes <= 0) {
      fewest = 0;  // not even its states fit
      capacity.binding_stage = k;
      continue;
    }
    const double blocks = std::floor(memory.cache_bytes() / memory.block_bytes);
    if (blocks >= fewest) continue;
    fewest = blocks;
    capacity.binding_stage = k;
  }
  if (engine.kv_blocks) {
    capacity.blocks = *engine.kv_blocks;
  } else if (priced.context.model.kv_bytes_per_token(kv_bitwidth) == 0) {
    capacity.why_not = fmt::format(
        "{} keeps a state of fixed size alone, and no keys or values that blocks could hold; give "
        "kv_blocks to simulate it with tokens that take memory",
        priced.context.model.name);
  } else if (fewest < 1) {
    const std::size_t k = capacity.binding_stage;
    capacity.missing_bytes = capacity.stages[k].block_bytes - capacity.stages[k].cache_bytes();
    capacity.why_not = no_room(capacity.stages[k], k, priced.stage_name(k), engine);
  } else {
    capacity.blocks =
        static_cast<std::int64_t>(fewest) * priced.context.split.attention_data_parallel;
  }
  return capacity;
}

}  // namespace tessera::solver
