// ts.max_rate.

#include <fmt/format.h>

#include "core_lua.h"
#include "deployment_lua.h"
#include "served_lua.h"
#include "serving_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/serving/max_rate.h"

namespace tessera {

using serving::MaxRate;

namespace {

std::string describe(const MaxRate& rate) {
  if (rate.rate_per_s == 0) return "no rate keeps to the SLO: " + rate.limited_by;
  std::string text = fmt::format("{} req/s keep to the SLO", format_number(rate.rate_per_s, 4));
  if (rate.fails_at_per_s) {
    text += fmt::format("; {} do not: {}", format_number(*rate.fails_at_per_s, 4), rate.limited_by);
  }
  if (!rate.note.empty()) text += "\nnote: " + rate.note;
  return text;
}

}  // namespace

template <>
const lua_kit::ObjectType<MaxRate>& lua_kit::object_type<MaxRate>() {
  static const ObjectType<MaxRate> type{
      .name = "tessera.MaxRate",
      .doc = "The largest rate of requests that keeps to an SLO.",
      .fields = {{"rate_per_s", "number", "The largest that held (1/s); 0: none does",
                  [](lua_State* L, const MaxRate& r) { lua_pushnumber(L, r.rate_per_s); }},
                 {"low_per_s", "number", "The bracket: the same as rate_per_s (1/s)",
                  [](lua_State* L, const MaxRate& r) { lua_pushnumber(L, r.rate_per_s); }},
                 {"high_per_s", "number?",
                  "The smallest rate above it that did not hold (1/s); nil: none was found",
                  [](lua_State* L, const MaxRate& r) { push_optional(L, r.fails_at_per_s); }},
                 {"limited_by", "string", "What breaks there, and what requests wait for",
                  [](lua_State* L, const MaxRate& r) { push_text(L, r.limited_by); }},
                 {"note", "string", "Where the run is too short to tell; empty where it is not",
                  [](lua_State* L, const MaxRate& r) { push_text(L, r.note); }},
                 {"points", "table[]",
                  "Rates that were simulated, in order: rate_per_s, holds, broken, cut_short, "
                  "ttft_p99_s, tpot_p99_s, attainment_ratio, throughput_tok_s",
                  [](lua_State* L, const MaxRate& r) { push_value(L, r.points); }},
                 {"served", "tessera.Served?", "The run at rate_per_s",
                  [](lua_State* L, const MaxRate& r) {
                    if (!r.served) return lua_pushnil(L);
                    push_object<serving::Served>(L, std::make_shared<serving::Served>(*r.served));
                  }}},
      .methods = {},
      .summary = describe};
  return type;
}

namespace solver_lua {

const OptionTable& max_rate_options() {
  static const OptionTable table = lua_kit::option_table<serving::MaxRateOptions>(
      {"ts.max_rate",
       "The largest rate at which traffic is served within an SLO.",
       "tessera.MaxRate",
       {}});
  return table;
}

int max_rate(lua_State* L) {
  const auto held =
      lua_kit::check_object<solver::AssembledDeployment>(L, 1, "ts.max_rate deployment");
  const auto traffic = serving_lua::traffic_argument(L, 2, "ts.max_rate traffic");
  const lua_kit::Options options(L, 3, max_rate_options(), "ts.max_rate");
  serving::MaxRateOptions search;
  lua_kit::read_options(options, search);
  search.summary = solver::summary_options(*held, *traffic);
  options.read("slo", serving_lua::slo_argument, search.summary.slos);
  search.poll = [](std::int64_t) { check_time("ts.max_rate"); };
  serving::Deployment deployment = held->deployment;
  serving::fill_kv_blocks(deployment, *traffic);
  lua_kit::push_object<MaxRate>(
      L, std::make_shared<MaxRate>(serving::max_rate(deployment, *traffic, search)));
  return 1;
}

void register_capacity(lua_State* L) {
  lua_kit::register_object<MaxRate>(L);
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add_object<MaxRate>();
  reference.add(serve_options());
  reference.add(max_rate_options());
  const std::vector<lua_kit::ParameterCard> both = {
      {"deployment", "tessera.Deployment", "Engines, of ts.deployment"},
      {"traffic", "tessera.Traffic|table", "Requests, or the options of ts.traffic"}};
  reference.add(lua_kit::FunctionCard{"ts.serve", std::string(serve_options().doc), both,
                                      std::string(serve_options().returns)});
  reference.add(lua_kit::FunctionCard{"ts.max_rate", std::string(max_rate_options().doc), both,
                                      std::string(max_rate_options().returns)});
}

}  // namespace solver_lua
}  // namespace tessera
