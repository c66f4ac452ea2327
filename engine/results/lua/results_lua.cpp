#include "results_lua.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "core_lua.h"
#include "results_options.h"
#include "results_values.h"
#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
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
  return lua_kit::check_integer(L, 2, name, 1, kMaxExactInteger);
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

// Whether its folder is one, or may become one.
bool has_room_for(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  return folder.empty() || !std::filesystem::exists(folder, ignored) ||
         std::filesystem::is_directory(folder, ignored);
}

int open(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "store.open path");
  const Options options(L, 2, open_options(), "store.open");
  auto handle = std::make_shared<StoreHandle>();
  results::OpenOptions how;
  lua_kit::read_options(options, how);
  // What is written stays in one piece: a sweep stores what has ended after Ctrl-C too.
  if (how.read_only) how.interrupted = [] { return lua_kit::interrupt::flag()->load(); };
  try {
    handle->store = std::make_unique<Store>(path, how);
  } catch (const Error& error) {
    const bool nothing_there = error.code() == ErrorCode::not_found && has_room_for(path);
    if (!nothing_there || !options.boolean("optional")) throw;
    lua_pushnil(L);
    return 1;
  }
  lua_kit::push_object<StoreHandle>(L, std::move(handle));
  return 1;
}

int start_run(lua_State* L) {
  const Options options(L, 2, start_run_options(), "store:start_run");
  results::RunSpec spec;
  lua_kit::read_options(options, spec);
  lua_kit::read_options(options, spec.origin);
  spec.script_text = any_text(options, "script_text");
  lua_pushnumber(L, static_cast<double>(self(L).start_run(spec)));
  return 1;
}

int runs(lua_State* L) {
  const Options options(L, 2, runs_options(), "store:runs");
  std::optional<std::string> experiment;
  if (options.given("experiment")) experiment = options.text("experiment");
  const std::vector<Run> found = self(L).runs(experiment);
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
  lua_kit::set_text(L, "script_text", found.spec.script_text);
  return 1;
}

Row read_row(const Options& options, Store& store, std::int64_t run) {
  Row row;
  lua_kit::read_options(options, row);
  if (options.given("error")) row.error = any_text(options, "error");
  row.traceback = any_text(options, "traceback");
  row.log = any_text(options, "log");
  for (const Json& item : options.json("artefacts", Json::array()))
    row.artefacts.push_back(from_json<results::Artefact>(item, options.path_of("artefacts")));
  for_each_field<Origin>([&](const auto& field) {
    if (!row.origin && options.given(field.spec.name)) row.origin = store.origin(run);
  });
  if (row.origin) lua_kit::read_options(options, *row.origin);
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
  Store& store = self(L);
  std::vector<Row> rows;
  lua_kit::for_each_item(L, 3, "store:add_all rows", [&](std::size_t, const std::string& path) {
    rows.push_back(read_row(Options(L, lua_gettop(L), add_options(), path), store, run));
  });
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

// Calls the function that an option holds, if any, a few times a second with a number.
class Progress {
 public:
  explicit Progress(std::optional<lua_kit::LuaFunction> function)
      : function_(std::move(function)) {}
  Progress(const Options& options, const char* name) {
    const lua_kit::StackGuard guard(options.state());
    if (!options.push(name)) return;
    function_.emplace(options.state(), -1, options.path_of(name));
  }
  void note(double number) {
    if (!function_ || Clock::now() - last_ < std::chrono::milliseconds(100)) return;
    last_ = Clock::now();
    lua_pushnumber(function_->state(), number);
    function_->call(1, 0);
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<lua_kit::LuaFunction> function_;
  Clock::time_point last_ = Clock::now();
};

int rows(lua_State* L) {
  const std::int64_t run = run_argument(L, "store:rows run");
  const Options options(L, 3, rows_options(), "store:rows");
  results::RowChoice choice;
  choice.failed = options.boolean("failed");
  choice.meta = options.boolean("meta");
  if (options.given("limit")) choice.limit = options.integer("limit");
  Progress progress(options, "progress");
  Store& store = self(L);
  const Origin of_run = store.origin(run);
  lua_kit::push_json(L, of_run.machine);
  lua_kit::push_json(L, of_run.build);
  const int machine = lua_gettop(L) - 1;
  lua_newtable(L);
  int count = 0;
  const auto push = [&](const Row& row) {
    push_row(L, row);
    if (choice.meta) {
      push_meta(L, row, of_run, machine);
      lua_setfield(L, -2, "meta");
    }
    lua_rawseti(L, -2, ++count);
    if (count % 1000 == 0) progress.note(count);
  };
  store.each_row(run, push, choice);
  return 1;
}

int artefacts(lua_State* L) {
  const std::string key = lua_kit::check_text(L, 3, "store:artefacts key");
  lua_kit::push_value(L, self(L).artefacts(run_argument(L, "store:artefacts run"), key));
  return 1;
}

int set_claims(lua_State* L) {
  const std::int64_t run = run_argument(L, "store:set_claims run");
  self(L).set_claims(run, lua_kit::json_from_lua(L, 3, "store:set_claims claims"));
  return 0;
}

int merge(lua_State* L) {
  std::vector<std::string> paths;
  lua_kit::for_each_item(L, 2, "store:merge paths", [&](std::size_t, const std::string& path) {
    paths.push_back(lua_kit::check_text(L, -1, path));
  });
  const Options options(L, 3, merge_options(), "store:merge");
  auto prefer = results::Prefer::neither;
  if (options.given("prefer")) lua_kit::read_option(options, "prefer", prefer);
  Progress progress(options, "progress");
  const results::MergeReport report = self(L).merge(paths, prefer, [&](double share) {
    if (*lua_kit::interrupt::flag()) throw Error(ErrorCode::interrupted, "interrupted by Ctrl-C");
    progress.note(share);
  });
  lua_kit::push_value(L, report);
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

/// file_sha256(path, progress?): progress(bytes done) is called ten times a second at most.
int file_sha256(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "store.file_sha256 path");
  std::optional<lua_kit::LuaFunction> told;
  if (!lua_isnoneornil(L, 2)) told.emplace(L, 2, "store.file_sha256 progress");
  Progress progress(std::move(told));
  push_text(L, results::file_sha256(path, [&progress](std::uint64_t done) {
              if (*lua_kit::interrupt::flag()) throw Error(ErrorCode::interrupted, "interrupted");
              progress.note(static_cast<double>(done));
            }));
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
                            {"file_sha256", guarded<file_sha256>},
                            {"machine", guarded<machine>},
                            {"git_commit", guarded<git_commit>}});
}

}  // namespace results_lua
}  // namespace tessera
