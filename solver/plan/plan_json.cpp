#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/solver/plan/plan.h"

namespace tessera::solver {
namespace {

Json file_of(const PipelinePlan& plan) {
  Json json;
  json["format"] = "tessera-plan";
  json["version"] = kPlanSchemaVersion;
  write_fields(plan, json);
  return json;
}

Json file_of(const ReplicatedPlan& plan) {
  Json json = file_of(shown_pipeline(plan));
  for (const PipelinePlan& replica : plan.replicas) json["replicas"].push_back(file_of(replica));
  return json;
}

// `devices`: of the cluster that the indices are into, by those of the plan's own; absent: the
// same.
Json pipeline_json(const PipelinePlan& plan,
                   const std::optional<std::vector<std::int64_t>>& devices) {
  Json stages = Json::array();
  for (PlanStage stage : plan.stages) {
    if (devices) {
      const auto whole = [&](std::int64_t own) {
        return devices->at(static_cast<std::size_t>(own));
      };
      stage.device_index = whole(stage.device_index);
      if (stage.attention) stage.attention->device_index = whole(stage.attention->device_index);
    }
    stages.push_back(json_of(stage));
  }
  return {{"device_order", plan.device_order},
          {"prefill_micro_batch_size", plan.prefill_micro_batch_size},
          {"decode_micro_batch_size", plan.decode_micro_batch_size},
          {"batch_size", plan.problem.instance().batch_size},
          {"latency_s", plan.latency_s},
          {"throughput_tok_s", plan.throughput_tok_s},
          {"mean_bitwidth", plan.mean_bitwidth},
          {"provenance", std::string(name_of(plan.provenance))},
          {"stages", std::move(stages)}};
}

void check_header(JsonFields& fields, const std::string& path) {
  if (fields.text("format") != "tessera-plan") {
    refuse(path, "not a Tessera plan (field 'format')");
  }
  const auto version = fields.integer("version", 0, 1'000'000);
  if (version == kPlanSchemaVersion) return;
  refuse(ErrorCode::unsupported, path,
         "plan schema version {}, this program reads version {}; make the plan again", version,
         kPlanSchemaVersion);
}

/// The problem of a file says nothing of divided attention, its stages do.
void settle_attention(PipelinePlan& plan, const std::string& path) {
  std::vector<DividedAttention> divided;
  for (const PlanStage& stage : plan.stages) {
    if (!stage.attention) continue;
    divided.push_back(
        {static_cast<std::size_t>(stage.device_index),
         {static_cast<std::size_t>(stage.attention->device_index), stage.attention->ratio}});
  }
  if (divided.empty()) return;
  Problem problem = plan.problem.problem();
  problem.batch()->attention = std::move(divided);
  try {
    groups_of(*problem.batch());
  } catch (const Error& error) {
    throw Error(error.code(), path + ": " + error.what(), path);
  }
  plan.problem = LoweredProblem(std::move(problem));
}

/// All that a file says, but for its replicas.
PipelinePlan pipeline_from_json(JsonFields& fields, const std::string& path) {
  PipelinePlan plan(LoweredProblem(Problem{}));  // its own is among the fields
  read_fields(fields, plan);
  check_record(plan, FieldPath{path});
  settle_attention(plan, path);
  return plan;
}

ReplicatedPlan replicated_from_json(JsonFields& fields, const std::string& path,
                                    const PipelinePlan& said) {
  std::vector<PipelinePlan> replicas;
  const Json& list = fields.at("replicas");
  check_array(list, fields.path_of("replicas"));
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", fields.path_of("replicas"), i);
    Plan replica = plan_from_json(list[i], where);
    if (!std::holds_alternative<PipelinePlan>(replica)) {
      refuse(where, "a replica has no replicas of its own");
    }
    replicas.push_back(std::get<PipelinePlan>(std::move(replica)));
  }
  if (replicas.empty()) refuse(path, "replicas: give at least one plan");
  if (!said.stages.empty() || !said.device_order.empty() || said.offload || said.devices) {
    refuse(path, "a plan with replicas has no stages and no devices of its own");
  }
  ReplicatedPlan plan(said, std::move(replicas));
  const PipelinePlan& slowest = plan.slowest();
  if (said.prefill_micro_batch_size != slowest.prefill_micro_batch_size ||
      said.decode_micro_batch_size != slowest.decode_micro_batch_size) {
    refuse(path, "its micro-batch sizes are {} and {}, those of its slowest replica {} and {}",
           said.prefill_micro_batch_size, said.decode_micro_batch_size,
           slowest.prefill_micro_batch_size, slowest.decode_micro_batch_size);
  }
  return plan;
}

}  // namespace

const PipelinePlan& ReplicatedPlan::slowest() const {
  return *std::max_element(
      replicas.begin(), replicas.end(),
      [](const PipelinePlan& a, const PipelinePlan& b) { return a.latency_s < b.latency_s; });
}

PipelinePlan shown_pipeline(const ReplicatedPlan& plan) {
  PipelinePlan shown(plan);
  shown.prefill_micro_batch_size = plan.slowest().prefill_micro_batch_size;
  shown.decode_micro_batch_size = plan.slowest().decode_micro_batch_size;
  return shown;
}

const PlanSummary& summary_of(const Plan& plan) {
  return std::visit([](const PlanSummary& summary) -> const PlanSummary& { return summary; }, plan);
}

PlanSummary& summary_of(Plan& plan) {
  return std::visit([](PlanSummary& summary) -> PlanSummary& { return summary; }, plan);
}

Json pipelines_json(const Plan& plan) {
  Json pipelines = Json::array();
  if (const auto* pipeline = std::get_if<PipelinePlan>(&plan)) {
    pipelines.push_back(pipeline_json(*pipeline, std::nullopt));
  } else {
    for (const PipelinePlan& replica : std::get<ReplicatedPlan>(plan).replicas) {
      pipelines.push_back(pipeline_json(replica, replica.devices));
    }
  }
  return pipelines;
}

Json to_json(const Plan& plan) {
  Json json = std::visit([](const auto& one) { return file_of(one); }, plan);
  json["pipelines"] = pipelines_json(plan);
  return json;
}

Plan plan_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  check_header(fields, path);
  PipelinePlan plan = pipeline_from_json(fields, path);
  fields.ignore("pipelines");  // what follows from the rest
  if (!fields.has("replicas")) {
    fields.finish();
    return plan;
  }
  ReplicatedPlan replicated = replicated_from_json(fields, path, plan);
  fields.finish();
  return replicated;
}

}  // namespace tessera::solver

namespace tessera {

Json JsonValue<solver::LoweredProblem>::write(const solver::LoweredProblem& problem) {
  return to_json(problem.problem());
}

solver::LoweredProblem JsonValue<solver::LoweredProblem>::read(const Json& json,
                                                               const std::string& path,
                                                               const FieldSpec&) {
  return solver::LoweredProblem(solver::problem_from_json(json, path));
}

void Fields<solver::StageMemory>::check(const M& memory, const FieldPath& path) {
  if (memory.capacity_bytes >= 1e-6 || memory.total_bytes <= 0) return;
  refuse(path("capacity_bytes"), "a device without memory holds no stage");
}

void Fields<solver::PlanStage>::check(const S& stage, const FieldPath& path) {
  if (static_cast<std::int64_t>(stage.bitwidths.size()) == stage.num_layers) return;
  refuse(path.record, "{} bitwidths for {} layers", stage.bitwidths.size(), stage.num_layers);
}

void Fields<solver::PipelinePlan>::check(const P& plan, const FieldPath& path) {
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const std::string where = fmt::format("{}[{}]", path("stages"), k);
    if (plan.stages[k].offload.has_value() != plan.offload.has_value()) {
      refuse(where, "an offloading plan says for itself and for every stage how it offloads");
    }
    if (!plan.stages[k].attention) continue;
    if (plan.offload) {
      refuse(where + ".attention",
             "an offloading plan has heads on the host, which stands where another device would");
    }
    if (plan.problem.batch() == nullptr) {
      refuse(where + ".attention", "an abstract instance has no heads that another device has");
    }
    const std::int64_t end = plan.stages[k].first_layer + plan.stages[k].num_layers;
    if (end > plan.problem.batch()->model.num_layers) {
      refuse(where, "it holds layers up to {} of {}", end - 1,
             plan.problem.batch()->model.num_layers);
    }
  }
}

}  // namespace tessera
