#include "results_values.h"

#include "tessera/lua_kit/record.h"

namespace tessera::results_lua {

using lua_kit::set_fields;
using lua_kit::set_json;
using lua_kit::set_number;
using lua_kit::set_text;
using results::Origin;
using results::Row;
using results::Run;

void push_run(lua_State* L, const Run& run) {
  lua_createtable(L, 0, 18);
  set_fields(L, run);
  set_fields(L, run.spec);
  set_fields(L, run.spec.origin);
}

void push_row(lua_State* L, const Row& row) {
  lua_kit::push_json(L, row.columns);
  set_json(L, "point", row.point);
  set_text(L, "status", row.status);
  if (row.error) set_text(L, "error", *row.error);
}

void push_meta(lua_State* L, const Row& row, const Origin& of_run, int machine) {
  lua_createtable(L, 0, 12);
  if (row.origin) {
    set_fields(L, *row.origin);
  } else {
    set_text(L, "script_hash", of_run.script_hash);
    set_text(L, "git_commit", of_run.git_commit);
    lua_kit::set_integer(L, "seed", of_run.seed);
    lua_pushvalue(L, machine);
    lua_setfield(L, -2, "machine");
    lua_pushvalue(L, machine + 1);
    lua_setfield(L, -2, "build");
  }
  set_number(L, "started_at", row.started_at);
  set_number(L, "duration_s", row.duration_s);
  set_json(L, "inputs", row.inputs);
  lua_kit::set_optional(L, "error_ratio", row.error_ratio);
  if (!row.provenance.empty()) set_text(L, "provenance", row.provenance);
  if (!row.traceback.empty()) set_text(L, "traceback", row.traceback);
  if (!row.log.empty()) set_text(L, "log", row.log);
}

}  // namespace tessera::results_lua
