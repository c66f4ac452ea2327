#include "literal.h"

#include <cstdlib>
#include <string>

#include "tessera/core/error.h"
#include "tessera/lua_kit/value.h"

namespace tessera::lua_kit {
namespace {

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

[[noreturn]] void fail(std::string_view text) {
  throw Error(ErrorCode::internal,
              "the default '" + std::string(text) + "' of an option is no Lua literal");
}

}  // namespace

void push_literal(lua_State* L, std::string_view text) {
  text = trim(text);
  if (text.empty()) return lua_pushnil(L);
  if (text == "true" || text == "false") return lua_pushboolean(L, text == "true");
  const char first = text.front();
  if (first == '"' || first == '\'') {
    if (text.size() < 2 || text.back() != first) fail(text);
    return push_text(L, text.substr(1, text.size() - 2));
  }
  if (first == '{') {
    if (text.back() != '}') fail(text);
    lua_newtable(L);
    std::string_view rest = trim(text.substr(1, text.size() - 2));
    for (int i = 1; !rest.empty(); ++i) {
      const std::size_t comma = rest.find(',');
      push_literal(L, rest.substr(0, comma));
      lua_rawseti(L, -2, i);
      rest = comma == std::string_view::npos ? std::string_view() : trim(rest.substr(comma + 1));
    }
    return;
  }
  const std::string number(text);
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (*end != '\0') fail(text);
  lua_pushnumber(L, value);
}

}  // namespace tessera::lua_kit
