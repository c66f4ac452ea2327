// ts.plan_serving: the library in Lua prints, exports and documents what comes of it.

#include "core_lua.h"
#include "deployment_lua.h"
#include "engine_lua.h"
#include "scheduler_lua.h"
#include "served_lua.h"
#include "serving_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/record_options.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/deploy/plan_serving.h"
#include "tessera/solver/serving/server_request.h"

namespace tessera {

using solver::ServingPlans;
using solver::ServingRequest;

namespace solver_lua {
namespace {

const OptionTable& quality_bound_options() {
  static const OptionTable table = lua_kit::option_table<QualityBound>(
      {"ts.plan_serving.quality", "What may be lost.", "table", {}});
  return table;
}

QualityBound bound_at(lua_State* L, int index, const std::string& path) {
  const lua_kit::Options options(L, index, quality_bound_options(), path);
  QualityBound bound;
  lua_kit::read_options(options, bound);
  if (!bound.is_set()) {
    refuse(path, "give max_perplexity_increase = 0.01, or min_accuracy_recovery = 0.99");
  }
  return bound;
}

/// What a table of options says is settled, an engine all of it.
solver::SettledEngine engine_at(lua_State* L, int index, const std::string& path) {
  solver::SettledEngine settled{serving_lua::engine_argument(L, index, path)};
  const bool whole = lua_kit::test_object<serving::EngineOptions>(L, index) != nullptr;
  const auto given = [&](const char* name) {
    if (whole) return true;
    const bool found = lua_kit::push_field(L, index, name, path);
    lua_pop(L, 1);
    return found;
  };
  settled.max_num_seqs = given("max_num_seqs");
  settled.max_num_batched_tokens = given("max_num_batched_tokens");
  settled.enable_prefix_caching = given("enable_prefix_caching");
  return settled;
}

/// What stands for the engine of a part: the one that was given, or the options with its limits.
void push_engine(lua_State* L, const lua_kit::Options& options, const solver::ServingPart& part) {
  const bool given = options.push("engine");
  if (given && lua_kit::test_object<serving::EngineOptions>(L, -1) != nullptr) return;
  const int source = lua_gettop(L);
  lua_newtable(L);
  const int copy = lua_gettop(L);
  if (given) {
    lua_kit::for_each_pair(L, source, options.path_of("engine"), [&] {
      lua_pushvalue(L, -2);
      lua_pushvalue(L, -2);
      lua_rawset(L, copy);
    });
  }
  lua_kit::set_integer(L, "max_num_seqs", part.max_num_seqs);
  lua_kit::set_integer(L, "max_num_batched_tokens", part.max_num_batched_tokens);
  lua_kit::set_boolean(L, "enable_prefix_caching", part.enable_prefix_caching);
  lua_remove(L, source);
}

}  // namespace

solver::TrafficSource traffic_at(lua_State* L, int index, const std::string& path) {
  if (const auto* made = lua_kit::test_object<serving::Traffic>(L, index)) return *made;
  return serving_lua::traffic_options_argument(L, index, path);
}

void read_engines(lua_State* L, const lua_kit::Options& options, ServingRequest& request) {
  lua_kit::read_options(options, request);
  options.read("model", core_lua::model_argument, request.model);
  options.read("quality", bound_at, request.quality);
  options.read("engine", engine_at, request.engine);
  request.make_scheduler = serving_lua::scheduler_maker(L);
}

void push_part(lua_State* L, const lua_kit::Options& options, const solver::ServingPart& part) {
  lua_newtable(L);
  lua_kit::set_fields(L, part);
  push_engine(L, options, part);
  lua_setfield(L, -2, "engine");
}

namespace {

ServingRequest request_at(lua_State* L, const lua_kit::Options& options) {
  ServingRequest request;
  read_engines(L, options, request);
  options.read("traffic", traffic_at, request.traffic);
  options.read("slo", serving_lua::slo_argument, request.slos);
  options.read("cluster", core_lua::cluster_argument, request.cluster);
  read_router(options, request);
  request.poll = [](std::int64_t) { check_time("ts.plan_serving"); };
  return request;
}

void push_parts(lua_State* L, const lua_kit::Options& options,
                const std::vector<solver::ServingPart>& parts) {
  lua_createtable(L, static_cast<int>(parts.size()), 0);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    push_part(L, options, parts[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
}

void push_row(lua_State* L, const lua_kit::Options& options, const solver::ServingRow& row) {
  luaL_checkstack(L, 10, "a deployment");
  lua_newtable(L);
  lua_kit::set_fields(L, row);
  push_parts(L, options, row.parts);
  lua_setfield(L, -2, "parts");
  push_engine(L, options, row.parts.front());
  lua_setfield(L, -2, "engine");
  if (row.quality) {
    push_quality(L, row.quality);
    lua_setfield(L, -2, "quality");
  }
  // The run belongs to what was found, which stays as long.
  lua_kit::push_object<serving::Served>(
      L, std::shared_ptr<const serving::Served>(row.found, &*row.found->served));
  lua_setfield(L, -2, "served");
  if (row.deployment) {
    lua_kit::push_object<solver::AssembledDeployment>(L, row.deployment);
    lua_setfield(L, -2, "deployment");
  }
}

int frontier(lua_State* L) {
  const auto plans = lua_kit::check_object<ServingPlans>(L, 1, "plans");
  lua_kit::push_value(
      L, solver::frontier_of(*plans, [](std::int64_t) { check_time("plans:frontier"); }));
  return 1;
}

/// devices(rank): of each part of a row, the devices that it has in the cluster (0-based).
int devices(lua_State* L) {
  const auto plans = lua_kit::check_object<ServingPlans>(L, 1, "plans");
  const std::int64_t rank =
      lua_kit::check_integer(L, 2, "rank", 1, static_cast<double>(plans->rows.size()));
  std::vector<std::vector<std::int64_t>> placed;
  for (const auto& part : plans->rows[static_cast<std::size_t>(rank - 1)].parts) {
    placed.push_back(part.devices);
  }
  lua_kit::push_value(L, placed);
  return 1;
}

}  // namespace

const OptionTable& plan_serving_options() {
  static const OptionTable table = lua_kit::option_table<ServingRequest>(
      {"ts.plan_serving",
       "The deployments of a model on a cluster that serve traffic within an SLO, the best first: "
       "how many engines, of which devices, tensor parallelism, stages, bitwidths, KV cache, "
       "limits on requests and tokens, prefill and decode in one engine or in pools of their own. "
       "A list of tables with rate_per_s (the largest that held), scope (what was simulated: "
       "whole, one engine of many, or half: half the requests, by the smallest set in the ratio "
       "of the pools), tok_s_per_gpu, tok_s_per_user, ttft_p99_s, tpot_p99_s, gpus, engines, "
       "layout, parts (role, device, engines, tensor_parallel, pipeline_parallel, bitwidth, "
       "kv_bitwidth, share, engine of each kind), bitwidth and kv_bitwidth (the least of the "
       "parts), "
       "quality (of the worst part), usd_per_h, usd_per_million_tokens, limited_by and "
       "deployment; :frontier() gives tokens per user against tokens per GPU, :export(kind, "
       "folder) writes what starts one. Or nil and why (infeasible), with the reason for each "
       "kind of engine in why.reasons.",
       "tessera.ServingPlans?, tessera.Error?",
       {}});
  return table;
}

int default_quality(lua_State* L) {
  lua_newtable(L);
  lua_kit::set_fields(L, solver::kDefaultQuality);
  return 1;
}

int server_request(lua_State* L) {
  const auto& model = *lua_kit::check_object<ModelShape>(L, 1, "model");
  lua_newtable(L);
  lua_kit::set_integer(L, "tokens", solver::kCommonRequestTokens);
  lua_kit::set_number(L, "cache_share", solver::request_share(model));
  return 1;
}

int gain_words(lua_State* L) {
  lua_kit::push_text(L, solver::gain_words(lua_kit::any_number(L, 1, "ratio")));
  return 1;
}

int latency_limits(lua_State* L) {
  std::vector<std::string> names;
  for (const OptionSpec& limit : options_of<solver::LatencyLimits>()) {
    names.emplace_back(limit.name);
  }
  lua_kit::push_texts(L, names);
  return 1;
}

/// The rows, and beside them what was found: nothing but `why_none` where there are none.
int plan_serving(lua_State* L) {
  const std::string path = "ts.plan_serving";
  const lua_kit::Options options(L, 1, plan_serving_options(), path);
  const auto plans = std::make_shared<ServingPlans>(
      solver::plan_serving(request_at(L, options), core_lua::environment(L).folders, path));
  lua_createtable(L, static_cast<int>(plans->rows.size()), 0);
  for (std::size_t i = 0; i < plans->rows.size(); ++i) {
    push_row(L, options, plans->rows[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_kit::push_object<ServingPlans>(L, plans);
  return 2;
}

void register_plan_serving(lua_State* L) {
  lua_kit::register_object<ServingPlans>(L);
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add(plan_serving_options());
  reference.add(quality_bound_options());
}

}  // namespace solver_lua

template <>
const lua_kit::ObjectType<ServingPlans>& lua_kit::object_type<ServingPlans>() {
  using P = ServingPlans;
  static const ObjectType<P> type{
      .name = "tessera.ServingSearch",
      .doc = "What ts.plan_serving found, for the library.",
      .fields = {{"why_none", "string", "Empty where there are rows",
                  [](lua_State* L, const P& p) { push_text(L, p.why_none); }},
                 {"reasons", "table[]", "What was ruled out: engine, reason",
                  [](lua_State* L, const P& p) { push_value(L, p.refusals); }},
                 {"simulated", "integer", "Engines and deployments",
                  [](lua_State* L, const P& p) { push_integer(L, p.simulated); }},
                 {"bounded", "integer", "Ruled out by their bounds",
                  [](lua_State* L, const P& p) { push_integer(L, p.bounded); }},
                 {"objective", "string", "What the order goes by",
                  [](lua_State* L, const P& p) { push_text(L, name_of(p.objective)); }},
                 {"preference", "string", "Why the first is not the one with the largest rate",
                  [](lua_State* L, const P& p) { push_text(L, p.preference); }},
                 {"best_homogeneous", "string", "The best on devices of one type, by layout",
                  [](lua_State* L, const P& p) { push_text(L, p.best_homogeneous); }},
                 {"gain_of_mixing", "number?", "What the first row gives over it, as a ratio",
                  [](lua_State* L, const P& p) { push_value(L, p.gain_of_mixing); }},
                 {"quality_note", "string", "That no bits keep to the default bound on quality",
                  [](lua_State* L, const P& p) { push_text(L, p.quality_note); }},
                 {"aggregated_over_disaggregated", "number?", "Rates per device, as a ratio",
                  [](lua_State* L, const P& p) {
                    push_value(L, p.aggregated_over_disaggregated);
                  }}},
      .methods = {{"frontier", guarded<solver_lua::frontier>, "(): table[]", "As plans:frontier"},
                  {"devices", guarded<solver_lua::devices>, "(rank: integer): integer[][]",
                   "Of each part of a row, in the cluster (0-based)"}},
      .summary = [](const P& p) { return std::to_string(p.rows.size()) + " deployments"; }};
  return type;
}

}  // namespace tessera
