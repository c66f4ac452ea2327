#include "tessera/solver/problem.h"

#include <fmt/format.h>

#include <set>

#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera::solver {
namespace {

constexpr double kHuge = 1.7976931348623157e308;

Json serving_to_json(const ServingProblem& serving) {
  Json json;
  json["model"] = to_json(serving.model);
  json["cluster"] = to_json(serving.cluster);
  json["workload"] = to_json(serving.workload);
  json["bitwidths"] = serving.bitwidths;
  json["indicator"] = indicator::to_json(serving.indicator);
  json["kernel_set"] = cost::to_json(serving.kernel_set);
  for (const auto& profile : serving.profiles) {
    Json whole = cost::to_json(*profile);
    whole["device"] = to_json(profile->device);  // a saved plan needs no data folder
    json["profiles"].push_back(std::move(whole));
  }
  json["memory"] = name_of(serving.memory);
  json["kv_bitwidth"] = serving.kv_bitwidth;
  for (const auto& [bitwidth, omega] : serving.kv_omega) {
    json["kv_omega"][std::to_string(bitwidth)] = omega;
  }
  if (!serving.mesh.empty()) json["mesh"] = serving.mesh;
  return json;
}

void read_kv_omega(const Json& json, const std::string& path, ServingProblem& serving) {
  if (!json.is_object()) {
    throw Error(ErrorCode::invalid_argument, path + ": an object by bitwidth belongs here", path);
  }
  for (const auto& [key, list] : json.items()) {
    const std::string where = path + "." + key;
    const std::int32_t bitwidth =
        json_integers(Json::array({parse_json(key, where)}), where, 2, 16).front();
    std::vector<double>& omega = serving.kv_omega[bitwidth];
    if (!list.is_array() || list.size() != static_cast<std::size_t>(serving.model.num_layers)) {
      throw Error(ErrorCode::invalid_argument, where + ": one number per layer belongs here",
                  where);
    }
    for (const Json& value : list) {
      if (!value.is_number() || !(value.get<double>() >= 0)) {
        throw Error(ErrorCode::invalid_argument, where + ": numbers >= 0 belong here", where);
      }
      omega.push_back(value.get<double>());
    }
  }
}

void read_mesh(const Json& json, const std::string& path, ServingProblem& serving) {
  if (!json.is_array()) {
    throw Error(ErrorCode::invalid_argument, path + ": a list of lists of degrees belongs here",
                path);
  }
  std::set<std::int32_t> degrees;
  for (std::size_t i = 0; i < json.size(); ++i) {
    serving.mesh.push_back(json_integers(json[i], fmt::format("{}[{}]", path, i), 1, 4096));
    degrees.insert(serving.mesh.back().begin(), serving.mesh.back().end());
  }
  serving.tensor_parallel.assign(degrees.begin(), degrees.end());
}

void read_profiles(const Json& json, const std::string& path, ServingProblem& serving) {
  if (!json.is_array()) {
    throw Error(ErrorCode::invalid_argument, path + ": a list of profiles belongs here", path);
  }
  for (std::size_t i = 0; i < json.size(); ++i) {
    serving.profiles.push_back(std::make_shared<cost::Profile>(
        cost::profile_from_json(json[i], fmt::format("{}[{}]", path, i), DataFolders({}))));
  }
}

ServingProblem serving_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  ServingProblem serving;
  serving.model = model_shape_from_json(fields.at("model"), fields.path_of("model"));
  serving.cluster =
      cluster_from_json(fields.at("cluster"), fields.path_of("cluster"), DataFolders({}));
  serving.workload = workload_from_json(fields.at("workload"), fields.path_of("workload"));
  serving.bitwidths = json_integers(fields.at("bitwidths"), fields.path_of("bitwidths"), 1, 16);
  serving.indicator =
      indicator::indicator_from_json(fields.at("indicator"), fields.path_of("indicator"));
  serving.kernel_set =
      cost::kernel_set_from_json(fields.at("kernel_set"), fields.path_of("kernel_set"));
  if (fields.has("profiles")) {
    read_profiles(fields.at("profiles"), fields.path_of("profiles"), serving);
  }
  const std::string memory = fields.text("memory");
  if (memory != "physical" && memory != "llm-pq") {
    throw Error(ErrorCode::invalid_argument, path + ": memory is neither 'physical' nor 'llm-pq'",
                path);
  }
  serving.memory = memory == "physical" ? cost::MemoryPreset::physical : cost::MemoryPreset::llm_pq;
  serving.kv_bitwidth = fields.number("kv_bitwidth", 2, 32);
  serving.kv_bitwidths = {serving.kv_bitwidth};
  if (fields.has("kv_omega")) {
    read_kv_omega(fields.at("kv_omega"), fields.path_of("kv_omega"), serving);
  }
  if (fields.has("mesh")) read_mesh(fields.at("mesh"), fields.path_of("mesh"), serving);
  fields.finish();
  return serving;
}

}  // namespace

std::string_view to_string(ThetaUnit unit) {
  return unit == ThetaUnit::ms_per_raw_omega ? "ms_per_raw_omega" : "s_per_normalised_omega";
}

std::string_view to_string(Objective objective) {
  return objective == Objective::paper ? "paper" : "steady";
}

Json to_json(const Problem& problem) {
  Json json;
  if (problem.serving) {
    json["serving"] = serving_to_json(*problem.serving);
  } else {
    json["instance"] = *problem.instance;
    json["instance_path"] = problem.instance_path;
  }
  json["objective"] = to_string(problem.objective);
  json["theta"] = problem.theta;
  json["theta_unit"] = to_string(problem.theta_unit);
  if (problem.max_omega) json["max_omega"] = *problem.max_omega;
  if (!problem.quality_at_least.empty()) json["quality_at_least"] = problem.quality_at_least;
  json["allow_empty_stage"] = problem.allow_empty_stage;
  for (const Constraint& constraint : problem.constraints) {
    json["constraints"].push_back(to_json(constraint));
  }
  return json;
}

Problem problem_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  Problem problem;
  if (fields.has("serving")) {
    problem.serving = serving_from_json(fields.at("serving"), fields.path_of("serving"));
  } else {
    problem.instance = std::make_shared<const Json>(fields.at("instance"));
    problem.instance_path = fields.text("instance_path", path);
  }
  const std::string objective = fields.text("objective");
  if (objective != "steady" && objective != "paper") {
    throw Error(ErrorCode::invalid_argument, path + ": objective is neither 'steady' nor 'paper'",
                path);
  }
  problem.objective = objective == "paper" ? Objective::paper : Objective::steady;
  problem.theta = fields.number("theta", 0, kHuge);
  const std::string unit = fields.text("theta_unit");
  if (unit != to_string(ThetaUnit::ms_per_raw_omega) &&
      unit != to_string(ThetaUnit::s_per_normalised_omega)) {
    throw Error(ErrorCode::invalid_argument, path + ": theta_unit '" + unit + "' is not known",
                path);
  }
  problem.theta_unit = unit == to_string(ThetaUnit::ms_per_raw_omega)
                           ? ThetaUnit::ms_per_raw_omega
                           : ThetaUnit::s_per_normalised_omega;
  problem.max_omega = fields.optional_number("max_omega", 0, kHuge);
  problem.quality_at_least = fields.text("quality_at_least", "");
  problem.allow_empty_stage = fields.boolean("allow_empty_stage", false);
  if (fields.has("constraints")) {
    problem.constraints =
        constraints_from_json(fields.at("constraints"), fields.path_of("constraints"));
  }
  fields.finish();
  return problem;
}

}  // namespace tessera::solver
