#include "attention_text.h"

#include <fmt/format.h>

#include "stage_table.h"
#include "tessera/core/units.h"
#include "tessera/cost/stage_price.h"

namespace tessera::solver {
namespace {

const LayerShape& first_layer(const PipelinePlan& plan, const PlanStage& stage) {
  return plan.problem.batch()->model.layer(stage.first_layer);
}

/// Seconds of a layer's heads, means over the units of a phase.
struct AttentionSeconds {
  double kept_s = 0, there_s = 0, link_s = 0;
};

AttentionSeconds seconds_of(const PipelinePlan& plan, const PlanStage& stage, cost::Phase phase) {
  const BatchProblem& batch = *plan.problem.batch();
  const auto device = static_cast<std::size_t>(stage.device_index);
  const auto there = static_cast<std::size_t>(stage.attention->device_index);
  const auto price = cost::make_stage_price(batch, {device}, batch.kv_bitwidth);
  const auto attender = cost::make_device_attender(batch, device, there, batch.kv_bitwidth);
  const LayerShape& layer = first_layer(plan, stage);
  const LayerShape kept = cost::kept_of(layer, stage.attention->ratio);
  const LayerShape moved = cost::moved_of(layer, stage.attention->ratio);
  const auto size = static_cast<double>(
      phase == cost::Phase::prefill ? plan.prefill_micro_batch_size : plan.decode_micro_batch_size);
  const auto units = cost::units_of(batch.workload, size, phase);
  const double share = 1 / static_cast<double>(units.size());
  AttentionSeconds seconds;
  for (const cost::LayerWork& work : units) {
    if (kept.num_kv_heads > 0) {
      seconds.kept_s += share * price->attention_s(kept, stage.bitwidths.front(), work);
    }
    seconds.there_s += share * attender->attention_s(moved, work);
    seconds.link_s += share * attender->link_s(moved, work);
  }
  return seconds;
}

}  // namespace

std::string describe_attention(const PipelinePlan& plan) {
  std::string text;
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& stage = plan.stages[k];
    if (!stage.attention || stage.num_layers == 0) continue;
    const StageAttention& there = *stage.attention;
    const LayerShape& layer = first_layer(plan, stage);
    text += fmt::format(
        "  attention: {} of {} KV heads of stage {} on {}, {} of KV cache; {} of {} ({:.0f} %)\n",
        cost::kv_heads_elsewhere(layer, there.ratio), layer.num_kv_heads, k, there.device,
        format_bytes(there.memory.kv_cache_bytes), format_bytes(there.memory.total_bytes),
        format_bytes(there.memory.capacity_bytes), 100 * used_ratio(there.memory));
  }
  return text;
}

std::string explain_attention(const PipelinePlan& plan) {
  std::string text;
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& stage = plan.stages[k];
    if (!stage.attention || stage.num_layers == 0) continue;
    for (const auto& [name, phase] :
         {std::pair{"prefill", cost::Phase::prefill}, std::pair{"decoding", cost::Phase::decode}}) {
      const AttentionSeconds s = seconds_of(plan, stage, phase);
      text += fmt::format(
          "  stage {}, {}: attention of a layer waits for {}: {} on {}, of it {} on the link, and "
          "{} on {}\n",
          k, name, s.there_s >= s.kept_s ? stage.attention->device : stage.device,
          format_seconds(s.there_s), stage.attention->device, format_seconds(s.link_s),
          format_seconds(s.kept_s), stage.device);
    }
  }
  return text;
}

}  // namespace tessera::solver
