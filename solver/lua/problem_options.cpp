#include <fmt/format.h>

#include <algorithm>

#include "core_lua.h"
#include "cost_lua.h"
#include "indicator_lua.h"
#include "problem_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/table.h"

namespace tessera::solver_lua {
namespace {

std::vector<std::int32_t> bitwidths_of(const lua_kit::Options& options) {
  std::vector<std::int32_t> bitwidths;
  for (std::int64_t bit : options.integers("bitwidths"))
    bitwidths.push_back(static_cast<std::int32_t>(bit));
  std::sort(bitwidths.begin(), bitwidths.end());
  if (bitwidths.empty() ||
      std::adjacent_find(bitwidths.begin(), bitwidths.end()) != bitwidths.end()) {
    throw Error(ErrorCode::invalid_argument,
                options.path_of("bitwidths") + ": give at least one bitwidth, each once",
                options.path_of("bitwidths"));
  }
  return bitwidths;
}

const OptionTable& quality_options() {
  static const OptionTable table{
      "ts.problem.quality",
      "A quality floor instead of a price on omega.",
      "",
      {{.name = "at_least",
        .type = OptionType::text,
        .doc = "Baseline whose omega may not be exceeded; \"none\" lifts the floor"},
       {.name = "max_omega",
        .doc = "Largest sum of omega, in the plan's units",
        .min = 0,
        .max = 1e300}}};
  return table;
}

void read_quality(lua_State* L, const lua_kit::Options& options, solver::Problem& problem) {
  options.push("quality");
  const lua_kit::Options quality(L, lua_gettop(L), quality_options(), options.path_of("quality"));
  if (quality.given("at_least") == quality.given("max_omega")) {
    throw Error(
        ErrorCode::invalid_argument,
        options.path_of("quality") + ": give either at_least = \"uniform\" or max_omega = x",
        options.path_of("quality"));
  }
  problem.quality_at_least.reset();
  problem.max_omega.reset();
  if (quality.given("at_least") && quality.text("at_least") != "none") {
    problem.quality_at_least = quality.text("at_least");
  }
  if (quality.given("max_omega")) problem.max_omega = quality.number("max_omega");
  lua_pop(L, 1);
  // The quality-constrained form (solver/README.md, Objective) has theta = 0 unless the script
  // prices omega as well.
  if (!options.given("theta")) problem.theta = 0;
}

/// What counts as good, from the options that are there.
void read_goal(lua_State* L, const lua_kit::Options& options, solver::Problem& problem) {
  if (options.has("objective")) {
    problem.objective = options.choice("objective") == "paper" ? solver::Objective::paper
                                                               : solver::Objective::steady;
  }
  if (options.has("theta")) problem.theta = options.number("theta");
  if (options.has("theta_unit")) {
    problem.theta_unit = options.choice("theta_unit") == "ms_per_raw_omega"
                             ? solver::ThetaUnit::ms_per_raw_omega
                             : solver::ThetaUnit::s_per_normalised_omega;
  }
  if (options.has("allow_empty_stage")) {
    problem.allow_empty_stage = options.boolean("allow_empty_stage");
  }
  if (options.given("quality")) read_quality(L, options, problem);
  if (options.push("constraints")) {
    problem.constraints = constraints_argument(L, lua_gettop(L), options.path_of("constraints"));
  }
  lua_pop(L, 1);
}

/// Reads one thing that is an object, a name or a table, when the options have it.
template <class Argument, class Part>
void read_part(lua_State* L, const lua_kit::Options& options, const char* name, Argument argument,
               Part& part) {
  if (options.push(name)) part = *argument(L, lua_gettop(L), options.path_of(name));
  lua_pop(L, 1);
}

bool is_on(const solver::ServingProblem& serving, const Device& device) {
  return std::any_of(serving.cluster.devices.begin(), serving.cluster.devices.end(),
                     [&](const ClusterDevice& slot) { return slot.device.name == device.name; });
}

std::vector<std::shared_ptr<const cost::Profile>> given_profiles(
    lua_State* L, const lua_kit::Options& options, const solver::ServingProblem& serving) {
  const std::string path = options.path_of("profiles");
  std::vector<std::shared_ptr<const cost::Profile>> given;
  options.push("profiles");
  const int list = lua_gettop(L);
  lua_kit::list_length(L, list, path, "give a list of profiles, as { profile }");
  lua_kit::for_each_item(L, list, path, [&](std::size_t, const std::string& where) {
    auto profile = cost_lua::profile_argument(L, lua_gettop(L), where)->profile;
    if (profile->kernel_set != serving.kernel_set.name) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: of kernel set {}, the problem has {}", where,
                              profile->kernel_set, serving.kernel_set.name),
                  where);
    }
    if (!is_on(serving, profile->device)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: the cluster has no {}", where, profile->device.name), where);
    }
    for (const auto& other : given) {
      if (other->device.name != profile->device.name) continue;
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: a second profile of {}; give one for each device", where,
                              profile->device.name),
                  where);
    }
    given.push_back(std::move(profile));
  });
  lua_pop(L, 1);
  return given;
}

/// The profiles of the cluster's devices: as given, else made in this script and still of use, else
/// shipped. An empty list is none at all.
void read_profiles(lua_State* L, const lua_kit::Options& options, solver::ServingProblem& serving) {
  std::vector<std::shared_ptr<const cost::Profile>> chosen;
  if (options.given("profiles")) {
    chosen = given_profiles(L, options, serving);
    if (chosen.empty()) {
      serving.profiles.clear();
      serving.with_profiles = false;
      return;
    }
    serving.with_profiles = true;
  } else {
    for (const auto& profile : serving.profiles) {
      const bool made_here = profile->path.empty();
      if (made_here && profile->kernel_set == serving.kernel_set.name &&
          is_on(serving, profile->device)) {
        chosen.push_back(profile);
      }
    }
  }
  if (!serving.with_profiles) return;
  const DataFolders& folders = core_lua::environment(L).folders;
  for (const ClusterDevice& slot : serving.cluster.devices) {
    const bool known = std::any_of(chosen.begin(), chosen.end(), [&](const auto& profile) {
      return profile->device.name == slot.device.name;
    });
    if (known) continue;
    auto profile = cost::profile_for(slot.device, serving.kernel_set, folders);
    if (!profile->parts.empty()) chosen.push_back(std::move(profile));
  }
  serving.profiles = std::move(chosen);
}

void check_context(const solver::ServingProblem& serving, const std::string& path) {
  const Workload& work = serving.workload;
  const auto longest = static_cast<double>(work.max_prompt_tokens + work.max_output_tokens);
  const std::int64_t limit = serving.model.max_context_tokens;
  if (limit <= 0 || longest <= static_cast<double>(limit)) return;
  throw Error(
      ErrorCode::out_of_range,
      fmt::format("{}: {} prompt and {} output tokens are more than the {} that {} can "
                  "attend to; shorten them",
                  path, work.max_prompt_tokens, work.max_output_tokens, limit, serving.model.name),
      path);
}

/// What is to be served and on what, from the options that are there.
void read_serving(lua_State* L, const lua_kit::Options& options, solver::ServingProblem& serving,
                  solver::Choices& choices) {
  read_part(L, options, "model", core_lua::model_argument, serving.model);
  read_part(L, options, "cluster", core_lua::cluster_argument, serving.cluster);
  read_part(L, options, "workload", core_lua::workload_argument, serving.workload);
  if (options.has("bitwidths")) serving.bitwidths = bitwidths_of(options);
  if (options.has("kernel_set")) {
    serving.kernel_set =
        cost::find_kernel_set(options.text("kernel_set"), core_lua::environment(L).folders);
  }
  read_profiles(L, options, serving);
  if (options.has("memory")) {
    serving.memory = options.choice("memory") == "llm-pq" ? cost::MemoryPreset::llm_pq
                                                          : cost::MemoryPreset::physical;
  }
  read_choices(options, serving, choices);
  read_kv_omega(L, options, serving);
  // The default indicator covers whatever layers and bitwidths there are, so it follows them.
  const bool by_default = serving.indicator.kind.empty() || serving.indicator.kind == "constant";
  if (options.given("indicator") || by_default) {
    options.push("indicator");
    serving.indicator = *indicator_lua::indicator_argument(
        L, lua_gettop(L), options.path_of("indicator"), serving.model.name,
        static_cast<std::size_t>(serving.model.num_layers), serving.bitwidths);
    lua_pop(L, 1);
  }
  check_context(serving, options.path_of("workload"));
}

constexpr const char* kServingOptions[] = {"model",       "cluster",  "workload",       "bitwidths",
                                           "indicator",   "memory",   "kernel_set",     "profiles",
                                           "kv_bitwidth", "kv_omega", "tensor_parallel"};

void refuse_serving_options(const lua_kit::Options& options) {
  for (const char* name : kServingOptions) {
    if (!options.given(name)) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: an instance file says what is served and on what; leave out {}",
                            options.path_of(name), name),
                options.path_of(name));
  }
}

void read_instance(const lua_kit::Options& options, solver::Problem& problem) {
  refuse_serving_options(options);
  const std::string path = options.text("instance");
  const auto content = std::make_shared<const Json>(read_json_file(path));
  problem.given = solver::InstanceFile{content, path};
  // The file's own settings hold unless the script says otherwise.
  if (!options.given("allow_empty_stage")) problem.allow_empty_stage = true;
  if (!options.given("theta") && !options.given("quality")) {
    problem.theta = JsonFields(*content, path).number("theta", 0, 1e300, 1);
  }
}

}  // namespace

const OptionTable& problem_options() {
  static const OptionTable table{
      "ts.problem",
      "What is to be planned: a model on a cluster under a workload, or an abstract instance file.",
      "tessera.Problem",
      {{.name = "model",
        .type = OptionType::table,
        .doc = "Model, or its name",
        .lua_type = "tessera.Model|string|table",
        .flag = false},
       {.name = "cluster",
        .type = OptionType::table,
        .doc = "Cluster, or its name",
        .lua_type = "tessera.Cluster|string|table",
        .flag = false},
       {.name = "workload",
        .type = OptionType::table,
        .doc = "Workload, or its name",
        .default_text = "\"llmpq\"",
        .lua_type = "tessera.Workload|string|table",
        .flag = false},
       {.name = "instance",
        .type = OptionType::text,
        .doc = "Abstract instance file, instead of model, cluster and workload",
        .flag = false},
       {.name = "bitwidths",
        .type = OptionType::integer_list,
        .doc = "Candidate bitwidths",
        .unit = "bits",
        .default_text = "{3, 4, 8, 16}",
        .min = 1,
        .max = 16},
       {.name = "objective",
        .type = OptionType::choice,
        .doc = "steady: the pipeline's steady state; paper: eq. (4) as printed",
        .default_text = "\"steady\"",
        .choices = {"steady", "paper"}},
       {.name = "theta",
        .doc = "Price of quality loss; 0 with a quality floor, the file's own with an instance",
        .default_text = "1",
        .min = 0,
        .max = 1e12},
       {.name = "theta_unit",
        .type = OptionType::choice,
        .doc = "What theta multiplies: omega scaled so that 4 bits throughout cost 1 s, or raw "
               "omega and milliseconds",
        .default_text = "\"s_per_normalised_omega\"",
        .choices = {"s_per_normalised_omega", "ms_per_raw_omega"}},
       {.name = "quality",
        .type = OptionType::table,
        .doc = "Quality floor: { at_least = \"uniform\" } or { max_omega = x }",
        .lua_type = "table",
        .flag = false},
       {.name = "indicator",
        .type = OptionType::table,
        .doc = "Indicator, file, or omega[layer][bitwidth]; default: the same for every layer",
        .lua_type = "tessera.Indicator|string|table",
        .flag = false},
       {.name = "memory",
        .type = OptionType::choice,
        .doc = "Memory model",
        .default_text = "\"physical\"",
        .choices = {"physical", "llm-pq"}},
       {.name = "kernel_set",
        .type = OptionType::text,
        .doc = "Kernels that run the layers",
        .default_text = "\"tessera\""},
       {.name = "profiles",
        .type = OptionType::table,
        .doc = "For the cluster's devices, a list of profiles or of their files; default: the "
               "shipped ones of the kernel set; {}: none, the roofline prices everything",
        .lua_type = "(tessera.Profile|string)[]",
        .flag = false},
       {.name = "kv_bitwidth",
        .type = OptionType::integer_list,
        .doc = "Bitwidth of the KV cache, or several to choose from",
        .unit = "bits",
        .default_text = "16",
        .min = kMinKvBitwidth,
        .max = kMaxKvBitwidth,
        .lua_type = "integer|integer[]"},
       {.name = "kv_omega",
        .type = OptionType::table,
        .doc = "Quality lost by the KV cache, in the indicator's units: { [8] = omega of a layer, "
               "or a list of all layers' }; default: assumed, as rounding the K and V projections",
        .lua_type = "table",
        .flag = false},
       {.name = "tensor_parallel",
        .type = OptionType::integer_list,
        .doc = "Degrees of tensor parallelism to choose from, within a node and device type",
        .unit = "devices",
        .default_text = "1",
        .min = 1,
        .max = 64,
        .lua_type = "integer|integer[]"},
       {.name = "allow_empty_stage",
        .type = OptionType::boolean,
        .doc = "Middle stages may hold no layer",
        .default_text = "false"},
       {.name = "constraints",
        .type = OptionType::table,
        .doc = "Side constraints; see problem:add_constraint",
        .lua_type = "table[]",
        .flag = false}}};
  return table;
}

solver::OpenProblem problem_from(lua_State* L, const lua_kit::Options& options) {
  solver::Problem problem;
  read_goal(L, options, problem);
  if (options.given("instance")) {
    read_instance(options, problem);
    return solver::open_problem(std::move(problem), {});
  }
  for (const char* name : {"model", "cluster"}) {
    if (options.given(name)) continue;
    throw Error(ErrorCode::invalid_argument, options.path_of(name) + " is missing",
                options.path_of(name));
  }
  solver::Choices choices;
  read_serving(L, options, problem.given.emplace<solver::ServingProblem>(), choices);
  return solver::open_problem(std::move(problem), std::move(choices));
}

solver::OpenProblem changed(lua_State* L, const lua_kit::Options& options,
                            const solver::OpenProblem& before) {
  solver::Problem problem = before.first.problem();
  solver::Choices choices = before.choices;
  read_goal(L, options, problem);
  if (options.given("instance")) {
    throw Error(ErrorCode::invalid_argument,
                options.path_of("instance") + ": load another instance with ts.problem",
                options.path_of("instance"));
  }
  if (solver::ServingProblem* serving = problem.serving()) {
    read_serving(L, options, *serving, choices);
  } else {
    refuse_serving_options(options);
  }
  return solver::open_problem(std::move(problem), std::move(choices));
}

}  // namespace tessera::solver_lua
