#include "executed_lua.h"

#include <fmt/format.h>

#include "lm_lua.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/run/run_summary.h"
#include "tessera/serving/served.h"

namespace tessera {
namespace run_lua {

using run::Executed;

void push_fault(lua_State* L, const run::Fault& fault) {
  lua_createtable(L, 0, 6);
  lua_kit::set_integer(L, "rank", fault.rank);
  lua_kit::set_integer(L, "engine", fault.engine + 1);
  lua_kit::set_integer(L, "stage", fault.stage + 1);
  lua_kit::set_number(L, "at_s", static_cast<double>(fault.at) / run::kSecond);
  lua_kit::set_text(L, "why", fault.why);
  lua_kit::set_text(L, "remedy", name_of(fault.remedy));
}

namespace {

void push_answers(lua_State* L, const Executed& executed) {
  const std::size_t count = executed.answers.done.size();
  lua_createtable(L, static_cast<int>(count), 0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& answer = executed.answers.done[i];
    if (answer) {
      lua_createtable(L, 0, 4);
      lm_lua::push_ids(L, answer->tokens);
      lua_setfield(L, -2, "tokens");
      lua_kit::set_text(L, "stop_reason", name_of(answer->stop_reason));
      if (answer->first_token != serving::kNever) {
        lua_kit::set_number(L, "ttft_s", serving::to_seconds(answer->first_token));
        lua_kit::set_number(L, "e2e_s", serving::to_seconds(answer->last_token));
      }
    } else {
      lua_pushboolean(L, 0);
    }
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_setfield(L, -2, "answers");
}

void push_stages(lua_State* L, const Executed& executed) {
  lua_createtable(L, static_cast<int>(executed.stages.size()), 0);
  for (std::size_t i = 0; i < executed.stages.size(); ++i) {
    const run::StageReport& stage = executed.stages[i];
    lua_createtable(L, 0, 20);
    lua_kit::set_integer(L, "engine", stage.engine + 1);
    lua_kit::set_integer(L, "stage", stage.stage + 1);
    lua_kit::set_integer(L, "rank", stage.rank);
    lua_kit::set_integer(L, "tensor_rank", stage.tensor_rank);
    lua_kit::set_boolean(L, "attends", stage.attends);
    lua_kit::set_integer(L, "first_layer", stage.first_layer);
    lua_kit::set_integer(L, "num_layers", stage.num_layers);
    lua_kit::set_number(L, "load_s", stage.loaded.load_s);
    lua_kit::set_integer(L, "weight_bytes", stage.loaded.weight_bytes);
    lua_kit::set_integer(L, "kv_cache_bytes", stage.loaded.kv_cache_bytes);
    lua_kit::set_integer(L, "before_bytes", stage.loaded.before_bytes);
    lua_kit::set_integer(L, "resident_bytes", stage.loaded.resident_bytes);
    lua_kit::set_integer(L, "peak_bytes", stage.loaded.peak_bytes);
    lua_kit::set_integer(L, "layers_read", stage.loaded.layers_read);
    lua_kit::set_integer(L, "sent_bytes", stage.sent_bytes);
    lua_kit::set_text(L, "host", stage.host);
    lua_kit::set_number(L, "busy_s", stage.busy_s);
    lua_kit::set_number(L, "computed_s", stage.computed_s);
    lua_kit::set_number(L, "idle_ratio", stage.idle_ratio);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_setfield(L, -2, "stages");
}

void push_faults(lua_State* L, const Executed& executed) {
  lua_createtable(L, static_cast<int>(executed.faults.size()), 0);
  for (std::size_t i = 0; i < executed.faults.size(); ++i) {
    push_fault(L, executed.faults[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_setfield(L, -2, "faults");
}

int save_trace(lua_State* L) {
  const auto& executed = *lua_kit::check_object<Executed>(L, 1, "run");
  std::optional<std::size_t> engine;
  if (!lua_isnoneornil(L, 3)) {
    const auto most = static_cast<double>(executed.spans.size());
    engine = static_cast<std::size_t>(
        lua_kit::check_integer(L, 3, "run:save_trace engine", 1, most) - 1);
  }
  serving::save_chrome_trace(run::spans_of(executed, engine), run::tracks_of(executed, engine),
                             lua_kit::check_text(L, 2, "run:save_trace path"));
  return 0;
}

}  // namespace

void push_executed(lua_State* L, std::shared_ptr<const Executed> executed) {
  const serving::BatchRun run = run::batch_run_of(*executed);
  lua_createtable(L, 0, 24);
  lua_kit::set_text(L, "state", name_of(executed->state));
  lua_kit::set_text(L, "why", executed->why);
  lua_kit::set_text(L, "transport", name_of(executed->transport));
  lua_kit::set_number(L, "load_s", executed->load_s);
  lua_kit::set_number(L, "total_s", run.total_s);
  lua_kit::set_number(L, "prefill_s", run.prefill_s);
  lua_kit::set_number(L, "decode_s", run.decode_s);
  lua_kit::set_number(L, "ttft_s", run.ttft_s);
  lua_kit::set_number(L, "ttft_max_s", run.ttft_max_s);
  lua_kit::set_number(L, "tpot_s", run.tpot_s);
  lua_kit::set_number(L, "decode_round_s", run.decode_round_s);
  lua_kit::set_number(L, "throughput_tok_s", run.throughput_tok_s);
  lua_kit::set_integer(L, "replans", executed->num_replans);
  lua_kit::set_integer(L, "num_refused", executed->num_refused);
  lua_kit::set_text(L, "last_refused", executed->last_refused);
  push_answers(L, *executed);
  push_stages(L, *executed);
  push_faults(L, *executed);
  lua_kit::push_object(L, executed);
  lua_setfield(L, -2, "measured");
}

}  // namespace run_lua

template <>
const lua_kit::ObjectType<run::Executed>& lua_kit::object_type<run::Executed>() {
  static const ObjectType<run::Executed> type{
      .name = "tessera.Measured",
      .doc = "What ts.execute measured, as it was.",
      .fields = {},
      .methods =
          {{"save_trace", guarded<run_lua::save_trace>, "(path: string, engine: integer?)",
            "Writes a Chrome trace of an engine's stages (default: of all engines), for Perfetto"}},
      .summary = [](const run::Executed& e) {
        return fmt::format("measured: {} prompts, {}", e.answers.prompts.size(), name_of(e.state));
      }};
  return type;
}

}  // namespace tessera
