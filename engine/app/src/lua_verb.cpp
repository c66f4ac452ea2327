#include "lua_verb.h"

#include <algorithm>

#include "flags.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::app {
namespace {

// Pushes a field of a module of the library.
ExitStatus push_library(Host& host, std::string_view module, const char* field) {
  lua_State* L = host.state();
  lua_getglobal(L, "require");
  lua_kit::push_text(L, std::string(module));
  if (const ExitStatus status = host.call(1, 1); status != kDone) return status;
  lua_kit::push_field(L, -1, field, module);
  lua_remove(L, -2);
  return kDone;
}

// What a `main` returned, the two values on top: an exit status or nothing; nil and why.
ExitStatus status_of_results(Host& host) {
  lua_State* L = host.state();
  if (!lua_isnil(L, -1)) return host.report_error();  // `why` reads like an error that was raised
  if (lua_type(L, -2) != LUA_TNUMBER) return kDone;
  return static_cast<ExitStatus>(lua_kit::check_integer(L, -2, "exit status", 0, 255));
}

ExitStatus set_run_options(Host& host, const FlagValues& flags) {
  lua_State* L = host.state();
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.host");
  if (const ExitStatus status = host.call(1, 1); status != kDone) return status;
  push_flags(L, run_options(), flags);
  lua_setfield(L, -2, "run_options");
  lua_pop(L, 1);
  return kDone;
}

// The module that runs what a script returned, or nullptr where it returned nothing to run.
const char* runner_of(lua_State* L, int index) {
  const lua_kit::StackGuard guard(L);
  if (luaL_getmetafield(L, index, "__metatable") == 0 || lua_type(L, -1) != LUA_TSTRING) {
    return nullptr;
  }
  const std::string type = lua_kit::check_text(L, -1, "__metatable");
  if (type == "tessera.Experiment") return "tessera.desk.experiment.runner";
  if (type == "tessera.Collection") return "tessera.desk.experiment.members";
  return nullptr;
}

// Sweeps the experiment, or collection of them, on top of the stack. What a script would have got
// as its arguments are flags here.
ExitStatus sweep(Host& host, const char* runner, const Command& command) {
  lua_State* L = host.state();
  FlagValues flags = command.flags;
  for (auto& [name, texts] : parse_run_flags(host.settings().arguments)) {
    if (name.rfind("sandbox", 0) == 0) {
      throw UsageError{flag_of(name) +
                       " came behind --, where it is read when the script has run: "
                       "tessera run --sandbox FILE"};
    }
    std::vector<std::string>& known = flags[name];
    known.insert(known.end(), texts.begin(), texts.end());
  }
  if (const ExitStatus status = set_run_options(host, flags); status != kDone) return status;
  if (const ExitStatus status = push_library(host, runner, "run"); status != kDone) return status;
  lua_insert(L, -2);
  push_flags(L, run_options(), flags);
  if (const ExitStatus status = host.call(2, 2); status != kDone) return status;
  return status_of_results(host);
}

}  // namespace

ExitStatus run_lua_verb(Host& host, const LuaVerb& verb, const Command& command) {
  lua_State* L = host.state();
  lua_settop(L, 0);
  push_flags(L, verb.options, command.flags);
  lua_kit::set_texts(L, "names", command.names);
  if (const ExitStatus status = push_library(host, verb.module, "main"); status != kDone) {
    return status;
  }
  lua_insert(L, -2);
  if (const ExitStatus status = host.call(1, 2); status != kDone) return status;
  return status_of_results(host);
}

ExitStatus run_files(Host& host, const Command& command) {
  lua_State* L = host.state();
  if (const ExitStatus status = set_run_options(host, command.flags); status != kDone)
    return status;
  ExitStatus worst = kDone;
  for (const std::string& file : command.files) {
    lua_settop(L, 0);
    if (const ExitStatus status = host.run_file(file); status != kDone) return status;
    const char* runner = runner_of(L, -1);
    if (runner == nullptr) continue;
    const ExitStatus status = sweep(host, runner, command);
    worst = std::max(worst, status);
    if (status == kUsage || status == kInterrupted) break;
  }
  return worst;
}

}  // namespace tessera::app
