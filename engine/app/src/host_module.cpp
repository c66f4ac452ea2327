#include "host_module.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "drawings.h"
#include "file_lock.h"
#include "list.h"
#include "loads.h"
#include "nvml.h"
#include "run_program.h"
#include "sandbox/lent.h"
#include "script.h"
#include "strict.h"
#include "terminal.h"
#include "tessera/core/access.h"
#include "tessera/core/colour.h"
#include "tessera/core/error.h"
#include "tessera/core/layout.h"
#include "tessera/core/terminal_text.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/interrupt.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "verbs.h"
#include "version.h"

namespace tessera::app {
namespace {

using lua_kit::guarded;

// Replaces the value on top by the text that `print` shows: the full one of an object.
void full_text(lua_State* L) {
  for (const char* event : {"__full", "__tostring"}) {
    if (!luaL_getmetafield(L, -1, event)) continue;
    lua_insert(L, -2);
    if (lua_kit::protected_call(L, 1, 1) != 0) lua_kit::throw_script_error(L);
    if (lua_type(L, -1) != LUA_TSTRING) {
      throw Error(ErrorCode::script, "'__tostring' must return a string to 'print'");
    }
    return;
  }
  switch (lua_type(L, -1)) {
    case LUA_TNIL:
      lua_pushliteral(L, "nil");
      break;
    case LUA_TBOOLEAN:
      lua_kit::push_text(L, lua_toboolean(L, -1) ? "true" : "false");
      break;
    case LUA_TNUMBER:
    case LUA_TSTRING:
      lua_kit::push_text(L, lua_kit::text_of_scalar(L, -1));
      break;
    default:
      lua_pushfstring(L, "%s: %p", luaL_typename(L, -1), lua_topointer(L, -1));
  }
  lua_remove(L, -2);
}

void check_written(bool written, std::FILE* stream) {
  if (written && std::ferror(stream) == 0) return;
  throw Error(ErrorCode::io, std::string("cannot write to stdout: ") + std::strerror(errno));
}

// With --json stdout belongs to the data, and what a script says goes to stderr.
int print(lua_State* L) {
  std::FILE* stream = Host::of(L).settings().json ? stderr : stdout;
  const Terminal facts = terminal_facts(::fileno(stream));
  const ColourScope colours(facts.colour);
  const WidthScope width(facts.width());
  const int num_arguments = lua_gettop(L);
  std::string line;
  for (int i = 1; i <= num_arguments; ++i) {
    lua_settop(L, num_arguments);
    lua_pushvalue(L, i);
    full_text(L);
    if (i > 1) line += '\t';
    const std::string text = lua_kit::check_text(L, -1, "print");
    line += lua_isuserdata(L, i) ? wrapped(text, facts.width()) : text;  // an object's own words
  }
  line += '\n';
  check_written(write_styled(stream, facts.utf8 ? line : ascii_drawings(line)), stream);
  return 0;
}

std::FILE* stream_argument(lua_State* L) {
  return lua_kit::check_text(L, 1, "tessera.host.write.stream") == "stdout" ? stdout : stderr;
}

/// write("stdout" | "stderr", text): what the library writes.
int write(lua_State* L) {
  std::FILE* stream = stream_argument(L);
  const std::string text = lua_kit::check_text(L, 2, "tessera.host.write.text");
  check_written(write_text(stream, text), stream);
  return 0;
}

/// write_styled(stream, text): the same for text that may be coloured.
int write_with_styles(lua_State* L) {
  std::FILE* stream = stream_argument(L);
  const std::string text = lua_kit::check_text(L, 2, "tessera.host.write_styled.text");
  const bool utf8 = terminal_facts(::fileno(stream)).utf8;
  check_written(write_styled(stream, utf8 ? text : ascii_drawings(text)), stream);
  return 0;
}

/// paragraph(text, indent, name): its words in lines of help, beside a name or without one; the
/// last line is not ended.
int indent_text(lua_State* L) {
  constexpr double kMostIndent = 60;
  const std::string text = lua_kit::check_text(L, 1, "tessera.host.paragraph.text");
  const auto indent = static_cast<std::size_t>(
      lua_kit::check_integer(L, 2, "tessera.host.paragraph.indent", 0, kMostIndent));
  std::string lines = lua_isnoneornil(L, 3)
                          ? paragraph(text, indent, kHelpColumns)
                          : entry(lua_kit::check_text(L, 3, "tessera.host.paragraph.name"), text,
                                  indent, kHelpColumns);
  if (!lines.empty()) lines.pop_back();
  lua_kit::push_text(L, lines);
  return 1;
}

/// wrapped(stream, text): lines too long for the stream broken at spaces; as it is where the width
/// is not known.
int wrap_text(lua_State* L) {
  const Terminal facts = terminal_facts(::fileno(stream_argument(L)));
  lua_kit::push_text(
      L, wrapped(lua_kit::check_text(L, 2, "tessera.host.wrapped.text"), facts.width()));
  return 1;
}

/// erase_line(stream): takes the line away that the cursor is in.
int erase(lua_State* L) {
  std::FILE* stream = stream_argument(L);
  check_written(erase_line(stream), stream);
  return 0;
}

/// without_exit(f, ...): calls f; os.exit raises an error meanwhile.
int without_exit(lua_State* L) {
  luaL_checkstack(L, 1, "call");
  const ExitForbidden forbidden(Host::of(L));
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/// stop(message): an error that ends the run as Ctrl-C does: somebody at the terminal said so.
int stop(lua_State* L) {
  Host::of(L).set_stopped();
  throw Error(ErrorCode::interrupted, lua_kit::check_text(L, 1, "tessera.host.stop.message"),
              "tessera run");
}

// Like the end of the script, without its finalizers.
int exit_process(lua_State* L) {
  int status = kDone;
  if (lua_isboolean(L, 1)) {
    status = lua_toboolean(L, 1) ? kDone : kFailed;
  } else if (!lua_isnoneornil(L, 1)) {
    status = static_cast<int>(lua_kit::check_integer(L, 1, "os.exit.code", 0, 255));
  }
  Host& host = Host::of(L);
  if (!host.may_exit()) {
    refuse("os.exit",
           "it would end the whole sweep; return a row with a status, or raise an error");
  }
  std::exit(host.print_result(static_cast<ExitStatus>(status)));
}

int set_incumbent(lua_State* L) {
  lua_kit::interrupt::set_incumbent_text(lua_kit::check_text(L, 1, "tessera.host.set_incumbent"));
  return 0;
}

int strict(lua_State* L) {
  set_strict(L, LUA_GLOBALSINDEX, lua_kit::check_boolean(L, 1, "tessera.host.strict"));
  return 0;
}

int limit_memory(lua_State* L) {
  Host::of(L).limit_memory(
      lua_kit::check_number(L, 1, "tessera.host.limit_memory", 1 << 20, 1e15, "bytes"));
  return 0;
}

int help(lua_State* L) {
  const auto text =
      Host::of(L).reference().help(lua_kit::check_text(L, 1, "tessera.host.help.topic"));
  if (!text.has_value()) return 0;
  lua_kit::push_text(L, *text);
  return 1;
}

int help_topics(lua_State* L) {
  lua_kit::push_texts(L, Host::of(L).reference().topics());
  return 1;
}

int luacats(lua_State* L) {
  lua_kit::push_text(L, Host::of(L).reference().luacats());
  return 1;
}

int cards(lua_State* L) {
  lua_kit::push_json(L, Host::of(L).reference().cards());
  return 1;
}

/// limited(limit_s, who, f, ...): true and what f returns, or false when it had to be stopped at
/// its time limit. Its errors pass through.
int limited(lua_State* L) {
  const double limit_s = lua_kit::check_number(L, 1, "tessera.host.limited.limit_s", 0, 1e9, "s");
  const std::string who = lua_kit::check_text(L, 2, "tessera.host.limited.who");
  int status = 0;
  {
    const lua_kit::interrupt::TimeLimit limit(L, limit_s, who);
    status = lua_kit::protected_call(L, lua_gettop(L) - 3, LUA_MULTRET);
  }
  if (status == 0) {
    lua_pushboolean(L, 1);
    lua_replace(L, 2);
    return lua_gettop(L) - 1;
  }
  if (lua_kit::read_error(L, -1).code != lua_kit::interrupt::kTimeLimitCode) {
    lua_kit::throw_script_error(L);
  }
  lua_pushboolean(L, 0);
  return 1;
}

/// load_script(path): the script as a function, and the path where it was found.
int load_script_file(lua_State* L) {
  load_script(L, lua_kit::check_text(L, 1, "tessera.host.load_script.path"));
  lua_kit::push_text(L, loaded_files(L).back());
  return 2;
}

/// loaded_files(): paths of the script that was run last and of the Lua files that it has loaded,
/// those of the library left out.
int script_files(lua_State* L) {
  lua_kit::push_texts(L, loaded_files(L));
  return 1;
}

/// forget_loaded_files(): loaded_files() starts anew.
int forget_files(lua_State* L) {
  start_loads(L);
  return 0;
}

/// poll_interrupts(on): whether Ctrl-C only sets `interrupted()`, instead of raising an error.
int poll_interrupts(lua_State* L) {
  const bool on = lua_kit::check_boolean(L, 1, "tessera.host.poll_interrupts");
  Host::of(L).watchdog().set_policy(on ? lua_kit::interrupt::Policy::polled
                                       : lua_kit::interrupt::Policy::after_grace);
  return 0;
}

int interrupted(lua_State* L) {
  lua_pushboolean(L, *lua_kit::interrupt::flag());
  return 1;
}

/// make_folder(path): with those above it.
int make_folder(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "tessera.host.make_folder.path");
  check_may_write(path);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    throw Error(ErrorCode::io, "cannot make the folder " + path + ": " + error.message(), path);
  }
  return 0;
}

/// user_folders(): those of TESSERA_PATH.
int list_user_folders(lua_State* L) {
  lua_kit::push_texts(L, user_folders());
  return 1;
}

/// user_scripts(kind): the Lua files in `kind` of every folder of TESSERA_PATH.
int user_scripts(lua_State* L) {
  const std::string kind = lua_kit::check_text(L, 1, "tessera.host.user_scripts.kind");
  std::vector<std::string> paths;
  for (const std::string& folder : user_folders()) {
    for (const Listed& script : list_scripts(folder + "/" + kind, true)) {
      paths.push_back(script.path);
    }
  }
  lua_kit::push_texts(L, paths);
  return 1;
}

/// scripts(folder): paths of the Lua files below it, sorted.
int scripts(lua_State* L) {
  const std::string folder = lua_kit::check_text(L, 1, "tessera.host.scripts.folder");
  std::vector<std::string> paths;
  for (const Listed& script : list_scripts(folder, true)) paths.push_back(script.path);
  lua_kit::push_texts(L, paths);
  return 1;
}

/// lent_modules(): names of the modules that the sandbox lends to scripts.
int list_lent_modules(lua_State* L) {
  lua_kit::push_texts(L, lent_modules(Host::of(L).installation()));
  return 1;
}

/// experiments(): name, path and doc of every script that ships.
int experiments(lua_State* L) {
  Json rows = Json::array();
  for (const Listed& found : list_experiments(Host::of(L).installation().experiments_dir)) {
    rows.push_back({{"name", found.name}, {"path", found.path}, {"doc", found.doc}});
  }
  lua_kit::push_json(L, rows);
  return 1;
}

/// terminal("stdin" | "stdout" | "stderr"): what the stream is; stdout by default.
int terminal(lua_State* L) {
  static const std::map<std::string, int> streams{
      {"stdin", STDIN_FILENO}, {"stdout", STDOUT_FILENO}, {"stderr", STDERR_FILENO}};
  const std::string name =
      lua_isnoneornil(L, 1) ? "stdout" : lua_kit::check_text(L, 1, "tessera.host.terminal.stream");
  const auto stream = streams.find(name);
  if (stream == streams.end()) {
    throw Error(ErrorCode::invalid_argument,
                "tessera.host.terminal.stream: " + quote(name) + " is no standard stream");
  }
  const Terminal facts = terminal_facts(stream->second);
  lua_newtable(L);
  lua_kit::set_boolean(L, "is_terminal", facts.is_terminal);
  lua_kit::set_boolean(L, "redraws", facts.redraws);
  lua_kit::set_integer(L, "columns", facts.columns);
  lua_kit::set_boolean(L, "knows_columns", facts.knows_columns);
  lua_kit::set_boolean(L, "utf8", facts.utf8);
  lua_kit::set_boolean(L, "colour", facts.colour);
  return 1;
}

/// nvml(): what the driver says of this machine's GPUs, see nvml.h; nil and why without a driver.
int nvml(lua_State* L) {
  const NvmlAnswer answer = ask_nvml();
  if (!answer.gpus.has_value()) {
    lua_pushnil(L);
    lua_kit::push_text(L, answer.why_none);
    return 2;
  }
  lua_kit::push_json(L, *answer.gpus);
  return 1;
}

/// run_program({ "rsvg-convert", ... }, input): exit status, stdout, stderr; no shell.
int run_program(lua_State* L) {
  const Json given = lua_kit::json_from_lua(L, 1, "tessera.host.run_program.words");
  std::vector<std::string> words;
  for (const Json& word : given) {
    if (!word.is_string()) {
      throw Error(ErrorCode::invalid_argument, "tessera.host.run_program.words: strings only");
    }
    words.push_back(word.get<std::string>());
  }
  if (words.empty()) {
    throw Error(ErrorCode::invalid_argument, "tessera.host.run_program.words: name a program");
  }
  const ProgramResult result =
      app::run_program(words, lua_kit::check_text(L, 2, "tessera.host.run_program.input"));
  lua_pushinteger(L, result.status);
  lua_kit::push_text(L, result.out);
  lua_kit::push_text(L, result.err);
  return 3;
}

/// lock_file(path): true, or false and who has it; see file_lock.h.
int lock(lua_State* L) {
  const auto holder = lock_file(lua_kit::check_text(L, 1, "tessera.host.lock_file.path"));
  lua_pushboolean(L, !holder.has_value());
  if (!holder.has_value()) return 1;
  lua_kit::push_text(L, *holder);
  return 2;
}

/// unlock_file(path)
int unlock(lua_State* L) {
  unlock_file(lua_kit::check_text(L, 1, "tessera.host.unlock_file.path"));
  return 0;
}

void set_facts(const Host& host) {
  lua_State* L = host.state();
  lua_kit::set_boolean(L, "json", host.settings().json);
  lua_kit::set_boolean(L, "sandboxed", access_is_restricted());
  lua_kit::set_texts(L, "arguments", host.settings().arguments);
  lua_kit::set_text(L, "program", executable_path());
  lua_newtable(L);
  for (const auto& [name, value] : version_fields()) lua_kit::set_text(L, name.c_str(), value);
  lua_setfield(L, -2, "version");
  lua_newtable(L);
  lua_kit::set_text(L, "scripts_dir", host.installation().scripts_dir);
  lua_kit::set_text(L, "datasets_dir", host.installation().datasets_dir);
  lua_kit::set_text(L, "experiments_dir", host.installation().experiments_dir);
  lua_setfield(L, -2, "installation");
  lua_newtable(L);
  lua_kit::set_integer(L, "prompt_tokens", kStreamPromptTokens);
  lua_kit::set_integer(L, "output_tokens", kStreamOutputTokens);
  lua_setfield(L, -2, "stream");
}

}  // namespace

int set_result(lua_State* L) {
  Host::of(L).set_result(lua_kit::json_from_lua(L, 1, "result"));
  return 0;
}

void open_host_module(Host& host) {
  lua_State* L = host.state();
  lua_pushcfunction(L, guarded<print>);
  lua_setglobal(L, "print");
  lua_getglobal(L, "os");
  lua_kit::set_functions(L, {{"exit", guarded<exit_process>}});
  lua_pop(L, 1);
  if (host.settings().json) {
    // io.write follows print; io.stdout stays what it says.
    lua_getglobal(L, "io");
    lua_kit::push_field(L, -1, "output", "io");
    lua_kit::push_field(L, -2, "stderr", "io");
    host.call(1, 0);
    lua_pop(L, 1);
  }
  lua_kit::register_module(L, "tessera.host",
                           {{"set_result", guarded<set_result>},
                            {"set_incumbent", guarded<set_incumbent>},
                            {"write", guarded<write>},
                            {"write_styled", guarded<write_with_styles>},
                            {"erase_line", guarded<erase>},
                            {"paragraph", guarded<indent_text>},
                            {"wrapped", guarded<wrap_text>},
                            {"without_exit", guarded<without_exit>},
                            {"stop", guarded<stop>},
                            {"strict", guarded<strict>},
                            {"limit_memory", guarded<limit_memory>},
                            {"help", guarded<help>},
                            {"help_topics", guarded<help_topics>},
                            {"luacats", guarded<luacats>},
                            {"cards", guarded<cards>},
                            {"limited", guarded<limited>},
                            {"load_script", guarded<load_script_file>},
                            {"loaded_files", guarded<script_files>},
                            {"forget_loaded_files", guarded<forget_files>},
                            {"poll_interrupts", guarded<poll_interrupts>},
                            {"interrupted", guarded<interrupted>},
                            {"make_folder", guarded<make_folder>},
                            {"user_folders", guarded<list_user_folders>},
                            {"user_scripts", guarded<user_scripts>},
                            {"scripts", guarded<scripts>},
                            {"lent_modules", guarded<list_lent_modules>},
                            {"experiments", guarded<experiments>},
                            {"terminal", guarded<terminal>},
                            {"lock_file", guarded<lock>},
                            {"unlock_file", guarded<unlock>},
                            {"nvml", guarded<nvml>},
                            {"run_program", guarded<run_program>}});
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.host");
  host.call(1, 1);
  set_facts(host);
  lua_pop(L, 1);
}

}  // namespace tessera::app
