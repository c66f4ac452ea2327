#include "tessera/lua_kit/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/guard.h"

namespace tessera::lua_kit {
namespace {

constexpr int kMaxDepth = 64;

class Reader {
 public:
  explicit Reader(lua_State* L) : L_(L) {}

  // Reads the value on top of the stack and leaves it there.
  Json read(const std::string& path, int depth) {
    if (depth > kMaxDepth) refuse(path, "nested deeper than {} levels", kMaxDepth);
    luaL_checkstack(L_, 6, "JSON value");
    switch (lua_type(L_, -1)) {
      case LUA_TNIL:
        return nullptr;
      case LUA_TBOOLEAN:
        return lua_toboolean(L_, -1) != 0;
      case LUA_TNUMBER:
        return number(lua_tonumber(L_, -1), path);
      case LUA_TSTRING:
        return text(path);
      case LUA_TTABLE:
        return table(path, depth);
      case LUA_TUSERDATA:
        return object(path, depth);
      default:
        refuse(path, describe_value(L_, -1) + " cannot be written as JSON");
    }
  }

 private:
  static Json number(double value, const std::string& path) {
    if (!std::isfinite(value)) {
      refuse(path, std::isnan(value) ? "NaN cannot be written as JSON"
                                     : "an infinite number cannot be written as JSON");
    }
    const bool is_integer = std::floor(value) == value && std::fabs(value) <= kMaxExactInteger;
    if (is_integer && !(value == 0 && std::signbit(value))) {
      return static_cast<std::int64_t>(value);
    }
    return value;
  }

  Json text(const std::string& path) { return check_utf8(L_, -1, path); }

  Json object(const std::string& path, int depth) {
    if (!luaL_getmetafield(L_, -1, "__to_table")) {
      refuse(path, describe_value(L_, -1) + " cannot be written as JSON");
    }
    lua_pushvalue(L_, -2);
    if (protected_call(L_, 1, 1) != 0) throw_script_error(L_);
    Json result = read(path, depth + 1);
    lua_pop(L_, 1);
    return result;
  }

  Json table(const std::string& path, int depth) {
    const void* identity = lua_topointer(L_, -1);
    if (std::find(open_.begin(), open_.end(), identity) != open_.end()) {
      refuse(path, "the table contains itself");
    }
    open_.push_back(identity);
    const std::size_t length = lua_objlen(L_, -1);
    std::vector<std::string> keys;
    std::size_t num_items = 0;
    for (lua_pushnil(L_); lua_next(L_, -2) != 0; lua_pop(L_, 1)) {
      if (lua_type(L_, -2) == LUA_TSTRING) {
        lua_pushvalue(L_, -2);
        keys.push_back(text(path).get<std::string>());
        lua_pop(L_, 1);
      } else if (lua_type(L_, -2) == LUA_TNUMBER) {
        ++num_items;
      } else {
        refuse(path, "the key " + describe_value(L_, -2) + " cannot be written as JSON");
      }
    }
    if (num_items > 0 && !keys.empty()) {
      refuse(path, "a table with both items and named fields cannot be written as JSON");
    }
    if (num_items != length) refuse(path, "a list with gaps cannot be written as JSON");
    Json result = keys.empty() ? array(length, path, depth) : fields(keys, path, depth);
    open_.pop_back();
    return result;
  }

  Json array(std::size_t length, const std::string& path, int depth) {
    Json result = Json::array();
    for (std::size_t i = 1; i <= length; ++i) {
      lua_rawgeti(L_, -1, static_cast<int>(i));
      result.push_back(read(fmt::format("{}[{}]", path, i), depth + 1));
      lua_pop(L_, 1);
    }
    return result;
  }

  Json fields(std::vector<std::string>& keys, const std::string& path, int depth) {
    std::sort(keys.begin(), keys.end());
    Json result = Json::object();
    for (const std::string& key : keys) {
      push_text(L_, key);
      lua_rawget(L_, -2);
      result[key] = read(path + "." + quote_key(key), depth + 1);
      lua_pop(L_, 1);
    }
    return result;
  }

  static std::string quote_key(const std::string& key) {
    return key.size() <= 60 ? key : quote(key);
  }

  lua_State* L_;
  std::vector<const void*> open_;
};

}  // namespace

void push_text(lua_State* L, std::string_view text) {
  lua_pushlstring(L, text.data(), text.size());
}

void push_texts(lua_State* L, const std::vector<std::string>& texts) {
  lua_createtable(L, static_cast<int>(texts.size()), 0);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    push_text(L, texts[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
}

void push_cards(lua_State* L, const std::vector<Card>& cards) {
  lua_createtable(L, static_cast<int>(cards.size()), 0);
  for (std::size_t i = 0; i < cards.size(); ++i) {
    lua_createtable(L, 0, 3);
    set_text(L, "name", cards[i].name);
    set_text(L, "doc", cards[i].doc);
    set_text(L, "source", cards[i].source);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
}

void push_numbers(lua_State* L, const std::vector<double>& numbers) {
  lua_createtable(L, static_cast<int>(numbers.size()), 0);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    lua_pushnumber(L, numbers[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
}

void push_integer(lua_State* L, std::int64_t value) {
  constexpr auto kExact = static_cast<std::int64_t>(kMaxExactInteger);
  if (value >= -kExact && value <= kExact) {
    lua_pushnumber(L, static_cast<double>(value));
  } else {
    push_text(L, std::to_string(value));
  }
}

void push_optional(lua_State* L, const std::optional<double>& value) {
  if (value) {
    lua_pushnumber(L, *value);
  } else {
    lua_pushnil(L);
  }
}

void push_json(lua_State* L, const Json& value) {
  luaL_checkstack(L, 4, "JSON value");
  switch (value.type()) {
    case Json::value_t::boolean:
      return lua_pushboolean(L, value.get<bool>());
    case Json::value_t::number_integer:
      return push_integer(L, value.get<std::int64_t>());
    case Json::value_t::number_unsigned:
      if (value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxExactInteger)) {
        return push_text(L, std::to_string(value.get<std::uint64_t>()));
      }
      return push_integer(L, value.get<std::int64_t>());
    case Json::value_t::number_float:
      return lua_pushnumber(L, value.get<double>());
    case Json::value_t::string:
      return push_text(L, value.get_ref<const std::string&>());
    case Json::value_t::array:
      lua_createtable(L, static_cast<int>(value.size()), 0);
      for (std::size_t i = 0; i < value.size(); ++i) {
        push_json(L, value[i]);
        lua_rawseti(L, -2, static_cast<int>(i) + 1);
      }
      return;
    case Json::value_t::object:
      lua_createtable(L, 0, static_cast<int>(value.size()));
      for (const auto& [key, item] : value.items()) {
        push_text(L, key);
        push_json(L, item);
        lua_rawset(L, -3);
      }
      return;
    default:
      return lua_pushnil(L);
  }
}

void set_text(lua_State* L, const char* name, std::string_view text) {
  push_text(L, text);
  lua_setfield(L, -2, name);
}

void set_texts(lua_State* L, const char* name, const std::vector<std::string>& texts) {
  push_texts(L, texts);
  lua_setfield(L, -2, name);
}

void set_number(lua_State* L, const char* name, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, name);
}

void set_numbers(lua_State* L, const char* name, const std::vector<double>& numbers) {
  push_numbers(L, numbers);
  lua_setfield(L, -2, name);
}

void set_integer(lua_State* L, const char* name, std::int64_t value) {
  push_integer(L, value);
  lua_setfield(L, -2, name);
}

void set_boolean(lua_State* L, const char* name, bool value) {
  lua_pushboolean(L, value);
  lua_setfield(L, -2, name);
}

void set_json(lua_State* L, const char* name, const Json& value) {
  push_json(L, value);
  lua_setfield(L, -2, name);
}

void set_optional(lua_State* L, const char* name, const std::optional<double>& value) {
  if (value) set_number(L, name, *value);
}

Json json_from_lua(lua_State* L, int index, const std::string& path) {
  const StackGuard guard(L);
  luaL_checkstack(L, 2, "JSON value");
  lua_pushvalue(L, index);
  return Reader(L).read(path, 0);
}

}  // namespace tessera::lua_kit
