#include "core_lua.h"

#include <chrono>

#include "tessera/core/arithmetic.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/text.h"
#include "tessera/core/text_file.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::core_lua {
namespace {

const char kEnvironmentKey = 0;

std::vector<std::string> names_of(lua_State* L, const std::string& kind) {
  if (kind == "families") return known_model_families();
  if (kind != "families_that_run") return environment(L).folders.list(kind);
  const auto running = families_with_arithmetic();
  return {running.begin(), running.end()};
}

/// names(kind): what can be asked for by name ("models", "families", "families_that_run",
/// "devices", "clusters", "workloads", "kernel_sets").
int names(lua_State* L) {
  lua_kit::push_texts(L, names_of(L, lua_kit::check_text(L, 1, "kind")));
  return 1;
}

/// data_file(kind, name): the path of the file behind a name, as everything else finds it.
int data_file(lua_State* L) {
  lua_kit::push_text(L, environment(L).folders.require(lua_kit::check_text(L, 1, "kind"),
                                                       lua_kit::check_text(L, 2, "name")));
  return 1;
}

/// did_you_mean(word, candidates): the tail of an error message. Candidates may be a list that is
/// also a set: { "a", a = true }.
int suggestion(lua_State* L) {
  const std::string word = lua_kit::check_text(L, 1, "word");
  std::vector<std::string> candidates;
  lua_kit::check_table(L, 2, "candidates", "a list of words");
  const std::size_t length = lua_kit::border(L, 2);
  for (std::size_t i = 1; i <= length; ++i) {
    lua_kit::push_item(L, 2, i, "candidates");
    candidates.push_back(lua_kit::check_text(L, -1, lua_kit::item_path("candidates", i)));
    lua_pop(L, 1);
  }
  lua_kit::push_text(L, did_you_mean(word, candidates));
  return 1;
}

/// options_of(table): what "ts.plan" or another option table takes: { name, type, doc, default, ...
/// } each. So no script has to list them again.
int options_of(lua_State* L) {
  const std::string table = lua_kit::check_text(L, 1, "table");
  lua_kit::push_json(L, environment(L).reference.options_of(table));
  return 1;
}

/// raise(code, message, where): an error object of the engine's kind, from Lua code of the library.
int raise_error(lua_State* L) {
  const std::string code = lua_kit::check_text(L, 1, "code");
  const std::string message = lua_kit::check_text(L, 2, "message");
  lua_kit::push_error(L, code, message,
                      lua_isnoneornil(L, 3) ? "" : lua_kit::check_text(L, 3, "where"));
  return lua_error(L);
}

/// refuse(path, what): raises invalid_argument with the message "path: what".
int refuse_argument(lua_State* L) {
  refuse(lua_kit::check_text(L, 1, "path"), lua_kit::check_text(L, 2, "what"));
}

/// why(code, message, constraint): the second result of functions that return `nil, why`.
int new_why(lua_State* L) {
  lua_settop(L, 3);
  lua_kit::push_error(L, lua_kit::check_text(L, 1, "code"), lua_kit::check_text(L, 2, "message"));
  if (!lua_isnoneornil(L, 3)) {
    lua_pushvalue(L, 3);
    lua_setfield(L, -2, "constraint");
  }
  return 1;
}

/// check_plain(value, path, what): refuses what is no table with fields of its own; `what` it is in
/// words, "a list of rows".
int check_plain(lua_State* L) {
  lua_kit::check_plain(L, 1, lua_kit::check_text(L, 2, "path"), lua_kit::check_text(L, 3, "what"));
  return 0;
}

/// format_seconds(s), format_bytes(bytes): for people.
template <std::string (*Format)(double)>
int formatted(lua_State* L) {
  lua_kit::push_text(L, Format(lua_kit::any_number(L, 1, "number")));
  return 1;
}

/// error_text(value): what an error value says, whatever it is; its own __tostring may fail.
int error_text(lua_State* L) {
  lua_settop(L, 1);
  lua_kit::push_text(L, lua_kit::read_error(L, 1).message);
  return 1;
}

/// write_file(path, text): all of it or nothing.
int write_text(lua_State* L) {
  write_file(lua_kit::check_text(L, 1, "path"), lua_kit::check_text(L, 2, "text"));
  return 0;
}

/// read_file(path): its whole text.
int read_text(lua_State* L) {
  lua_kit::push_text(L, read_file(lua_kit::check_text(L, 1, "path")));
  return 1;
}

/// read_text(path): the same as UTF-8, whatever its byte order mark; raises for what is compressed.
int read_decoded(lua_State* L) {
  lua_kit::push_text(L, read_text_file(lua_kit::check_text(L, 1, "path")));
  return 1;
}

/// file_kind(path): "file", "folder", "pipe", "socket" or "device"; nil where nothing is that may
/// be read. Opens nothing, so a pipe is not waited for.
int kind_of_file(lua_State* L) {
  static constexpr const char* kNames[] = {nullptr, "file", "folder", "pipe", "socket", "device"};
  const FileKind kind = file_kind(lua_kit::check_text(L, 1, "path"));
  if (kind == FileKind::none) return 0;
  lua_kit::push_text(L, kNames[static_cast<int>(kind)]);
  return 1;
}

/// start_read_log(), take_read_log(): which data files are read, see files.h.
int start_log(lua_State*) {
  start_read_log();
  return 0;
}

int take_log(lua_State* L) {
  lua_kit::push_texts(L, take_read_log());
  return 1;
}

/// to_json(value, path): one line of JSON; `path` is named in errors.
int to_json(lua_State* L) {
  const std::string path = lua_isnoneornil(L, 2) ? "value" : lua_kit::check_text(L, 2, "path");
  lua_kit::push_text(L, json_text(lua_kit::json_from_lua(L, 1, path)));
  return 1;
}

/// from_json(text): the value.
int from_json(lua_State* L) {
  lua_kit::push_json(L, parse_json(lua_kit::check_text(L, 1, "text"), "JSON text"));
  return 1;
}

/// clock(): seconds since some moment, by the wall; os.clock() counts every thread's work.
int wall_clock(lua_State* L) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  lua_pushnumber(L, std::chrono::duration<double>(now).count());
  return 1;
}

int help_text(lua_State* L) {
  const auto text = environment(L).reference.help(lua_kit::check_text(L, 1, "topic"));
  if (!text) return 0;
  lua_kit::push_text(L, *text);
  return 1;
}

}  // namespace

void set_environment(lua_State* L, Environment* environment) {
  lua_kit::set_registry_pointer(L, &kEnvironmentKey, environment);
}

Environment& environment(lua_State* L) {
  auto* found = static_cast<Environment*>(lua_kit::registry_pointer(L, &kEnvironmentKey));
  if (found == nullptr) throw Error(ErrorCode::internal, "this Lua state has no environment");
  return *found;
}

void register_core(lua_State* L) {
  register_model(L);
  register_device(L);
  register_cluster(L);
  register_workload(L);
  lua_kit::register_module(L, "tessera.core",
                           {{"model", lua_kit::guarded<new_model>},
                            {"model_id", lua_kit::guarded<model_id>},
                            {"stored_format", lua_kit::guarded<stored_format>},
                            {"device", lua_kit::guarded<new_device>},
                            {"device_meant", lua_kit::guarded<device_meant>},
                            {"devices_called", lua_kit::guarded<devices_called>},
                            {"short_driver_name", lua_kit::guarded<short_name>},
                            {"cluster", lua_kit::guarded<new_cluster>},
                            {"cluster_from_json", lua_kit::guarded<cluster_of_text>},
                            {"workload", lua_kit::guarded<new_workload>},
                            {"names", lua_kit::guarded<names>},
                            {"data_file", lua_kit::guarded<data_file>},
                            {"did_you_mean", lua_kit::guarded<suggestion>},
                            {"options_of", lua_kit::guarded<options_of>},
                            {"raise", lua_kit::guarded<raise_error>},
                            {"refuse", lua_kit::guarded<refuse_argument>},
                            {"why", lua_kit::guarded<new_why>},
                            {"error_text", lua_kit::guarded<error_text>},
                            {"format_seconds", lua_kit::guarded<formatted<format_seconds>>},
                            {"format_bytes", lua_kit::guarded<formatted<format_bytes>>},
                            {"write_file", lua_kit::guarded<write_text>},
                            {"write_folder", lua_kit::guarded<write_folder>},
                            {"folder_files", lua_kit::guarded<folder_files>},
                            {"read_file", lua_kit::guarded<read_text>},
                            {"read_text", lua_kit::guarded<read_decoded>},
                            {"file_kind", lua_kit::guarded<kind_of_file>},
                            {"start_read_log", lua_kit::guarded<start_log>},
                            {"take_read_log", lua_kit::guarded<take_log>},
                            {"to_json", lua_kit::guarded<to_json>},
                            {"from_json", lua_kit::guarded<from_json>},
                            {"clock", lua_kit::guarded<wall_clock>},
                            {"document", lua_kit::guarded<document>},
                            {"document_object", lua_kit::guarded<document_object>},
                            {"option_reader", lua_kit::guarded<option_reader>},
                            {"check_plain", lua_kit::guarded<check_plain>},
                            {"help", lua_kit::guarded<help_text>}});
}

}  // namespace tessera::core_lua
