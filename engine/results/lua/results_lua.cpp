#include "results_lua.h"

#include <fmt/format.h>

#include "core_lua.h"
#include "results_options.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/value.h"
#include "tessera/results/origin.h"
#include "tessera/results/store.h"

namespace tessera::results_lua {
namespace {

using lua_kit::guarded;
using lua_kit::Options;
using lua_kit::push_text;
using results::Origin;
using results::Row;
using results::Run;
using results::Store;

}  // namespace

/// The store that one Lua object stands for. Objects are read-only to scripts; the file is not.
struct StoreHandle {
  std::unique_ptr<Store> store;
};

namespace {

Store& self(lua_State* L) { return *lua_kit::check_object<StoreHandle>(L, 1, "store")->store; }

std::int64_t run_argument(lua_State* L, const char* name) {
  return lua_kit::check_integer(L, 2, name, 1, 9007199254740992.0);
}

// What workers print and errors carry may be any bytes; SQL and JSON want UTF-8.
std::string readable(std::string text) {
  if (is_utf8(text)) return text;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return text;
}

std::string any_text(const Options& options, const char* name) {
  lua_State* L = options.state();
  const lua_kit::StackGuard guard(L);
  if (!options.push(name)) return "";
  return readable(lua_kit::check_text(L, -1, options.path_of(name)));
}

std::string text_or_empty(const Options& options, const char* name) {
  return options.given(name) ? options.text(name) : "";
}

// An empty Lua table stands for `empty`.
Json json_of(const Options& options, const char* name, Json empty) {
  lua_State* L = options.state();
  const lua_kit::StackGuard guard(L);
  if (!options.push(name)) return empty;
  Json value = lua_kit::json_from_lua(L, -1, options.path_of(name));
  return value.empty() ? empty : value;
}

void read_origin(const Options& options, Origin& origin) {
  if (options.given("script_hash")) origin.script_hash = options.text("script_hash");
  if (options.given("git_commit")) origin.git_commit = options.text("git_commit");
  if (options.given("seed")) origin.seed = options.integer("seed");
  if (options.given("machine")) origin.machine = json_of(options, "machine", Json::object());
  if (options.given("build")) origin.build = json_of(options, "build", Json::object());
}

void set_text(lua_State* L, const char* field, const std::string& text) {
  push_text(L, text);
  lua_setfield(L, -2, field);
}

void set_json(lua_State* L, const char* field, const Json& value) {
  lua_kit::push_json(L, value);
  lua_setfield(L, -2, field);
}

void set_number(lua_State* L, const char* field, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, field);
}

void set_origin(lua_State* L, const Origin& origin) {
  set_text(L, "script_hash", origin.script_hash);
  set_text(L, "git_commit", origin.git_commit);
  set_number(L, "seed", static_cast<double>(origin.seed));
  set_json(L, "machine", origin.machine);
  set_json(L, "build", origin.build);
}

void push_run(lua_State* L, const Run& run) {
  lua_createtable(L, 0, 18);
  set_number(L, "id", static_cast<double>(run.id));
  set_text(L, "experiment", run.spec.experiment);
  set_text(L, "script_path", run.spec.script_path);
  set_origin(L, run.spec.origin);
  lua_pushboolean(L, run.spec.quick);
  lua_setfield(L, -2, "quick");
  set_text(L, "shard", run.spec.shard);
  set_json(L, "declaration", run.spec.declaration);
  set_number(L, "created_at", run.created_at);
  set_number(L, "changed_at", run.changed_at);
  set_number(L, "num_points", static_cast<double>(run.num_points));
  set_number(L, "num_failed", static_cast<double>(run.num_failed));
  set_json(L, "claims", run.claims);
}

// The point under `point`, what the script returned beside it.
void push_row(lua_State* L, const Row& row) {
  lua_kit::push_json(L, row.columns);
  set_json(L, "point", row.point);
  set_text(L, "status", row.status);
  if (row.error) set_text(L, "error", *row.error);
}

void push_meta(lua_State* L, const Row& row, const Origin& of_run) {
  lua_createtable(L, 0, 12);
  set_origin(L, row.origin ? *row.origin : of_run);
  set_number(L, "started_at", row.started_at);
  set_number(L, "duration_s", row.duration_s);
  set_json(L, "inputs", row.inputs);
  if (!row.provenance.empty()) set_text(L, "provenance", row.provenance);
  if (row.error_ratio) set_number(L, "error_ratio", *row.error_ratio);
  if (!row.traceback.empty()) set_text(L, "traceback", row.traceback);
  if (!row.log.empty()) set_text(L, "log", row.log);
}

int open(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "store.open path");
  const Options options(L, 2, open_options(), "store.open");
  auto handle = std::make_shared<StoreHandle>();
  handle->store = std::make_unique<Store>(
      path, results::OpenOptions{options.boolean("read_only"), options.boolean("create")});
  lua_kit::push_object<StoreHandle>(L, std::move(handle));
  return 1;
}

int start_run(lua_State* L) {
  const Options options(L, 2, start_run_options(), "store:start_run");
  results::RunSpec spec;
  spec.experiment = options.text("experiment");
  spec.script_path = text_or_empty(options, "script_path");
  spec.script_text = any_text(options, "script_text");
  read_origin(options, spec.origin);
  spec.quick = options.boolean("quick");
  spec.shard = text_or_empty(options, "shard");
  spec.declaration = json_of(options, "declaration", Json::object());
  lua_pushnumber(L, static_cast<double>(self(L).start_run(spec)));
  return 1;
}

int runs(lua_State* L) {
  const Options options(L, 2, runs_options(), "store:runs");
  const std::vector<Run> found = self(L).runs(
      options.given("experiment") ? std::optional(options.text("experiment")) : std::nullopt);
  lua_createtable(L, static_cast<int>(found.size()), 0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    push_run(L, found[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  return 1;
}

int run(lua_State* L) {
  const Run found = self(L).run(run_argument(L, "store:run id"));
  push_run(L, found);
  set_text(L, "script_text", found.spec.script_text);
  return 1;
}

std::vector<results::Artefact> artefacts_of(const Options& options) {
  std::vector<results::Artefact> artefacts;
  const std::string path = options.path_of("artefacts");
  for (const Json& item : json_of(options, "artefacts", Json::array())) {
    JsonFields fields(item, path);
    artefacts.push_back({fields.text("name"), fields.text("kind"), fields.at("value")});
    fields.finish();
  }
  return artefacts;
}

Row read_row(const Options& options, Store& store, std::int64_t run) {
  Row row;
  row.point = json_of(options, "point", Json::object());
  row.status = options.text("status");
  row.columns = json_of(options, "columns", Json::object());
  if (options.given("order")) row.order = options.integer("order");
  if (options.given("error")) row.error = any_text(options, "error");
  row.traceback = any_text(options, "traceback");
  row.log = any_text(options, "log");
  if (options.given("provenance")) row.provenance = options.choice("provenance");
  if (options.given("error_ratio")) row.error_ratio = options.number("error_ratio");
  row.started_at = options.number("started_at");
  row.duration_s = options.number("duration_s");
  row.inputs = json_of(options, "inputs", Json::array());
  row.artefacts = artefacts_of(options);
  for (const char* name : {"script_hash", "git_commit", "seed", "machine", "build"}) {
    if (!options.given(name)) continue;
    if (!row.origin) row.origin = store.origin(run);
  }
  if (row.origin) read_origin(options, *row.origin);
  return row;
}

int add(lua_State* L) {
  const std::int64_t run = run_argument(L, "store:add run");
  const Options options(L, 3, add_options(), "store:add");
  Store& store = self(L);
  store.add(run, read_row(options, store, run), options.boolean("replace"));
  return 0;
}

/// add_all(run, rows): all of them or none, which is faster than one by one.
int add_all(lua_State* L) {
  const std::int64_t run = run_argument(L, "store:add_all run");
  const int num_rows = lua_kit::check_list(L, 3, "store:add_all rows");
  Store& store = self(L);
  std::vector<Row> rows;
  for (int i = 1; i <= num_rows; ++i) {
    lua_rawgeti(L, 3, i);
    const Options options(L, lua_gettop(L), add_options(), "store:add_all");
    rows.push_back(read_row(options, store, run));
    lua_pop(L, 1);
  }
  store.add_all(run, rows);
  return 0;
}

/// Two tables by key: the status, and true where the point failed.
int keys(lua_State* L) {
  const auto found = self(L).keys(run_argument(L, "store:keys run"));
  lua_createtable(L, 0, static_cast<int>(found.size()));
  lua_newtable(L);
  for (const results::StoredKey& item : found) {
    push_text(L, item.key);
    push_text(L, item.status);
    lua_rawset(L, -4);
    if (!item.failed) continue;
    push_text(L, item.key);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
  }
  return 2;
}

int rows(lua_State* L) {
  const std::int64_t run = run_argument(L, "store:rows run");
  const bool with_meta = Options(L, 3, rows_options(), "store:rows").boolean("meta");
  Store& store = self(L);
  const Origin of_run = store.origin(run);
  lua_newtable(L);
  int count = 0;
  store.each_row(run, [&](const Row& row) {
    push_row(L, row);
    if (with_meta) {
      push_meta(L, row, of_run);
      lua_setfield(L, -2, "meta");
    }
    lua_rawseti(L, -2, ++count);
  });
  return 1;
}

int artefacts(lua_State* L) {
  const std::string key = lua_kit::check_text(L, 3, "store:artefacts key");
  const auto found = self(L).artefacts(run_argument(L, "store:artefacts run"), key);
  lua_createtable(L, static_cast<int>(found.size()), 0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    lua_createtable(L, 0, 3);
    set_text(L, "name", found[i].name);
    set_text(L, "kind", found[i].kind);
    set_json(L, "value", found[i].value);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  return 1;
}

int set_claims(lua_State* L) {
  const std::int64_t run = run_argument(L, "store:set_claims run");
  self(L).set_claims(run, lua_kit::json_from_lua(L, 3, "store:set_claims claims"));
  return 0;
}

int merge(lua_State* L) {
  std::vector<std::string> paths;
  const int num_paths = lua_kit::check_list(L, 2, "store:merge paths");
  for (int i = 1; i <= num_paths; ++i) {
    lua_rawgeti(L, 2, i);
    paths.push_back(lua_kit::check_text(L, -1, fmt::format("store:merge paths[{}]", i)));
    lua_pop(L, 1);
  }
  const Options options(L, 3, merge_options(), "store:merge");
  auto prefer = results::Prefer::neither;
  if (options.given("prefer")) {
    prefer = options.choice("prefer") == "first" ? results::Prefer::first : results::Prefer::last;
  }
  const results::MergeReport report = self(L).merge(paths, prefer);
  lua_createtable(L, 0, 5);
  set_number(L, "num_runs", static_cast<double>(report.num_runs));
  set_number(L, "num_rows", static_cast<double>(report.num_rows));
  set_number(L, "num_replaced", static_cast<double>(report.num_replaced));
  set_number(L, "num_duplicates", static_cast<double>(report.num_duplicates));
  lua_newtable(L);
  int count = 0;
  for (const results::Contradiction& item : report.contradictions) {
    lua_createtable(L, 0, 3);
    set_text(L, "experiment", item.experiment);
    set_text(L, "key", item.key);
    set_text(L, "where", item.where);
    lua_rawseti(L, -2, ++count);
  }
  lua_setfield(L, -2, "contradictions");
  return 1;
}

int close(lua_State* L) {
  self(L).close();
  return 0;
}

/// key(value): canonical JSON; that of a point is its name within a run.
int key(lua_State* L) {
  push_text(L, results::canonical_json(lua_kit::json_from_lua(L, 1, "store.key value")));
  return 1;
}

// A row as people expect to read it: what it is about first, what it came from last.
Json ordered_row(const Json& row) {
  Json result = Json::object();
  const auto move = [&](const char* name) {
    if (row.contains(name)) result[name] = row[name];
  };
  for (const char* name : {"point", "status", "error"}) move(name);
  for (const auto& [name, value] : row.items()) {
    if (name != "meta" && !result.contains(name)) result[name] = value;
  }
  move("meta");
  if (result.contains("point") && result["point"].empty()) result["point"] = Json::object();
  return result;
}

/// json(value): as people read it; a list of rows is an array of objects.
int json(lua_State* L) {
  Json value = lua_kit::json_from_lua(L, 1, "store.json value");
  if (value.is_array()) {
    for (Json& row : value) {
      if (row.is_object()) row = ordered_row(row);
    }
  }
  push_text(L, json_text(value, 2) + "\n");
  return 1;
}

int sha256(lua_State* L) {
  push_text(L, results::sha256(lua_kit::check_text(L, 1, "store.sha256 text")));
  return 1;
}

int machine(lua_State* L) {
  lua_kit::push_json(L, results::machine_facts());
  return 1;
}

int git_commit(lua_State* L) {
  push_text(L, results::git_commit(lua_kit::check_text(L, 1, "store.git_commit path")));
  return 1;
}

}  // namespace
}  // namespace tessera::results_lua

namespace tessera {

using results_lua::StoreHandle;

template <>
const lua_kit::ObjectType<StoreHandle>& lua_kit::object_type<StoreHandle>() {
  static const ObjectType<StoreHandle> type{
      .name = "tessera.ResultStore",
      .doc = "An open file of results.",
      .fields = {{"path", "string", "The file",
                  [](lua_State* L, const StoreHandle& h) { push_text(L, h.store->path()); }},
                 {"is_open", "boolean", "Until it is closed",
                  [](lua_State* L, const StoreHandle& h) {
                    lua_pushboolean(L, h.store->is_open());
                  }}},
      .methods =
          {{"start_run", guarded<results_lua::start_run>, "(options: table): integer",
            "Begins a run and gives its id; see ResultStore:start_run"},
           {"runs", guarded<results_lua::runs>, "(options?: table): table[]",
            "Runs, oldest first; see ResultStore:runs"},
           {"run", guarded<results_lua::run>, "(id: integer): table", "One run, with script_text"},
           {"add", guarded<results_lua::add>, "(run: integer, row: table)",
            "Stores one row for good; see ResultStore:add"},
           {"add_all", guarded<results_lua::add_all>, "(run: integer, rows: table[])",
            "Stores many rows, all or none; see ResultStore:add"},
           {"keys", guarded<results_lua::keys>,
            "(run: integer): table<string, string>, table<string, boolean>",
            "The status of each stored point by its key; the keys of those that failed"},
           {"rows", guarded<results_lua::rows>, "(run: integer, options?: table): table[]",
            "Rows in order: point, status, the columns, error; see ResultStore:rows"},
           {"artefacts", guarded<results_lua::artefacts>, "(run: integer, key: string): table[]",
            "Plans, timelines and pictures of one row: name, kind, value"},
           {"set_claims", guarded<results_lua::set_claims>, "(run: integer, claims: table[])",
            "Replaces what was checked of a run"},
           {"merge", guarded<results_lua::merge>, "(paths: string[], options?: table): table",
            "Copies the runs of other files in; see ResultStore:merge"},
           {"close", guarded<results_lua::close>, "()", "Closes the file"}},
      .summary = [](const StoreHandle& h) {
        return fmt::format("results in {}{}", h.store->path(),
                           h.store->is_open() ? "" : " (closed)");
      }};
  return type;
}

namespace results_lua {

void register_results(lua_State* L) {
  lua_kit::register_object<StoreHandle>(L);
  lua_kit::Reference& reference = core_lua::environment(L).reference;
  reference.add_object<StoreHandle>();
  for (const auto& table :
       {open_options, start_run_options, add_options, runs_options, rows_options, merge_options}) {
    reference.add(table());
  }
  lua_kit::register_module(L, "tessera.store",
                           {{"open", guarded<open>},
                            {"key", guarded<key>},
                            {"json", guarded<json>},
                            {"sha256", guarded<sha256>},
                            {"machine", guarded<machine>},
                            {"git_commit", guarded<git_commit>}});
}

}  // namespace results_lua
}  // namespace tessera
