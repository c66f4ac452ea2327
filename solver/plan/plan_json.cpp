#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/solver/plan/plan.h"

namespace tessera::solver {
namespace {

constexpr double kHuge = 1e300;  // sums and percentages of what a file says stay finite
constexpr std::int64_t kMaxIndex = 1'000'000;

Json to_json(const StageMemory& memory) {
  return Json{
      {"weight_bytes", memory.weight_bytes},         {"kv_cache_bytes", memory.kv_cache_bytes},
      {"activation_bytes", memory.activation_bytes}, {"embedding_bytes", memory.embedding_bytes},
      {"reserve_bytes", memory.reserve_bytes},       {"total_bytes", memory.total_bytes},
      {"capacity_bytes", memory.capacity_bytes}};
}

StageMemory memory_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  StageMemory memory;
  memory.weight_bytes = fields.number("weight_bytes", 0, kHuge);
  memory.kv_cache_bytes = fields.number("kv_cache_bytes", 0, kHuge);
  memory.activation_bytes = fields.number("activation_bytes", 0, kHuge);
  memory.embedding_bytes = fields.number("embedding_bytes", 0, kHuge);
  memory.reserve_bytes = fields.number("reserve_bytes", 0, kHuge);
  memory.total_bytes = fields.number("total_bytes", 0, kHuge);
  memory.capacity_bytes = fields.number("capacity_bytes", 0, kHuge);
  fields.finish();
  if (memory.capacity_bytes < 1e-6 && memory.total_bytes > 0) {
    throw Error(ErrorCode::invalid_argument,
                fields.path_of("capacity_bytes") + ": a device without memory holds no stage",
                fields.path_of("capacity_bytes"));
  }
  memory.capacity_bytes += 0.0;  // -0.0 is shown with its sign
  return memory;
}

Json to_json(const PlanStage& stage) {
  Json json{{"device", stage.device},
            {"node", stage.node},
            {"device_index", stage.device_index},
            {"first_layer", stage.first_layer},
            {"num_layers", stage.num_layers},
            {"bitwidths", stage.bitwidths},
            {"prefill_s", stage.prefill_s},
            {"decode_s", stage.decode_s},
            {"memory", to_json(stage.memory)}};
  if (stage.offload) json["offload"] = to_json(*stage.offload);
  return json;
}

std::vector<std::string> strings(const Json& json, const std::string& path) {
  if (!json.is_array())
    throw Error(ErrorCode::invalid_argument, path + ": a list of strings belongs here", path);
  std::vector<std::string> result;
  for (const Json& item : json) {
    if (!item.is_string())
      throw Error(ErrorCode::invalid_argument, path + ": a list of strings belongs here", path);
    result.push_back(item.get<std::string>());
  }
  return result;
}

PlanStage stage_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  PlanStage stage;
  stage.device = fields.text("device");
  stage.node = fields.text("node", "");
  stage.device_index = fields.integer("device_index", 0, kMaxIndex);
  stage.first_layer = fields.integer("first_layer", 0, kMaxIndex);
  stage.num_layers = fields.integer("num_layers", 0, kMaxIndex);
  stage.bitwidths = json_integers(fields.at("bitwidths"), fields.path_of("bitwidths"), 1, 64);
  if (static_cast<std::int64_t>(stage.bitwidths.size()) != stage.num_layers) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} bitwidths for {} layers", path, stage.bitwidths.size(),
                            stage.num_layers),
                path);
  }
  stage.prefill_s = fields.number("prefill_s", 0, kHuge);
  stage.decode_s = fields.number("decode_s", 0, kHuge);
  stage.memory = memory_from_json(fields.at("memory"), fields.path_of("memory"));
  if (fields.has("offload"))
    stage.offload = stage_offload_from_json(fields.at("offload"), fields.path_of("offload"));
  fields.finish();
  return stage;
}

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json to_json(const PlanCandidate& candidate) {
  return Json{{"name", candidate.name},
              {"status", candidate.status},
              {"objective", optional_json(candidate.objective)},
              {"latency_s", optional_json(candidate.latency_s)},
              {"bound", optional_json(candidate.bound)},
              {"message", candidate.message}};
}

PlanCandidate candidate_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  PlanCandidate candidate;
  candidate.name = fields.text("name");
  candidate.status = fields.text("status");
  candidate.objective = fields.optional_number("objective", -kHuge, kHuge);
  candidate.latency_s = fields.optional_number("latency_s", 0, kHuge);
  candidate.bound = fields.optional_number("bound", -kHuge, kHuge);
  candidate.message = fields.text("message", "");
  fields.finish();
  return candidate;
}

template <class Read>
void read_list(JsonFields& fields, const char* name, Read read) {
  if (!fields.has(name)) return;
  const Json& list = fields.at(name);
  const std::string path = fields.path_of(name);
  if (!list.is_array())
    throw Error(ErrorCode::invalid_argument, path + ": an array belongs here", path);
  for (std::size_t i = 0; i < list.size(); ++i) read(list[i], fmt::format("{}[{}]", path, i));
}

/// A file has every field of a pipeline. Of a plan with replicas the lists among them are empty,
/// and the micro-batch sizes are its slowest replica's.
Json file_of(const PlanSummary& plan, const PipelinePlan& pipeline) {
  Json json;
  json["format"] = "tessera-plan";
  json["version"] = kPlanSchemaVersion;
  json["status"] = to_string(plan.status);
  json["planner"] = plan.planner;
  json["objective"] = plan.objective;
  json["bound"] = optional_json(plan.bound);
  json["gap"] = optional_json(plan.gap);
  json["solve_s"] = plan.solve_s;
  json["device_order"] = pipeline.device_order;
  json["prefill_micro_batch_size"] = pipeline.prefill_micro_batch_size;
  json["decode_micro_batch_size"] = pipeline.decode_micro_batch_size;
  json["latency_s"] = plan.latency_s;
  json["throughput_tok_s"] = plan.throughput_tok_s;
  json["omega"] = plan.omega;
  json["mean_bitwidth"] = plan.mean_bitwidth;
  json["provenance"] = name_of(plan.provenance);
  json["error"] = optional_json(plan.error);
  Json stages = Json::array();
  for (const PlanStage& stage : pipeline.stages) stages.push_back(to_json(stage));
  json["stages"] = std::move(stages);
  if (pipeline.offload) json["offload"] = to_json(*pipeline.offload);
  json["notes"] = plan.notes;
  json["problem"] = to_json(plan.problem.problem());
  for (const PlanCandidate& candidate : plan.candidates) {
    json["candidates"].push_back(to_json(candidate));
  }
  return json;
}

Json to_json(const PipelinePlan& plan) {
  Json json = file_of(plan, plan);
  if (plan.devices) json["devices"] = *plan.devices;
  return json;
}

Json to_json(const ReplicatedPlan& plan) {
  PipelinePlan shown(plan.problem);
  shown.prefill_micro_batch_size = plan.slowest().prefill_micro_batch_size;
  shown.decode_micro_batch_size = plan.slowest().decode_micro_batch_size;
  Json json = file_of(plan, shown);
  for (const PipelinePlan& replica : plan.replicas) json["replicas"].push_back(to_json(replica));
  return json;
}

void check_header(JsonFields& fields, const std::string& path) {
  if (fields.text("format") != "tessera-plan") {
    throw Error(ErrorCode::invalid_argument, path + ": not a Tessera plan (field 'format')", path);
  }
  const auto version = fields.integer("version", 0, kMaxIndex);
  if (version == kPlanSchemaVersion) return;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("{}: plan schema version {}, this program reads version {}; make the plan again",
                  path, version, kPlanSchemaVersion),
      path);
}

PlanStatus status_from_json(JsonFields& fields, const std::string& path) {
  const std::string status = fields.text("status");
  if (status == "optimal") return PlanStatus::optimal;
  if (status == "feasible") return PlanStatus::feasible;
  throw Error(ErrorCode::invalid_argument, path + ": status is neither 'optimal' nor 'feasible'",
              path);
}

Provenance provenance_from_json(JsonFields& fields, const std::string& path) {
  const std::string provenance = fields.text("provenance");
  if (const auto known = named<Provenance>(provenance)) return *known;
  throw Error(ErrorCode::invalid_argument, path + ": provenance '" + provenance + "' is not known",
              path);
}

void read_stages(JsonFields& fields, const std::string& path, PipelinePlan& plan) {
  const Json& stages = fields.at("stages");
  if (!stages.is_array())
    throw Error(ErrorCode::invalid_argument, path + ": stages: an array belongs here", path);
  for (std::size_t k = 0; k < stages.size(); ++k) {
    plan.stages.push_back(stage_from_json(stages[k], fmt::format("{}: stages[{}]", path, k)));
  }
  if (fields.has("offload"))
    plan.offload = plan_offload_from_json(fields.at("offload"), fields.path_of("offload"));
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    if (plan.stages[k].offload.has_value() == plan.offload.has_value()) continue;
    const std::string where = fmt::format("{}: stages[{}]", path, k);
    throw Error(ErrorCode::invalid_argument,
                where + ": an offloading plan says for itself and for every stage how it offloads",
                where);
  }
}

/// All that a file says, but for its replicas.
PipelinePlan pipeline_from_json(JsonFields& fields, const std::string& path) {
  PipelinePlan plan(LoweredProblem(problem_from_json(fields.at("problem"), path + ": problem")));
  plan.status = status_from_json(fields, path);
  plan.planner = fields.text("planner");
  plan.objective = fields.number("objective", -kHuge, kHuge);
  plan.bound = fields.optional_number("bound", -kHuge, kHuge);
  plan.gap = fields.optional_number("gap", -kHuge, kHuge);
  plan.solve_s = fields.number("solve_s", 0, kHuge);
  plan.device_order = strings(fields.at("device_order"), fields.path_of("device_order"));
  plan.prefill_micro_batch_size = fields.integer("prefill_micro_batch_size", 1, kMaxIndex);
  plan.decode_micro_batch_size = fields.integer("decode_micro_batch_size", 1, kMaxIndex);
  plan.latency_s = fields.number("latency_s", 0, kHuge);
  plan.throughput_tok_s = fields.number("throughput_tok_s", 0, kHuge);
  plan.omega = fields.number("omega", -kHuge, kHuge);
  plan.mean_bitwidth = fields.number("mean_bitwidth", 0, 64);
  plan.provenance = provenance_from_json(fields, path);
  plan.error = fields.optional_number("error", 0, kHuge);
  read_stages(fields, path, plan);
  plan.notes = strings(fields.at("notes"), fields.path_of("notes"));
  read_list(fields, "candidates", [&](const Json& json, const std::string& where) {
    plan.candidates.push_back(candidate_from_json(json, where));
  });
  if (fields.has("devices")) {
    const auto devices =
        json_integers(fields.at("devices"), fields.path_of("devices"), 0, kMaxIndex);
    plan.devices.emplace(devices.begin(), devices.end());
  }
  return plan;
}

ReplicatedPlan replicated_from_json(JsonFields& fields, const std::string& path,
                                    const PipelinePlan& said) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorCode::invalid_argument, path + ": " + reason, path);
  };
  std::vector<PipelinePlan> replicas;
  read_list(fields, "replicas", [&](const Json& json, const std::string& where) {
    Plan replica = plan_from_json(json, where);
    if (!std::holds_alternative<PipelinePlan>(replica)) {
      throw Error(ErrorCode::invalid_argument, where + ": a replica has no replicas of its own",
                  where);
    }
    replicas.push_back(std::get<PipelinePlan>(std::move(replica)));
  });
  if (replicas.empty()) refuse("replicas: give at least one plan");
  if (!said.stages.empty() || !said.device_order.empty() || said.offload || said.devices) {
    refuse("a plan with replicas has no stages and no devices of its own");
  }
  ReplicatedPlan plan(said, std::move(replicas));
  const PipelinePlan& slowest = plan.slowest();
  if (said.prefill_micro_batch_size != slowest.prefill_micro_batch_size ||
      said.decode_micro_batch_size != slowest.decode_micro_batch_size) {
    refuse(
        fmt::format("its micro-batch sizes are {} and {}, those of its slowest replica {} and {}",
                    said.prefill_micro_batch_size, said.decode_micro_batch_size,
                    slowest.prefill_micro_batch_size, slowest.decode_micro_batch_size));
  }
  return plan;
}

}  // namespace

std::string_view to_string(PlanStatus status) {
  return status == PlanStatus::optimal ? "optimal" : "feasible";
}

const PipelinePlan& ReplicatedPlan::slowest() const {
  return *std::max_element(
      replicas.begin(), replicas.end(),
      [](const PipelinePlan& a, const PipelinePlan& b) { return a.latency_s < b.latency_s; });
}

const PlanSummary& summary_of(const Plan& plan) {
  return std::visit([](const PlanSummary& summary) -> const PlanSummary& { return summary; }, plan);
}

PlanSummary& summary_of(Plan& plan) {
  return std::visit([](PlanSummary& summary) -> PlanSummary& { return summary; }, plan);
}

Json to_json(const Plan& plan) {
  return std::visit([](const auto& one) { return to_json(one); }, plan);
}

Plan plan_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  check_header(fields, path);
  PipelinePlan plan = pipeline_from_json(fields, path);
  if (!fields.has("replicas")) {
    fields.finish();
    return plan;
  }
  ReplicatedPlan replicated = replicated_from_json(fields, path, plan);
  fields.finish();
  return replicated;
}

}  // namespace tessera::solver
