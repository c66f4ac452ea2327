// pricing(options): what prices a model's runs; lone_run(pricing, options): one request alone, of a
// fingerprint or a whole model (ts.fingerprint).

#include "core_lua.h"
#include "cost_lua.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/cost/lone_run.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera {

template <>
const lua_kit::ObjectType<cost::PricingContext>& lua_kit::object_type<cost::PricingContext>() {
  static const ObjectType<cost::PricingContext> type{
      .name = "tessera.Pricing",
      .doc = "What prices a model on a cluster by a kernel set.",
      .fields = {},
      .methods = {},
      .summary = [](const cost::PricingContext& context) {
        return "prices of " + context.model.name + " by " + context.kernel_set.name;
      }};
  return type;
}

namespace cost_lua {
namespace {

const OptionTable& pricing_options() {
  static const OptionTable table{
      "pricing",
      "What prices a model on a cluster.",
      "tessera.Pricing",
      {{.name = "model",
        .type = OptionType::table,
        .doc = "Whose",
        .lua_type = "tessera.Model|string|table",
        .required = true},
       {.name = "cluster",
        .type = OptionType::table,
        .doc = "On its GPUs",
        .lua_type = "tessera.Cluster|string|table",
        .required = true},
       {.name = "bitwidths",
        .type = OptionType::integer_list,
        .doc = "Of weights, for which \"auto\" finds kernels",
        .min = 1,
        .max = 16,
        .required = true},
       {.name = "kernel_set", .type = OptionType::text, .doc = "By which", .required = true}}};
  return table;
}

const OptionTable& lone_run_options() {
  static const OptionTable table = lua_kit::option_table<cost::LoneRunQuery>(
      {"lone_run", "Time and memory of one request alone.", "table", {}});
  return table;
}

const cost::PricingContext& pricing_argument(lua_State* L) {
  return *lua_kit::check_object<cost::PricingContext>(L, 1, "pricing");
}

cost::LoneRunQuery lone_run_argument(lua_State* L, const char* path) {
  const lua_kit::Options options(L, 2, lone_run_options(), path);
  cost::LoneRunQuery query;
  lua_kit::read_options(options, query);
  return query;
}

}  // namespace

int pricing(lua_State* L) {
  const lua_kit::Options options(L, 1, pricing_options(), "pricing");
  std::shared_ptr<const ModelShape> model;
  std::shared_ptr<const Cluster> cluster;
  options.read("model", core_lua::model_argument, model);
  options.read("cluster", core_lua::cluster_argument, cluster);
  std::vector<std::int32_t> bitwidths;
  for (const std::int64_t bitwidth : options.integers("bitwidths")) {
    bitwidths.push_back(static_cast<std::int32_t>(bitwidth));
  }
  lua_kit::push_object<cost::PricingContext>(
      L, std::make_shared<cost::PricingContext>(
             cost::pricing_context(*model, *cluster, bitwidths, options.text("kernel_set"),
                                   core_lua::environment(L).folders)));
  return 1;
}

/// { latency_s, batch_latency_s = { by output_tokens }, memory_bytes, weight_bytes, provenance }
int lone_run(lua_State* L) {
  const cost::LoneRun run = cost::lone_run(pricing_argument(L), lone_run_argument(L, "lone_run"));
  lua_createtable(L, 0, 5);
  lua_kit::push_value(L, run.latency_s);
  lua_setfield(L, -2, "latency_s");
  if (!run.batch_latency_s.empty()) {
    lua_kit::push_value(L, run.batch_latency_s);
    lua_setfield(L, -2, "batch_latency_s");
  }
  lua_pushnumber(L, run.memory_bytes());
  lua_setfield(L, -2, "memory_bytes");
  lua_pushnumber(L, run.memory.weight_bytes + run.memory.embedding_bytes);
  lua_setfield(L, -2, "weight_bytes");
  lua_kit::push_text(L, name_of(run.provenance));
  lua_setfield(L, -2, "provenance");
  return 1;
}

/// scheme_quality(pricing, options): the increase of the perplexity { low, mid, high }, or nil.
int scheme_quality(lua_State* L) {
  const auto quality =
      cost::scheme_quality(pricing_argument(L), lone_run_argument(L, "scheme_quality"),
                           core_lua::environment(L).folders);
  if (!quality) return 0;
  lua_kit::push_value(L, quality->perplexity_increase);
  return 1;
}

void register_lone_run(lua_State* L) { lua_kit::register_object<cost::PricingContext>(L); }

}  // namespace cost_lua
}  // namespace tessera
