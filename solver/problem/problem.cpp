#include "tessera/solver/problem/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "tessera/core/error.h"
#include "tessera/core/record_json.h"

namespace tessera::solver {

double Problem::theta_in_force() const {
  if (theta) return *theta;
  if (has_quality_floor()) return 0;
  const InstanceFile* file = instance_file();
  if (file == nullptr) return 1;
  return JsonFields(*file->content, file->path).number("theta", 0, kMaxTheta);
}

std::vector<std::vector<std::size_t>> stage_members(const BatchProblem& batch,
                                                    const std::vector<std::size_t>& order) {
  const std::vector<MeshGroup> groups = groups_of(batch);
  std::vector<std::size_t> used(groups.size(), 0);
  std::vector<std::vector<std::size_t>> stages;
  for (const std::size_t g : order) stages.push_back(groups[g].members[used[g]++]);
  return stages;
}

cost::MemoryQuery memory_query(const BatchProblem& batch) {
  return cost::of_checkpoint(
      {.preset = batch.memory,
       .kv_bitwidth = batch.kv_bitwidth,
       .head_bitwidth = batch.bitwidths.empty() ? 16 : batch.bitwidths.front()},
      batch.model, batch.kernel_set);
}

Json to_json(const Problem& problem) {
  Json json;
  if (const BatchProblem* batch = problem.batch()) {
    json["serving"] = json_of(*batch);
  } else {
    json["instance"] = *problem.instance_file()->content;
    json["instance_path"] = problem.instance_file()->path;
  }
  write_fields(problem, json);
  // What is in force, whatever defaults a later version has.
  json["theta"] = problem.theta_in_force();
  json["allow_empty_stage"] = problem.may_have_empty_stages();
  return json;
}

Problem problem_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  Problem problem;
  if (fields.has("serving")) {
    problem.given = from_json<BatchProblem>(fields.at("serving"), fields.path_of("serving"));
  } else {
    problem.given = InstanceFile{std::make_shared<const Json>(fields.at("instance")),
                                 fields.text("instance_path", path)};
  }
  read_fields(fields, problem);
  fields.finish();
  check_record(problem, FieldPath{path});
  return problem;
}

}  // namespace tessera::solver

namespace tessera {

Json ClusterInFull::write(const Cluster& cluster) { return to_json(cluster); }

Cluster ClusterInFull::read(const Json& json, const std::string& path, const FieldSpec&) {
  return cluster_from_json(json, path, DataFolders({}));
}

Json ProfilesInFull::write(const Profiles& profiles) {
  Json list = Json::array();
  for (const auto& profile : profiles) {
    Json whole = cost::to_json(*profile);
    whole["device"] = to_json(profile->device);
    list.push_back(std::move(whole));
  }
  return list;
}

ProfilesInFull::Profiles ProfilesInFull::read(const Json& json, const std::string& path,
                                              const FieldSpec&) {
  check_array(json, path, "a list of profiles");
  Profiles profiles;
  for (std::size_t i = 0; i < json.size(); ++i) {
    profiles.push_back(std::make_shared<cost::Profile>(
        cost::profile_from_json(json[i], fmt::format("{}[{}]", path, i), DataFolders({}))));
  }
  return profiles;
}

Json KvBitwidth::write(std::int32_t bitwidth) { return static_cast<double>(bitwidth); }

std::int32_t KvBitwidth::read(const Json& json, const std::string& path, const FieldSpec& spec) {
  return JsonValue<std::int32_t>::read(json, path, spec);
}

Json OmegaByKvBitwidth::write(const Omega& omega) {
  Json json = Json::object();
  for (const auto& [bitwidth, of_layers] : omega) json[std::to_string(bitwidth)] = of_layers;
  return json;
}

OmegaByKvBitwidth::Omega OmegaByKvBitwidth::read(const Json& json, const std::string& path,
                                                 const FieldSpec&) {
  if (!json.is_object()) refuse(path, "an object by bitwidth belongs here");
  Omega omega;
  for (const auto& [key, list] : json.items()) {
    const std::string where = path + "." + key;
    std::int32_t bitwidth = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), bitwidth);
    if (error != std::errc{} || end != key.data() + key.size() || bitwidth < kMinKvBitwidth ||
        bitwidth > kMaxKvBitwidth) {
      refuse(where, "a bitwidth in [{}, {}] belongs here", kMinKvBitwidth, kMaxKvBitwidth);
    }
    if (!omega.emplace(bitwidth, json_numbers(list, where, 0, kHuge)).second) {
      refuse(where, "it was given before");
    }
  }
  return omega;
}

void Fields<solver::BatchProblem>::check(const S& batch, const FieldPath& path) {
  const std::vector<std::int32_t>& bits = batch.bitwidths;
  if (bits.empty() ||
      std::adjacent_find(bits.begin(), bits.end(), std::greater_equal<>()) != bits.end()) {
    refuse(path("bitwidths"), "give at least one bitwidth, each once");
  }
  for (const auto& [bitwidth, omega] : batch.kv_omega) {
    if (omega.size() == static_cast<std::size_t>(batch.model.num_layers)) continue;
    refuse(path("kv_omega"), "it is of {} layers, {} has {}; give it anew", omega.size(),
           batch.model.name, batch.model.num_layers);
  }
  if (const auto& runs = batch.kernel_set.recalibration) {
    runs->check_is_of(batch.model, path("kernel_set"));
  }
  const Workload& work = batch.workload;
  const std::int64_t limit = batch.model.max_context_tokens;
  if (limit <= 0 || work.max_prompt_tokens + work.max_output_tokens <= limit) return;
  refuse(ErrorCode::out_of_range, path("workload"),
         "{} prompt and {} output tokens are more than the {} that {} can attend to; shorten them",
         work.max_prompt_tokens, work.max_output_tokens, limit, batch.model.name);
}

void Fields<solver::Problem>::check(const P& problem, const FieldPath& path) {
  check_names_differ(problem.constraints, path("constraints"));
}

}  // namespace tessera
