#include "tessera/core/plan.h"

#include <fmt/format.h>

#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera {
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

Json to_json(const TierRatios& ratios) {
  return Json{{"device", ratios.device}, {"host", ratios.host}, {"disk", ratios.disk}};
}

TierRatios ratios_from_json(JsonFields& parent, const char* name) {
  if (!parent.has(name)) return {};
  JsonFields fields(parent.at(name), parent.path_of(name));
  TierRatios ratios;
  ratios.device = fields.number("device", 0, 1, 0);
  ratios.host = fields.number("host", 0, 1, 0);
  ratios.disk = fields.number("disk", 0, 1, 0);
  fields.finish();
  return ratios;
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

// What plans of one pipeline, without open choices, do not have is not written.
void write_parts(const Plan& plan, Json& json) {
  for (const PlanCandidate& candidate : plan.candidates) {
    json["candidates"].push_back(to_json(candidate));
  }
  for (const Plan& replica : plan.replicas) json["replicas"].push_back(to_json(replica));
  if (!plan.devices.empty()) json["devices"] = plan.devices;
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

void read_parts(JsonFields& fields, Plan& plan) {
  read_list(fields, "candidates", [&](const Json& json, const std::string& path) {
    plan.candidates.push_back(candidate_from_json(json, path));
  });
  read_list(fields, "replicas", [&](const Json& json, const std::string& path) {
    plan.replicas.push_back(plan_from_json(json, path));
    if (plan.replicas.back().replicas.empty()) return;
    throw Error(ErrorCode::invalid_argument, path + ": a replica has no replicas of its own", path);
  });
  if (!fields.has("devices")) return;
  for (const std::int32_t i :
       json_integers(fields.at("devices"), fields.path_of("devices"), 0, kMaxIndex)) {
    plan.devices.push_back(i);
  }
}

}  // namespace

std::string_view to_string(PlanStatus status) {
  return status == PlanStatus::optimal ? "optimal" : "feasible";
}

Json to_json(const StageOffload& offload) {
  return Json{{"weights", to_json(offload.weights)},
              {"kv_cache", to_json(offload.kv_cache)},
              {"activations", to_json(offload.activations)},
              {"host_bytes", offload.host_bytes},
              {"disk_bytes", offload.disk_bytes}};
}

StageOffload stage_offload_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  StageOffload offload;
  offload.weights = ratios_from_json(fields, "weights");
  offload.kv_cache = ratios_from_json(fields, "kv_cache");
  offload.activations = ratios_from_json(fields, "activations");
  offload.host_bytes = fields.number("host_bytes", 0, kHuge, 0);
  offload.disk_bytes = fields.number("disk_bytes", 0, kHuge, 0);
  fields.finish();
  return offload;
}

Json to_json(const PlanOffload& offload) {
  return Json{{"gpu_batch_size", offload.gpu_batch_size},
              {"host_memory_ratio", offload.host_memory_ratio},
              {"host_attention_bytes_per_s", offload.host_attention_bytes_per_s}};
}

PlanOffload plan_offload_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  PlanOffload offload;
  offload.gpu_batch_size = fields.integer("gpu_batch_size", 1, kMaxIndex);
  offload.host_memory_ratio = fields.number("host_memory_ratio", 0, 1, offload.host_memory_ratio);
  offload.host_attention_bytes_per_s =
      fields.number("host_attention_bytes_per_s", 1, 1e18, offload.host_attention_bytes_per_s);
  fields.finish();
  return offload;
}

Json to_json(const Plan& plan) {
  Json json;
  json["format"] = "tessera-plan";
  json["version"] = kPlanSchemaVersion;
  json["status"] = to_string(plan.status);
  json["planner"] = plan.planner;
  json["objective"] = plan.objective;
  json["bound"] = optional_json(plan.bound);
  json["gap"] = optional_json(plan.gap);
  json["solve_s"] = plan.solve_s;
  json["device_order"] = plan.device_order;
  json["prefill_micro_batch_size"] = plan.prefill_micro_batch_size;
  json["decode_micro_batch_size"] = plan.decode_micro_batch_size;
  json["latency_s"] = plan.latency_s;
  json["throughput_tok_s"] = plan.throughput_tok_s;
  json["omega"] = plan.omega;
  json["mean_bitwidth"] = plan.mean_bitwidth;
  json["provenance"] = name_of(plan.provenance);
  json["error"] = optional_json(plan.error);
  Json stages = Json::array();
  for (const PlanStage& stage : plan.stages) stages.push_back(to_json(stage));
  json["stages"] = std::move(stages);
  if (plan.offload) json["offload"] = to_json(*plan.offload);
  json["notes"] = plan.notes;
  json["problem"] = plan.problem ? *plan.problem : Json(nullptr);
  write_parts(plan, json);
  return json;
}

Plan plan_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  if (fields.text("format") != "tessera-plan") {
    throw Error(ErrorCode::invalid_argument, path + ": not a Tessera plan (field 'format')", path);
  }
  if (const auto version = fields.integer("version", 0, kMaxIndex); version != kPlanSchemaVersion) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format(
            "{}: plan schema version {}, this program reads version {}; make the plan again", path,
            version, kPlanSchemaVersion),
        path);
  }
  Plan plan;
  const std::string status = fields.text("status");
  if (status != "optimal" && status != "feasible") {
    throw Error(ErrorCode::invalid_argument, path + ": status is neither 'optimal' nor 'feasible'",
                path);
  }
  plan.status = status == "optimal" ? PlanStatus::optimal : PlanStatus::feasible;
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
  const std::string provenance = fields.text("provenance");
  if (const auto known = named<Provenance>(provenance)) {
    plan.provenance = *known;
  } else {
    throw Error(ErrorCode::invalid_argument,
                path + ": provenance '" + provenance + "' is not known", path);
  }
  plan.error = fields.optional_number("error", 0, kHuge);
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
  plan.notes = strings(fields.at("notes"), fields.path_of("notes"));
  plan.problem = std::make_shared<const Json>(fields.at("problem"));
  read_parts(fields, plan);
  fields.finish();
  return plan;
}

}  // namespace tessera
