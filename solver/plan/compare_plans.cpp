#include "compare_plans.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/solver/instance/numbers.h"

namespace tessera::solver {
namespace {

struct Printed {
  std::string name;
  double value = 0;
};

/// The stages' first: a wrong one also makes the sums above them wrong.
std::vector<Printed> printed_numbers(const PipelinePlan& plan) {
  std::vector<Printed> numbers;
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& stage = plan.stages[k];
    const auto add = [&](const char* name, double value) {
      numbers.push_back({fmt::format("stages[{}].{}", k + 1, name), value});
    };
    add("memory.weight_bytes", stage.memory.weight_bytes);
    add("memory.kv_cache_bytes", stage.memory.kv_cache_bytes);
    add("memory.activation_bytes", stage.memory.activation_bytes);
    add("memory.embedding_bytes", stage.memory.embedding_bytes);
    add("memory.reserve_bytes", stage.memory.reserve_bytes);
    add("memory.total_bytes", stage.memory.total_bytes);
    add("memory.capacity_bytes", stage.memory.capacity_bytes);
    if (stage.attention) {
      const StageMemory& there = stage.attention->memory;
      add("attention.ratio", stage.attention->ratio);
      add("attention.memory.kv_cache_bytes", there.kv_cache_bytes);
      add("attention.memory.activation_bytes", there.activation_bytes);
      add("attention.memory.reserve_bytes", there.reserve_bytes);
      add("attention.memory.total_bytes", there.total_bytes);
      add("attention.memory.capacity_bytes", there.capacity_bytes);
    }
    numbers.push_back({fmt::format("a time of stages[{}] (prefill_s)", k + 1), stage.prefill_s});
    numbers.push_back({fmt::format("a time of stages[{}] (decode_s)", k + 1), stage.decode_s});
    if (!stage.offload) continue;
    add("offload.host_bytes", stage.offload->host_bytes);
    add("offload.disk_bytes", stage.offload->disk_bytes);
  }
  for (const Printed& total : {Printed{"objective", plan.objective},
                               {"latency_s", plan.latency_s},
                               {"throughput_tok_s", plan.throughput_tok_s},
                               {"omega", plan.omega},
                               {"mean_bitwidth", plan.mean_bitwidth}}) {
    numbers.push_back(total);
  }
  if (plan.quality) {
    const Quality& quality = *plan.quality;
    for (const auto& [name, band] : {std::pair{"perplexity_increase", quality.perplexity_increase},
                                     {"accuracy_recovery", quality.accuracy_recovery},
                                     {"kl_nats", quality.kl_nats}}) {
      numbers.push_back({fmt::format("quality.{}.low", name), band.low});
      numbers.push_back({fmt::format("quality.{}.mid", name), band.mid});
      numbers.push_back({fmt::format("quality.{}.high", name), band.high});
    }
  }
  return numbers;
}

Violation wrong(const std::string& what, double printed, double computed) {
  return {"objective", fmt::format("{} is {}, the models give {}", what, printed, computed)};
}

/// Whether the stages are on the devices that the plan's other fields say.
std::optional<Violation> find_wrong_device(const PipelinePlan& plan, const PipelinePlan& fresh) {
  if (plan.device_order != fresh.device_order) {
    return Violation{"devices", "device_order does not name the devices of the stages"};
  }
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& a = plan.stages[k];
    const PlanStage& b = fresh.stages[k];
    if (a.attention.has_value() != b.attention.has_value()) {
      return Violation{"attention",
                       fmt::format("stage {} and the plan's problem differ in whether heads of it "
                                   "are elsewhere",
                                   k + 1)};
    }
    if (a.attention &&
        (a.attention->device != b.attention->device || a.attention->node != b.attention->node)) {
      return Violation{
          "devices",
          fmt::format("heads of stage {} are said to be on {}@{}, device {} is {}@{}", k + 1,
                      a.attention->device, a.attention->node, b.attention->device_index,
                      b.attention->device, b.attention->node)};
    }
    if (a.node != b.node || a.device_index != b.device_index) {
      return Violation{
          "devices",
          fmt::format("stage {} is said to be on device {} ({}@{}), that is device {} "
                      "({}@{})",
                      k + 1, a.device_index, a.device, a.node, b.device_index, b.device, b.node)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Violation> find_difference(const PipelinePlan& plan, const PipelinePlan& fresh) {
  if (auto violation = find_wrong_device(plan, fresh)) return violation;
  const std::vector<Printed> printed = printed_numbers(plan), computed = printed_numbers(fresh);
  if (printed.size() > computed.size()) {
    return Violation{"quality", "its quality rests on nothing that its problem knows"};
  }
  for (std::size_t i = 0; i < printed.size(); ++i) {
    if (near(printed[i].value, computed[i].value)) continue;
    return wrong(printed[i].name, printed[i].value, computed[i].value);
  }
  if (plan.bound && *plan.bound > plan.objective + kNumberSlack * std::fabs(plan.objective)) {
    return wrong("bound", *plan.bound, plan.objective);
  }
  return std::nullopt;
}

}  // namespace tessera::solver
