#include "completion.h"

#include <algorithm>
#include <cctype>

#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::app {
namespace {

constexpr std::string_view kKeywords[] = {
    "and",   "break", "do",  "else", "elseif", "end",    "false", "for",  "function", "if",   "in",
    "local", "nil",   "not", "or",   "repeat", "return", "then",  "true", "until",    "while"};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Adds the string keys of the table on top that start with `prefix`.
void add_keys(lua_State* L, std::string_view prefix, bool only_functions,
              std::vector<std::string>& words) {
  lua_kit::for_each_pair(L, -1, "table", [&] {
    if (lua_type(L, -2) != LUA_TSTRING || (only_functions && !lua_isfunction(L, -1))) return;
    std::string key = lua_kit::check_text(L, -2, "key");
    const bool name = !key.empty() && std::all_of(key.begin(), key.end(), is_word);
    if (name && key.rfind(prefix, 0) == 0) words.push_back(std::move(key));
  });
}

int get_field(lua_State* L) {
  lua_kit::push_field(L, 1, lua_kit::check_text(L, 2, "name"), "value");
  return 1;
}

// Replaces the value on top by its field; nil where there is none.
void step_into(lua_State* L, const std::string& name) {
  lua_pushcfunction(L, lua_kit::guarded<get_field>);
  lua_insert(L, -2);
  lua_kit::push_text(L, name);
  if (lua_kit::protected_call(L, 2, 1) == 0) return;
  lua_pop(L, 1);
  lua_pushnil(L);
}

void add_members(lua_State* L, std::string_view prefix, bool methods,
                 std::vector<std::string>& words) {
  if (lua_istable(L, -1)) add_keys(L, prefix, methods, words);
  if (luaL_getmetafield(L, -1, "__members")) {
    add_keys(L, prefix, methods, words);
    lua_pop(L, 1);
  }
  if (luaL_getmetafield(L, -1, "__index")) {
    if (lua_istable(L, -1)) add_keys(L, prefix, methods, words);
    lua_pop(L, 1);
  }
}

}  // namespace

namespace {

// What require("tessera.cli.prompt").complete says of options and their values; false outside
// calls.
bool complete_options(lua_State* L, const std::string& code, Completion& result) {
  const lua_kit::StackGuard guard(L);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.cli.prompt");
  if (lua_kit::protected_call(L, 1, 1) != 0) return false;
  lua_kit::push_field(L, -1, "complete", "tessera.cli.prompt");
  lua_kit::push_text(L, code);
  if (lua_kit::protected_call(L, 1, 2) != 0 || !lua_istable(L, -2)) return false;
  result.word_length =
      static_cast<std::size_t>(lua_kit::check_integer(L, -1, "length of the word", 0, 1e9));
  lua_kit::for_each_item(L, lua_gettop(L) - 1, "words", [&](std::size_t, const std::string& path) {
    result.words.push_back(lua_kit::check_text(L, -1, path));
  });
  return !result.words.empty();
}

}  // namespace

Completion complete(lua_State* L, std::string_view line, const std::string& lines_before) {
  const lua_kit::StackGuard guard(L);
  luaL_checkstack(L, 10, "completion");
  if (Completion found; complete_options(L, lines_before + std::string(line), found)) return found;
  std::size_t start = line.size();
  while (start > 0 &&
         (is_word(line[start - 1]) || line[start - 1] == '.' || line[start - 1] == ':'))
    --start;
  std::string_view path = line.substr(start);
  Completion result;
  lua_pushvalue(L, LUA_GLOBALSINDEX);
  char separator = '\0';
  for (std::size_t end; (end = path.find_first_of(".:")) != std::string_view::npos;) {
    separator = path[end];
    step_into(L, std::string(path.substr(0, end)));
    path = path.substr(end + 1);
  }
  result.word_length = path.size();
  add_members(L, path, separator == ':', result.words);
  if (separator == '\0') {
    for (std::string_view keyword : kKeywords) {
      if (keyword.rfind(path, 0) == 0) result.words.emplace_back(keyword);
    }
  }
  std::sort(result.words.begin(), result.words.end());
  result.words.erase(std::unique(result.words.begin(), result.words.end()), result.words.end());
  return result;
}

std::string common_prefix(const std::vector<std::string>& words) {
  if (words.empty()) return "";
  // Sorted, so the first and the last differ the most.
  const std::string &first = words.front(), &last = words.back();
  const auto end = std::mismatch(
      first.begin(),
      first.begin() + static_cast<std::ptrdiff_t>(std::min(first.size(), last.size())),
      last.begin());
  return std::string(first.begin(), end.first);
}

}  // namespace tessera::app
