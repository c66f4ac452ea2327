#include "tessera/lua_kit/guard.h"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <typeinfo>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/nesting.h"
#include "tessera/lua_kit/value.h"

namespace tessera::lua_kit {
namespace {

thread_local lua_State* running = nullptr;

std::string type_name(const std::exception& exception) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(typeid(exception).name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : typeid(exception).name();
}

// The exceptions behind this one: what a nested throw wrapped, or the type of a foreign one.
std::string causes_of(const std::exception& exception) {
  std::string causes;
  if (dynamic_cast<const Error*>(&exception) == nullptr) causes = type_name(exception);
  try {
    std::rethrow_if_nested(exception);
  } catch (const std::exception& inner) {
    if (!causes.empty()) causes += "; ";
    causes += type_name(inner) + ": " + inner.what();
    const std::string deeper = causes_of(inner);
    if (dynamic_cast<const Error*>(&inner) != nullptr && !deeper.empty()) causes += "; " + deeper;
  }
  return causes;
}

void set_given_text(lua_State* L, const char* field, std::string_view text) {
  if (!text.empty()) set_text(L, field, text);
}

int error_to_string(lua_State* L) {
  lua_settop(L, 1);
  if (lua_istable(L, 1)) {
    lua_pushliteral(L, "message");
    lua_rawget(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) return 1;
  }
  lua_pushliteral(L, "an error without a message");
  return 1;
}

// "failed: " .. err, as scripts write it for errors that are strings.
int concatenate(lua_State* L) {
  for (const int index : {1, 2}) {
    if (luaL_callmeta(L, index, "__tostring")) lua_replace(L, index);
    if (!lua_isstring(L, index)) {
      return luaL_error(L, "attempt to concatenate a %s value", luaL_typename(L, index));
    }
  }
  lua_concat(L, 2);
  return 1;
}

void push_error_metatable(lua_State* L) {
  if (luaL_newmetatable(L, kErrorType)) {
    lua_pushcfunction(L, error_to_string);
    lua_setfield(L, -2, "__tostring");
    lua_pushcfunction(L, concatenate);
    lua_setfield(L, -2, "__concat");
    push_text(L, kErrorType);
    lua_setfield(L, -2, "__metatable");
  }
}

bool is_error_object(lua_State* L, int index) {
  if (!lua_istable(L, index) || !lua_getmetatable(L, index)) return false;
  push_error_metatable(L);
  const bool same = lua_rawequal(L, -1, -2) != 0;
  lua_pop(L, 2);
  return same;
}

std::string raw_text(lua_State* L, int table, const char* field) {
  push_text(L, field);
  lua_rawget(L, table);
  std::string text;
  if (lua_type(L, -1) == LUA_TSTRING) {
    std::size_t length = 0;
    const char* data = lua_tolstring(L, -1, &length);
    text.assign(data, length);
  }
  lua_pop(L, 1);
  return text;
}

// Runs in protected mode, because `__tostring` is the script's code.
int convert_to_text(lua_State* L) {
  if (!luaL_callmeta(L, 1, "__tostring")) {
    lua_pushnil(L);
  } else if (lua_type(L, -1) != LUA_TSTRING) {
    return luaL_error(L, "'__tostring' returned no string");
  }
  return 1;
}

std::string text_of(lua_State* L, int index) {
  const int type = lua_type(L, index);
  if (type == LUA_TSTRING) {
    std::size_t length = 0;
    const char* data = lua_tolstring(L, index, &length);
    return length > 0 ? std::string(data, length) : "the error message is empty";
  }
  lua_pushcfunction(L, convert_to_text);
  lua_pushvalue(L, index);
  const bool failed = lua_pcall(L, 1, 1, 0) != 0;
  std::string text(text_or_empty(L, -1));
  lua_pop(L, 1);
  if (failed) {
    return "the error value is " + describe_value(L, index) + " whose __tostring fails (" +
           (text.empty() ? "with no text" : text) + ")";
  }
  if (!text.empty()) return text;
  if (type == LUA_TNIL) return "the error value is nil: error() was called without a message";
  return "the error value is " + describe_value(L, index) + ", not a message";
}

// Registry key of the folder that set_library_folder named.
const char kLibraryFolder = 0;

bool is_library(lua_State* L, const char* source) {
  lua_pushlightuserdata(L, const_cast<char*>(&kLibraryFolder));
  lua_rawget(L, LUA_REGISTRYINDEX);
  const char* folder = lua_tostring(L, -1);
  lua_pop(L, 1);  // the registry keeps it alive
  return folder != nullptr && std::string_view(source).substr(0, 1) == "@" &&
         std::string_view(source).substr(1).starts_with(folder);
}

// Position of the innermost Lua code that is not the library's: that is where its user looks.
void set_position(lua_State* L) {
  lua_Debug frame;
  for (int level = 0; lua_getstack(L, level, &frame) != 0; ++level) {
    if (lua_getinfo(L, "Sl", &frame) == 0 || frame.currentline <= 0) continue;
    if (is_library(L, frame.source)) continue;
    set_text(L, "at", std::string(frame.short_src) + ":" + std::to_string(frame.currentline));
    return;
  }
}

}  // namespace

lua_State* running_state() { return running; }

detail::RunningState::RunningState(lua_State* L) : previous_(running) {
  check_nesting(L);
  running = L;
}
detail::RunningState::~RunningState() { running = previous_; }

void set_library_folder(lua_State* L, std::string_view folder) {
  lua_pushlightuserdata(L, const_cast<char*>(&kLibraryFolder));
  push_text(L, folder);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

void push_error(lua_State* L, std::string_view code, std::string_view message,
                std::string_view where) {
  luaL_checkstack(L, 5, "error object");
  lua_createtable(L, 0, 6);
  set_given_text(L, "code", code);
  // The one door of all messages of ours; they quote files and names that may hold anything.
  push_text(L, printable(message));
  lua_setfield(L, -2, "message");
  set_given_text(L, "where", where);
  set_position(L);
  push_error_metatable(L);
  lua_setmetatable(L, -2);
}

int raise(lua_State* L, const char* code, const char* message, const char* where) {
  push_error(L, code, message, where);
  return lua_error(L);
}

void detail::push_exception(lua_State* L, const std::exception& exception) {
  lua_settop(L, 0);
  if (const auto* script = dynamic_cast<const ScriptError*>(&exception)) {
    if (script->value() != nullptr && script->value()->state() != nullptr) {
      script->value()->push(L);
      return;
    }
    push_error(L, script->code_name(), script->message(), script->where());
    set_given_text(L, "traceback", script->traceback());
    return;
  }
  std::string_view code = "internal", where, message = exception.what();
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    message = error->message();
    code = name_of(error->code());
    where = error->where();
  } else if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
    code = "out_of_memory";
    message = "not enough memory";  // as Lua says it
  }
  // This is the error of a Ctrl-C: its hook would raise another in the handler that gets this one.
  if (code == name_of(ErrorCode::interrupted)) lua_sethook(L, nullptr, 0, 0);
  push_error(L, code, message, where);
  set_given_text(L, "cause", causes_of(exception));
}

/// Of LuaJIT's own functions and those of C that it can name by addresses only:
/// "[builtin#19]: at 0x7f..", "[C]: at 0x7f..".
bool is_address(const char* line) {
  return std::strncmp(line, "\t[builtin#", 10) == 0 || std::strncmp(line, "\t[C]: at 0x", 11) == 0;
}

/// Replaces the traceback on top by one without frames that are addresses. Nothing is kept where
/// memory is short.
void drop_addresses(lua_State* L) {
  const char* text = lua_tostring(L, -1);
  if (text == nullptr || std::strstr(text, "]: at 0x") == nullptr) return;
  luaL_Buffer kept;
  luaL_buffinit(L, &kept);
  bool any = false;  // of the lines below the title
  for (const char* line = text; *line != '\0';) {
    const char* end = std::strchr(line, '\n');
    const std::size_t length = end == nullptr ? std::strlen(line) : end + 1 - line;
    if (!is_address(line)) {
      luaL_addlstring(&kept, line, length);
      any = any || *line == '\t';
    }
    line += length;
  }
  luaL_pushresult(&kept);
  if (!any) {
    lua_pop(L, 1);
    lua_pushliteral(L, "");
  }
  lua_remove(L, -2);
}

int traceback_handler(lua_State* L) {
  lua_settop(L, 1);
  // First, because after a stack overflow there is room for little more.
  luaL_traceback(L, L, nullptr, 1);
  drop_addresses(L);
  if (!is_error_object(L, 1)) {
    // Whatever was raised keeps its identity; the traceback travels beside it.
    lua_createtable(L, 0, 3);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, "value");
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "foreign");
    push_error_metatable(L);
    lua_setmetatable(L, -2);
    lua_replace(L, 1);
  }
  if (raw_text(L, 1, "traceback").empty()) lua_setfield(L, 1, "traceback");
  lua_settop(L, 1);
  return 1;
}

int protected_call(lua_State* L, int num_arguments, int num_results) {
  const NestedCall call(L, Nested::calls_into_lua);
  luaL_checkstack(L, 1, "call from C++");
  const int handler = lua_gettop(L) - num_arguments;
  lua_pushcfunction(L, traceback_handler);
  lua_insert(L, handler);
  const int status = lua_pcall(L, num_arguments, num_results, handler);
  lua_remove(L, handler);
  return status;
}

void unwrap_error(lua_State* L) {
  if (!is_error_object(L, -1)) return;
  lua_pushliteral(L, "foreign");
  lua_rawget(L, -2);
  const bool foreign = lua_toboolean(L, -1) != 0;
  lua_pop(L, 1);
  if (!foreign) return;
  lua_pushliteral(L, "value");
  lua_rawget(L, -2);
  lua_remove(L, -2);
}

ErrorReport read_error(lua_State* L, int index) {
  const StackGuard guard(L);
  ErrorReport report;
  if (!lua_checkstack(L, 10)) {
    report.code = "script";
    report.message = "stack overflow";
    return report;
  }
  if (index < 0) index = lua_gettop(L) + 1 + index;
  if (is_error_object(L, index)) {
    report.traceback = raw_text(L, index, "traceback");
    lua_pushliteral(L, "foreign");
    lua_rawget(L, index);
    if (lua_toboolean(L, -1)) {
      lua_pushliteral(L, "value");
      lua_rawget(L, index);
      index = lua_gettop(L);
    }
  }
  report.code = "script";
  if (is_error_object(L, index)) {
    report.message = raw_text(L, index, "message");
    report.code = raw_text(L, index, "code");
    report.where = raw_text(L, index, "where");
    report.at = raw_text(L, index, "at");
    report.cause = raw_text(L, index, "cause");
    report.constraint = raw_text(L, index, "constraint");
    if (report.traceback.empty()) report.traceback = raw_text(L, index, "traceback");
    return report;
  }
  report.message = text_of(L, index);
  // LuaJIT raises these two as bare strings, without a position and often without our handler.
  if (report.message == "not enough memory") report.code = "out_of_memory";
  if (report.message == "stack overflow") report.message += ": calls are nested too deeply";
  // A script's own error table may carry a code, as ours do.
  if (lua_istable(L, index)) {
    const std::string code = raw_text(L, index, "code");
    if (!code.empty()) report.code = code;
    const std::string message = raw_text(L, index, "message");
    if (!message.empty() && !luaL_getmetafield(L, index, "__tostring")) report.message = message;
  }
  return report;
}

}  // namespace tessera::lua_kit
