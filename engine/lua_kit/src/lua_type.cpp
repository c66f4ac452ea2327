#include "lua_type.h"

#include <algorithm>

#include "tessera/lua_kit/object.h"

namespace tessera::lua_kit {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '?')) text.remove_suffix(1);
  return text;
}

bool is_quoted(std::string_view text) {
  return text.size() >= 2 && (text.front() == '"' || text.front() == '\'');
}

bool fits(lua_State* L, int index, std::string_view type) {
  const int given = lua_type(L, index);
  if (type == "any") return given != LUA_TNIL && given != LUA_TNONE;
  if (type == "nil") return given == LUA_TNIL;
  if (type == "false" || type == "true") {
    return given == LUA_TBOOLEAN && (lua_toboolean(L, index) != 0) == (type == "true");
  }
  if (type == "boolean") return given == LUA_TBOOLEAN;
  if (type == "number" || type == "integer") return given == LUA_TNUMBER;
  if (type == "function" || type.starts_with("fun(")) return given == LUA_TFUNCTION;
  if (type.ends_with("[]") || type == "table" || type.starts_with("table<") ||
      type.starts_with("{")) {
    return given == LUA_TTABLE;
  }
  if (type == "string" || is_quoted(type)) return given == LUA_TSTRING;
  return given == LUA_TUSERDATA &&
         detail::test_userdata(L, index, std::string(type).c_str()) != nullptr;
}

}  // namespace

std::vector<std::string_view> alternatives(std::string_view lua_type) {
  std::vector<std::string_view> found;
  int depth = 0;
  std::size_t start = 0;
  const auto add = [&](std::size_t end) {
    std::string_view one = trimmed(lua_type.substr(start, end - start));
    if (one.starts_with("(") && one.ends_with(")")) {
      const auto inner = alternatives(one.substr(1, one.size() - 2));
      found.insert(found.end(), inner.begin(), inner.end());
    } else if (!one.empty()) {
      found.push_back(one);
    }
    start = end + 1;
  };
  for (std::size_t i = 0; i < lua_type.size(); ++i) {
    const char c = lua_type[i];
    if (c == '(' || c == '<' || c == '{') ++depth;
    if (c == ')' || c == '>' || c == '}') --depth;
    if (c == '|' && depth == 0) add(i);
  }
  add(lua_type.size());
  return found;
}

bool fits_type(lua_State* L, int index, std::string_view lua_type) {
  const auto types = alternatives(lua_type);
  return std::any_of(types.begin(), types.end(),
                     [&](std::string_view type) { return fits(L, index, type); });
}

}  // namespace tessera::lua_kit
