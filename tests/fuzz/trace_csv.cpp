// Length traces, `ts.workload { lengths = "trace.csv" }`, through the binding that reads them.
#include <cmath>
#include <lua.hpp>

#include "core_lua.h"
#include "target.h"
#include "tessera/lua_kit/value.h"

namespace trace_csv_target {
namespace {

lua_State* new_state(tessera::core_lua::Environment* environment) {
  lua_State* L = luaL_newstate();
  luaL_openlibs(L);
  tessera::core_lua::set_environment(L, environment);
  tessera::core_lua::register_core(L);
  return L;
}

}  // namespace

TESSERA_FUZZ_TARGET(trace_csv) {
  using namespace tessera;
  static lua_kit::Reference reference;
  static core_lua::Environment environment{DataFolders({}), reference};
  static lua_State* const L = new_state(&environment);
  return fuzz::read(data, size, [](std::string_view text) {
    const fuzz::MemoryFile file(text);
    lua_settop(L, 0);
    lua_createtable(L, 0, 1);
    lua_kit::push_text(L, file.path());
    lua_setfield(L, -2, "lengths");
    const auto workload = core_lua::workload_argument(L, 1, "input");
    fuzz::require(std::isfinite(workload->prompt_tokens) && workload->prompt_tokens >= 1 &&
                      workload->output_tokens >= 1,
                  "mean lengths out of range");
    fuzz::require(workload->max_prompt_tokens >= workload->prompt_tokens, "longest below the mean");
    fuzz::require_round_trip(*workload,
                             [](const Json& json) { return workload_from_json(json, "again"); });
  });
}

}  // namespace trace_csv_target
