#include <fmt/format.h>

#include <algorithm>

#include "core_lua.h"
#include "cost_lua.h"
#include "indicator_lua.h"
#include "problem_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/solver/problem/preset.h"
#include "tessera/solver/problem/quality_bound.h"

namespace tessera {

/// A kernel set is given by its name.
template <>
struct OptionOf<cost::KernelSet> {
  static constexpr OptionType type = OptionType::text;
};
template <>
inline constexpr bool lua_kit::kIsRead<cost::KernelSet> = false;

namespace solver_lua {
namespace {

const OptionTable& quality_options() {
  static const OptionTable table = [] {
    OptionTable t =
        lua_kit::option_table<QualityBound>({"ts.problem.quality",
                                             "A quality floor instead of a price on omega; with "
                                             "a bound omega is in nats of published or own losses.",
                                             "",
                                             {}});
    t.options.push_back(
        {.name = "at_least",
         .type = OptionType::text,
         .doc = "Baseline whose omega may not be exceeded; \"none\" lifts the floor"});
    t.options.push_back({.name = "max_omega",
                         .doc = "Largest sum of omega, in the plan's units",
                         .min = 0,
                         .max = kHuge});
    return t;
  }();
  return table;
}

/// max_perplexity_increase and min_accuracy_recovery, either or both.
QualityBound read_bound(const lua_kit::Options& quality) {
  QualityBound bound;
  lua_kit::read_options(quality, bound);
  check_record(bound, quality.field_path());
  return bound;
}

/// An instance file knows no model, so nothing is known of perplexity or accuracy.
void refuse_bound(const solver::Problem& problem, const std::string& path) {
  if (!problem.bound.is_set()) return;
  refuse(path,
         "an instance file knows no model, so nothing is known of perplexity or accuracy; give "
         "max_omega = x");
}

void read_quality(lua_State* L, const lua_kit::Options& options, solver::Problem& problem) {
  options.push("quality");
  const lua_kit::Options quality(L, lua_gettop(L), quality_options(), options.path_of("quality"));
  const QualityBound bound = read_bound(quality);
  const int given = (bound.is_set() ? 1 : 0) + (quality.given("at_least") ? 1 : 0) +
                    (quality.given("max_omega") ? 1 : 0);
  if (given != 1) {
    refuse(options.path_of("quality"),
           "give one of max_perplexity_increase = 0.01 (with or without min_accuracy_recovery = "
           "0.99), at_least = \"uniform\", max_omega = x");
  }
  if (quality.given("at") && !bound.is_set()) {
    refuse(quality.path_of("at"),
           "it says how max_perplexity_increase or min_accuracy_recovery is kept; give one");
  }
  problem.bound = bound;
  problem.quality_at_least.reset();
  problem.max_omega.reset();
  if (quality.given("at_least") && quality.text("at_least") != "none") {
    problem.quality_at_least = quality.text("at_least");
  }
  if (quality.given("max_omega")) problem.max_omega = quality.number("max_omega");
  lua_pop(L, 1);
  if (!options.given("theta")) problem.theta.reset();  // another floor, another default
}

/// Which devices must hold layers: the last word, of two that go together, is the script's.
void read_use_of_devices(const lua_kit::Options& options, solver::Problem& problem) {
  const bool given_stages = options.given("allow_empty_stage");
  const bool given_devices = options.given("use_all_devices");
  if (given_stages && given_devices && *problem.allow_empty_stage == *problem.use_all_devices) {
    refuse(options.path_of("use_all_devices"),
           *problem.use_all_devices
               ? "every device is to hold a layer, and allow_empty_stage lets stages be empty; "
                 "leave one of them out"
               : "devices may be left out, and allow_empty_stage = false lets no stage be empty; "
                 "leave one of them out");
  }
  if (given_stages && !given_devices) problem.use_all_devices.reset();
  if (given_devices && !given_stages) problem.allow_empty_stage.reset();
}

/// What counts as good, from the options that are there.
void read_goal(lua_State* L, const lua_kit::Options& options, solver::Problem& problem) {
  lua_kit::read_options(options, problem);
  read_use_of_devices(options, problem);
  if (options.given("quality")) read_quality(L, options, problem);
  options.read("constraints", constraints_argument, problem.constraints);
}

/// Reads one thing that is an object, a name or a table, when the options have it.
template <class Argument, class Part>
void read_part(lua_State* L, const lua_kit::Options& options, const char* name, Argument argument,
               Part& part) {
  if (options.push(name)) part = *argument(L, lua_gettop(L), options.path_of(name));
  lua_pop(L, 1);
}

bool is_on(const solver::BatchProblem& batch, const Device& device) {
  return std::any_of(batch.cluster.devices.begin(), batch.cluster.devices.end(),
                     [&](const ClusterDevice& slot) { return slot.device.name == device.name; });
}

std::vector<std::shared_ptr<const cost::Profile>> given_profiles(
    lua_State* L, const lua_kit::Options& options, const solver::BatchProblem& batch) {
  const std::string path = options.path_of("profiles");
  std::vector<std::shared_ptr<const cost::Profile>> given;
  options.push("profiles");
  const int list = lua_gettop(L);
  lua_kit::list_length(L, list, path, "give a list of profiles, as { profile }");
  lua_kit::for_each_item(L, list, path, [&](std::size_t, const std::string& where) {
    auto profile = cost_lua::profile_argument(L, lua_gettop(L), where)->profile;
    if (!batch.kernel_set.takes_profiles_of(profile->kernel_set)) {
      refuse(where, "of kernel set {}, the problem has {}", profile->kernel_set,
             batch.kernel_set.profile_set());
    }
    if (!is_on(batch, profile->device)) {
      refuse(where, "the cluster has no {}", profile->device.name);
    }
    for (const auto& other : given) {
      if (other->device.name != profile->device.name) continue;
      refuse(where, "a second profile of {}; give one for each device", profile->device.name);
    }
    given.push_back(std::move(profile));
  });
  lua_pop(L, 1);
  return given;
}

/// The profiles of the cluster's devices: as given, else those that it had and that are still of
/// use, else shipped. An empty list is none at all. Of another cluster, devices of the same name
/// may be others: of those only what was made in this script is kept.
void read_profiles(lua_State* L, const lua_kit::Options& options, solver::BatchProblem& batch) {
  std::vector<std::shared_ptr<const cost::Profile>> chosen;
  if (options.given("profiles")) {
    chosen = given_profiles(L, options, batch);
    if (chosen.empty()) {
      batch.profiles.clear();
      batch.with_profiles = false;
      return;
    }
    batch.with_profiles = true;
  } else {
    for (const auto& profile : batch.profiles) {
      const bool is_kept = profile->path.empty() || !options.given("cluster");
      if (is_kept && batch.kernel_set.takes_profiles_of(profile->kernel_set) &&
          is_on(batch, profile->device)) {
        chosen.push_back(profile);
      }
    }
  }
  if (!batch.with_profiles) return;
  const DataFolders& folders = core_lua::environment(L).folders;
  for (const ClusterDevice& slot : batch.cluster.devices) {
    const bool known = std::any_of(chosen.begin(), chosen.end(), [&](const auto& profile) {
      return profile->device.name == slot.device.name;
    });
    if (known) continue;
    auto profile = cost::profile_for(slot.device, batch.kernel_set, folders);
    if (!profile->parts.empty()) chosen.push_back(std::move(profile));
  }
  batch.profiles = std::move(chosen);
}

/// The kernel set of the first of the profiles that a script gives; empty where it gives none.
std::string kernel_set_of_profiles(lua_State* L, const lua_kit::Options& options) {
  std::string name;
  if (options.push("profiles") && lua_istable(L, -1)) {
    lua_kit::push_item(L, lua_gettop(L), 1, options.path_of("profiles"));
    if (!lua_isnil(L, -1)) {
      const std::string where = options.path_of("profiles") + "[1]";
      name = cost_lua::profile_argument(L, lua_gettop(L), where)->profile->kernel_set;
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return name;
}

std::string_view runtime_name(const solver::Problem& problem) {
  return problem.runtime ? name_of(*problem.runtime) : std::string_view{};
}

/// The named kernel set; else, where none was ever named, those that suit the devices, the first of
/// them in force.
void read_kernel_set(lua_State* L, const lua_kit::Options& options, solver::Problem& problem,
                     solver::Choices& choices, std::vector<cost::KernelSet>& kernel_sets) {
  solver::BatchProblem& batch = *problem.batch();
  const DataFolders& folders = core_lua::environment(L).folders;
  bool& follows = choices.follows_cluster.kernel_set;
  std::string name = kernel_set_of_profiles(L, options);
  if (options.given("kernel_set")) {
    name = options.text("kernel_set");
    follows = name == cost::kAutoKernelSet;
  }
  if (!name.empty() && name != cost::kAutoKernelSet) {
    kernel_sets.clear();
    batch.kernel_set = cost::find_kernel_set(name, folders);
    if (const auto& runs = batch.kernel_set.recalibration) {
      runs->check_ran_on(batch.cluster, options.path_of("kernel_set"));
    }
    return;
  }
  if (!follows) return;
  const bool is_new = batch.kernel_set.name.empty();
  const bool changes = options.given("kernel_set") || options.given("cluster") ||
                       options.given("runtime") || options.given("bitwidths");
  if (!is_new && !changes) return;
  std::vector<Device> devices;
  for (const ClusterDevice& slot : batch.cluster.devices) devices.push_back(slot.device);
  kernel_sets =
      cost::recommended_kernel_sets(devices, batch.bitwidths, runtime_name(problem), folders);
  batch.kernel_set = kernel_sets.front();
}

/// What is to be served and on what, from the options that are there. Whether its omega was in nats
/// before, and is to stay so.
bool read_batch(lua_State* L, const lua_kit::Options& options, solver::Problem& problem,
                solver::Choices& choices, std::vector<cost::KernelSet>& kernel_sets) {
  solver::BatchProblem& batch = *problem.batch();
  read_part(L, options, "model", core_lua::model_argument, batch.model);
  read_part(L, options, "cluster", core_lua::cluster_argument, batch.cluster);
  read_part(L, options, "workload", core_lua::workload_argument, batch.workload);
  lua_kit::read_options(options, batch);
  std::sort(batch.bitwidths.begin(), batch.bitwidths.end());
  read_kernel_set(L, options, problem, choices, kernel_sets);
  read_profiles(L, options, batch);
  read_choices(options, batch, kernel_sets, choices);
  // Who settles how the devices are used asks for one pipeline, unless ts.plan is told otherwise.
  const bool uses_all = options.given("use_all_devices") && problem.must_use_all_devices();
  if (uses_all || options.given("allow_empty_stage") || options.given("tensor_parallel")) {
    choices.may_replicate = false;
  }
  if (options.given("kv_omega")) read_kv_omega(L, options, batch);
  check_record(batch, options.field_path());
  // The default indicator covers whatever layers and bitwidths there are, so it follows them.
  const bool by_default =
      batch.indicator.kind.empty() || batch.indicator.kind == "constant" ||
      (batch.indicator.kind == kQualityIndicator && batch.indicator.variant.empty());
  const bool was_in_nats = batch.indicator.kind == kQualityIndicator;
  if (options.given("indicator") || by_default) {
    options.push("indicator");
    batch.indicator = *indicator_lua::indicator_argument(
        L, lua_gettop(L), options.path_of("indicator"), batch.model.name,
        static_cast<std::size_t>(batch.model.num_layers), batch.bitwidths);
    lua_pop(L, 1);
  }
  return was_in_nats && !options.given("indicator");
}

/// What is served and on what, and what is left open of it.
OptionTable batch_options() {
  return lua_kit::option_table<solver::Choices>(lua_kit::option_table<solver::BatchProblem>(
      {"ts.problem",
       "What is to be planned: a model on a cluster under a workload, or an abstract instance "
       "file.",
       "tessera.Problem",
       {}}));
}

void refuse_serving_options(const lua_kit::Options& options) {
  static const OptionTable of_batch = batch_options();
  for (const OptionSpec& spec : of_batch.options) {
    if (!options.given(spec.name)) continue;
    refuse(options.path_of(spec.name),
           "an instance file says what is served and on what; leave out {}", spec.name);
  }
}

void read_instance(const lua_kit::Options& options, solver::Problem& problem) {
  refuse_serving_options(options);
  for (const char* name : {"preset", "use_all_devices"}) {
    if (!options.given(name)) continue;
    refuse(options.path_of(name), "an instance file has no devices to choose from; leave out {}",
           name);
  }
  const std::string path = options.text("instance");
  const auto content = std::make_shared<const Json>(read_json_file(path));
  problem.given = solver::InstanceFile{content, path};
}

}  // namespace

const OptionTable& problem_options() {
  static const OptionTable table = lua_kit::option_table<solver::Problem>(batch_options());
  return table;
}

solver::OpenProblem problem_from(lua_State* L, const lua_kit::Options& options) {
  solver::Problem problem;
  if (options.given("instance")) {
    read_goal(L, options, problem);
    read_instance(options, problem);
    refuse_bound(problem, options.path_of("quality"));
    return solver::open_problem(std::move(problem), {});
  }
  for (const char* name : {"model", "cluster"}) {
    if (options.given(name)) continue;
    throw Error(ErrorCode::invalid_argument, options.path_of(name) + " is missing",
                options.path_of(name));
  }
  solver::Choices choices;
  solver::BatchProblem& batch = problem.given.emplace<solver::BatchProblem>();
  const solver::Preset preset = *named<solver::Preset>(options.choice("preset"));
  solver::set_defaults(preset, problem, batch, choices);
  read_goal(L, options, problem);
  const std::string_view kernel_set = solver::kernel_set_of(preset);
  if (kernel_set != cost::kAutoKernelSet && !options.given("kernel_set")) {
    batch.kernel_set =
        cost::find_kernel_set(std::string(kernel_set), core_lua::environment(L).folders);
  }
  std::vector<cost::KernelSet> kernel_sets;
  read_batch(L, options, problem, choices, kernel_sets);
  solver::set_quality(problem, core_lua::environment(L).folders);
  return solver::open_problem(std::move(problem), std::move(choices), std::move(kernel_sets));
}

solver::OpenProblem changed(lua_State* L, const lua_kit::Options& options,
                            const solver::OpenProblem& before) {
  solver::Problem problem = before.first.problem();
  solver::Choices choices = before.choices;
  std::vector<cost::KernelSet> kernel_sets = before.kernel_sets;
  read_goal(L, options, problem);
  if (options.given("instance")) {
    refuse(options.path_of("instance"), "load another instance with ts.problem");
  }
  if (options.given("preset")) {
    refuse(options.path_of("preset"),
           "it sets defaults where a problem begins: give it to ts.problem");
  }
  if (problem.batch() != nullptr) {
    const bool in_nats = read_batch(L, options, problem, choices, kernel_sets);
    solver::set_quality(problem, core_lua::environment(L).folders, in_nats);
  } else {
    refuse_serving_options(options);
    refuse_bound(problem, options.path_of("quality"));
  }
  return solver::open_problem(std::move(problem), std::move(choices), std::move(kernel_sets));
}

}  // namespace solver_lua
}  // namespace tessera
