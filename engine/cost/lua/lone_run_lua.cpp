// lone_run(options): one request alone, of a fingerprint or a whole model (ts.fingerprint).

#include "core_lua.h"
#include "cost_lua.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/cost/lone_run.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::cost_lua {
namespace {

const OptionTable& lone_run_options() {
  static const OptionTable table = lua_kit::option_table<cost::LoneRunQuery>(
      {"lone_run",
       "Time and memory of one request alone.",
       "table",
       {{.name = "model",
         .type = OptionType::table,
         .doc = "Whose",
         .lua_type = "tessera.Model|string|table",
         .required = true},
        {.name = "cluster",
         .type = OptionType::table,
         .doc = "On its first GPUs",
         .lua_type = "tessera.Cluster|string|table",
         .required = true},
        {.name = "kernel_set", .type = OptionType::text, .doc = "By which", .required = true}}});
  return table;
}

struct Asked {
  cost::PricingContext context;
  cost::LoneRunQuery query;
};

Asked asked_at(lua_State* L, const lua_kit::Options& options) {
  std::shared_ptr<const ModelShape> model;
  std::shared_ptr<const Cluster> cluster;
  options.read("model", core_lua::model_argument, model);
  options.read("cluster", core_lua::cluster_argument, cluster);
  cost::LoneRunQuery query;
  lua_kit::read_options(options, query);
  return {cost::pricing_context(*model, *cluster, {query.bitwidth}, options.text("kernel_set"),
                                core_lua::environment(L).folders),
          query};
}

}  // namespace

/// { latency_s = { by output_tokens }, memory_bytes, weight_bytes, provenance }
int lone_run(lua_State* L) {
  const lua_kit::Options options(L, 1, lone_run_options(), "lone_run");
  const Asked asked = asked_at(L, options);
  const cost::LoneRun run = cost::lone_run(asked.context, asked.query);
  lua_createtable(L, 0, 4);
  lua_kit::push_value(L, run.latency_s);
  lua_setfield(L, -2, "latency_s");
  lua_pushnumber(L, run.memory_bytes());
  lua_setfield(L, -2, "memory_bytes");
  lua_pushnumber(L, run.memory.weight_bytes + run.memory.embedding_bytes);
  lua_setfield(L, -2, "weight_bytes");
  lua_kit::push_text(L, name_of(run.provenance));
  lua_setfield(L, -2, "provenance");
  return 1;
}

/// scheme_quality(options): the increase of the perplexity { low, mid, high }, or nil.
int scheme_quality(lua_State* L) {
  const lua_kit::Options options(L, 1, lone_run_options(), "scheme_quality");
  const Asked asked = asked_at(L, options);
  const auto quality =
      cost::scheme_quality(asked.context, asked.query, core_lua::environment(L).folders);
  if (!quality) return 0;
  lua_kit::push_value(L, quality->perplexity_increase);
  return 1;
}

}  // namespace tessera::cost_lua
