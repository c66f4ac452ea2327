#pragma once

#include <lua.hpp>

#include "tessera/core/option.h"
#include "tessera/run/execute.h"

/// Plans that run, as scripts see them. Nothing here loads the runtime before a run begins.
namespace tessera::run_lua {

/// What ts.execute says of how a plan is run; of these `tessera execute` takes its flags.
const OptionTable& execute_options();
/// Of `tessera stage`.
const OptionTable& stage_options();

/// What ts.execute runs, of three values from index `first` on: options of ts.language_model, those
/// of ts.execute, and what scripts made of plan and prompts.
run::ExecuteRequest read_execute_request(lua_State* L, int first);

/// How a model serves a traffic: of `real` of ts.serve what is not of ts.language_model.
const OptionTable& serve_real_options();
int server(lua_State* L);

/// Makes `require "tessera.run"` work. Needs the core's environment.
void register_run(lua_State* L);

}  // namespace tessera::run_lua
