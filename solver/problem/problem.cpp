#include "tessera/solver/problem/problem.h"

#include <fmt/format.h>

#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera::solver {
namespace {

constexpr double kLargestDouble = 1.7976931348623157e308;

Json serving_to_json(const ServingProblem& serving) {
  Json json;
  json["model"] = to_json(serving.model);
  json["cluster"] = to_json(serving.cluster);
  json["workload"] = to_json(serving.workload);
  json["bitwidths"] = serving.bitwidths;
  json["indicator"] = to_json(serving.indicator);
  json["kernel_set"] = cost::to_json(serving.kernel_set);
  for (const auto& profile : serving.profiles) {
    Json whole = cost::to_json(*profile);
    whole["device"] = to_json(profile->device);  // a saved plan needs no data folder
    json["profiles"].push_back(std::move(whole));
  }
  json["memory"] = name_of(serving.memory);
  json["kv_bitwidth"] = static_cast<double>(serving.kv_bitwidth);  // files have it as 16.0
  for (const auto& [bitwidth, omega] : serving.kv_omega) {
    json["kv_omega"][std::to_string(bitwidth)] = omega;
  }
  if (serving.mesh) json["mesh"] = *serving.mesh;
  return json;
}

void read_kv_omega(const Json& json, const std::string& path, ServingProblem& serving) {
  if (!json.is_object()) {
    throw Error(ErrorCode::invalid_argument, path + ": an object by bitwidth belongs here", path);
  }
  for (const auto& [key, list] : json.items()) {
    const std::string where = path + "." + key;
    const std::int32_t bitwidth =
        json_integers(Json::array({parse_json(key, where)}), where, kMinKvBitwidth, kMaxKvBitwidth)
            .front();
    const auto [place, fresh] = serving.kv_omega.try_emplace(bitwidth);
    if (!fresh) throw Error(ErrorCode::invalid_argument, where + ": it was given before", where);
    std::vector<double>& omega = place->second;
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
  Mesh& mesh = serving.mesh.emplace();
  for (std::size_t i = 0; i < json.size(); ++i) {
    mesh.push_back(json_integers(json[i], fmt::format("{}[{}]", path, i), 1, 4096));
  }
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
  serving.indicator = indicator_from_json(fields.at("indicator"), fields.path_of("indicator"));
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
  serving.kv_bitwidth =
      static_cast<std::int32_t>(fields.integer("kv_bitwidth", kMinKvBitwidth, kMaxKvBitwidth));
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

std::vector<std::vector<std::size_t>> stage_members(const ServingProblem& serving,
                                                    const std::vector<std::size_t>& order) {
  const std::vector<MeshGroup> groups = mesh_groups(serving.cluster, serving.mesh);
  std::vector<std::size_t> used(groups.size(), 0);
  std::vector<std::vector<std::size_t>> stages;
  for (const std::size_t g : order) stages.push_back(groups[g].members[used[g]++]);
  return stages;
}

cost::MemoryQuery memory_query(const ServingProblem& serving) {
  return {serving.memory, serving.kv_bitwidth};
}

Json to_json(const Problem& problem) {
  Json json;
  if (const ServingProblem* serving = problem.serving()) {
    json["serving"] = serving_to_json(*serving);
  } else {
    json["instance"] = *problem.instance_file()->content;
    json["instance_path"] = problem.instance_file()->path;
  }
  json["objective"] = to_string(problem.objective);
  json["theta"] = problem.theta;
  json["theta_unit"] = to_string(problem.theta_unit);
  if (problem.max_omega) json["max_omega"] = *problem.max_omega;
  if (problem.quality_at_least) json["quality_at_least"] = *problem.quality_at_least;
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
    problem.given = serving_from_json(fields.at("serving"), fields.path_of("serving"));
  } else {
    problem.given = InstanceFile{std::make_shared<const Json>(fields.at("instance")),
                                 fields.text("instance_path", path)};
  }
  const std::string objective = fields.text("objective");
  if (objective != "steady" && objective != "paper") {
    throw Error(ErrorCode::invalid_argument, path + ": objective is neither 'steady' nor 'paper'",
                path);
  }
  problem.objective = objective == "paper" ? Objective::paper : Objective::steady;
  problem.theta = fields.number("theta", 0, kLargestDouble);
  const std::string unit = fields.text("theta_unit");
  if (unit != to_string(ThetaUnit::ms_per_raw_omega) &&
      unit != to_string(ThetaUnit::s_per_normalised_omega)) {
    throw Error(ErrorCode::invalid_argument, path + ": theta_unit '" + unit + "' is not known",
                path);
  }
  problem.theta_unit = unit == to_string(ThetaUnit::ms_per_raw_omega)
                           ? ThetaUnit::ms_per_raw_omega
                           : ThetaUnit::s_per_normalised_omega;
  problem.max_omega = fields.optional_number("max_omega", 0, kLargestDouble);
  if (const std::string floor = fields.text("quality_at_least", ""); !floor.empty()) {
    problem.quality_at_least = floor;
  }
  problem.allow_empty_stage = fields.boolean("allow_empty_stage", false);
  if (fields.has("constraints")) {
    problem.constraints =
        constraints_from_json(fields.at("constraints"), fields.path_of("constraints"));
  }
  fields.finish();
  return problem;
}

}  // namespace tessera::solver
