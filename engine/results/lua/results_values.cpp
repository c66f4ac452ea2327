#include "results_values.h"

#include "tessera/lua_kit/value.h"

namespace tessera::results_lua {

using lua_kit::set_json;
using lua_kit::set_number;
using lua_kit::set_text;
using results::Origin;
using results::Row;
using results::Run;

namespace {

void set_short_origin(lua_State* L, const Origin& origin) {
  set_text(L, "script_hash", origin.script_hash);
  set_text(L, "git_commit", origin.git_commit);
  set_number(L, "seed", static_cast<double>(origin.seed));
}

void set_origin(lua_State* L, const Origin& origin) {
  set_short_origin(L, origin);
  set_json(L, "machine", origin.machine);
  set_json(L, "build", origin.build);
}

}  // namespace

void push_run(lua_State* L, const Run& run) {
  lua_createtable(L, 0, 18);
  set_number(L, "id", static_cast<double>(run.id));
  set_text(L, "experiment", run.spec.experiment);
  set_text(L, "script_path", run.spec.script_path);
  set_origin(L, run.spec.origin);
  lua_kit::set_boolean(L, "quick", run.spec.quick);
  set_text(L, "shard", run.spec.shard);
  set_json(L, "declaration", run.spec.declaration);
  set_number(L, "created_at", run.created_at);
  set_number(L, "changed_at", run.changed_at);
  set_number(L, "num_points", static_cast<double>(run.num_points));
  set_number(L, "num_failed", static_cast<double>(run.num_failed));
  set_json(L, "claims", run.claims);
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
    set_origin(L, *row.origin);
  } else {
    set_short_origin(L, of_run);
    lua_pushvalue(L, machine);
    lua_setfield(L, -2, "machine");
    lua_pushvalue(L, machine + 1);
    lua_setfield(L, -2, "build");
  }
  set_number(L, "started_at", row.started_at);
  set_number(L, "duration_s", row.duration_s);
  set_json(L, "inputs", row.inputs);
  if (!row.provenance.empty()) set_text(L, "provenance", row.provenance);
  if (row.error_ratio) set_number(L, "error_ratio", *row.error_ratio);
  if (!row.traceback.empty()) set_text(L, "traceback", row.traceback);
  if (!row.log.empty()) set_text(L, "log", row.log);
}

}  // namespace tessera::results_lua
