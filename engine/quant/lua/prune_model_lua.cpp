#include <fmt/format.h>

#include <memory>

#include "core_lua.h"
#include "quant_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/value.h"
#include "tessera/quant/prune.h"

namespace tessera {
namespace {

using quant::PruneSummary;

std::string pruned_summary(const PruneSummary& s) {
  return fmt::format("pruned model {}: {:.1f} % of the layers' weights by {}, {} where it took {}",
                     s.out, 100 * s.ratio, name_of(s.method),
                     format_bytes(static_cast<double>(s.bytes_after)),
                     format_bytes(static_cast<double>(s.bytes_before)));
}

std::string describe_pruned(const PruneSummary& s) {
  std::string text = pruned_summary(s);
  text += fmt::format("\n  {} heads, {} KV heads, networks {} wide, in {}", s.num_heads,
                      s.num_kv_heads, s.ffn_size, format_seconds(s.seconds));
  for (const std::string& note : s.notes) text += "\n  note: " + note;
  return text;
}

}  // namespace

template <>
const lua_kit::ObjectType<PruneSummary>& lua_kit::object_type<PruneSummary>() {
  static const ObjectType<PruneSummary> type{.name = "tessera.PrunedModel",
                                             .doc = "A pruned copy of a model.",
                                             .fields = fields_of<PruneSummary>(),
                                             .methods = {},
                                             .summary = pruned_summary,
                                             .describe = describe_pruned};
  return type;
}

namespace quant_lua {
namespace {

OptionTable make_prune_options() {
  OptionTable table = lua_kit::option_table<quant::PruneRequest>(
      {"ts.prune_model",
       "Writes a pruned copy of a model that runs as any other: by Wanda, or smaller by whole "
       "channels and heads.",
       "tessera.PrunedModel",
       {}});
  table.options.push_back(
      {.name = "progress",
       .type = OptionType::callback,
       .doc = "Called after each tensor; false for silence. Default: a bar on a terminal",
       .lua_type = "fun(done: integer, total: integer)|false"});
  return table;
}

const OptionTable& prune_model_options() {
  static const OptionTable table = make_prune_options();
  return table;
}

std::function<void(std::int64_t, std::int64_t)> prune_progress(const lua_kit::Options& options) {
  std::shared_ptr<lua_kit::LuaFunction> callback;
  if (options.given("progress")) {
    options.push("progress");
    callback =
        std::make_shared<lua_kit::LuaFunction>(options.state(), -1, options.path_of("progress"));
    lua_pop(options.state(), 1);
  }
  return [callback](std::int64_t done, std::int64_t total) {
    if (lua_kit::interrupt::flag()->load())
      throw Error(ErrorCode::interrupted, "interrupted; nothing was written");
    if (!callback) return;
    lua_kit::push_integer(callback->state(), done);
    lua_kit::push_integer(callback->state(), total);
    callback->call(2, 0);
  };
}

}  // namespace

int prune_model(lua_State* L) {
  const lua_kit::Options options(L, 1, prune_model_options(), "ts.prune_model");
  quant::PruneRequest request;
  lua_kit::read_options(options, request);
  request.progress = prune_progress(options);
  lua_kit::push_object(L, std::make_shared<const PruneSummary>(quant::prune_model(request)));
  return 1;
}

void register_pruned_model(lua_State* L) {
  lua_kit::register_object<PruneSummary>(L);
  core_lua::environment(L).reference.add_object<PruneSummary>();
  core_lua::environment(L).reference.add(prune_model_options());
}

}  // namespace quant_lua
}  // namespace tessera
