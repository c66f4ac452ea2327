#include "tessera/lua_kit/args.h"

#include <fmt/format.h>

#include <cmath>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera::lua_kit {
namespace {

constexpr std::size_t kMaxListLength = 1'000'000;

// As a user would write it: 3.7, not 3.7000000000000002 or 1e+06.
std::string plain_number(double value) {
  if (std::floor(value) == value && std::fabs(value) < 1e15) return fmt::format("{:.0f}", value);
  return fmt::format("{}", value);
}

[[noreturn]] void fail(ErrorCode code, std::string_view name, const std::string& problem,
                       OptionType type, double low, double high, std::string_view unit) {
  OptionSpec spec;
  spec.type = type;
  spec.min = low;
  spec.max = high;
  spec.unit = unit;
  throw Error(code, fmt::format("{}: {}; give {}", name, problem, describe_range(spec)),
              std::string(name));
}

double finite_number(lua_State* L, int index, std::string_view name, OptionType type, double low,
                     double high, std::string_view unit) {
  const auto wrong = [&](const std::string& problem) {
    fail(ErrorCode::invalid_argument, name, problem, type, low, high, unit);
  };
  if (lua_type(L, index) != LUA_TNUMBER) {
    wrong(describe_value(L, index) + " is not a number");
  }
  const double value = lua_tonumber(L, index);
  if (std::isnan(value)) wrong("NaN is not a number");
  if (std::isinf(value)) wrong(fmt::format("{}inf is not finite", value < 0 ? "-" : ""));
  return value;
}

void check_range(double value, std::string_view name, OptionType type, double low, double high,
                 std::string_view unit) {
  if (value >= low && value <= high) return;
  fail(ErrorCode::out_of_range, name, plain_number(value) + " is out of range", type, low, high,
       unit);
}

}  // namespace

std::string describe_value(lua_State* L, int index) {
  switch (lua_type(L, index)) {
    case LUA_TNONE:
      return "nothing";
    case LUA_TNIL:
      return "nil";
    case LUA_TBOOLEAN:
      return lua_toboolean(L, index) ? "true" : "false";
    case LUA_TNUMBER:
      return "the number " + plain_number(lua_tonumber(L, index));
    case LUA_TSTRING: {
      std::size_t length = 0;
      const char* data = lua_tolstring(L, index, &length);
      return "the string " + quote({data, length});
    }
    default:
      break;
  }
  if (luaL_getmetafield(L, index, "__metatable")) {
    std::string name;
    if (lua_type(L, -1) == LUA_TSTRING) name = lua_tostring(L, -1);
    lua_pop(L, 1);
    if (name.rfind("tessera.", 0) == 0) return "a " + name;
  }
  return std::string("a ") + luaL_typename(L, index);
}

std::int64_t check_integer(lua_State* L, int index, std::string_view name, double low, double high,
                           std::string_view unit) {
  const OptionType type = OptionType::integer;
  const double value = finite_number(L, index, name, type, low, high, unit);
  if (std::floor(value) != value) {
    fail(ErrorCode::invalid_argument, name, plain_number(value) + " is not an integer", type, low,
         high, unit);
  }
  if (std::fabs(value) > kMaxExactInteger) {
    fail(ErrorCode::out_of_range, name,
         fmt::format("{:g} is beyond 2^53, where numbers stop being exact", value), type, low, high,
         unit);
  }
  check_range(value, name, type, low, high, unit);
  return static_cast<std::int64_t>(value);
}

double check_number(lua_State* L, int index, std::string_view name, double low, double high,
                    std::string_view unit) {
  const double value = finite_number(L, index, name, OptionType::number, low, high, unit);
  check_range(value, name, OptionType::number, low, high, unit);
  return value;
}

std::string check_text(lua_State* L, int index, std::string_view name) {
  if (lua_type(L, index) != LUA_TSTRING) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} where a string belongs", name, describe_value(L, index)),
                std::string(name));
  }
  std::size_t length = 0;
  const char* data = lua_tolstring(L, index, &length);
  return std::string(data, length);
}

std::string check_utf8(lua_State* L, int index, std::string_view name) {
  std::string text = check_text(L, index, name);
  if (!is_utf8(text)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {} is not UTF-8", name, quote(text)),
                std::string(name));
  }
  return text;
}

int check_list(lua_State* L, int index, std::string_view name, std::string_view hint) {
  const auto wrong = [&](const std::string& problem) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}{}", name, problem, hint),
                std::string(name));
  };
  if (!lua_istable(L, index)) wrong(describe_value(L, index) + " is not a list");
  const std::size_t length = lua_objlen(L, index);
  if (length > kMaxListLength) wrong(fmt::format("a list of {} items is too long", length));
  luaL_checkstack(L, 3, "list");
  lua_pushvalue(L, index);
  std::size_t num_keys = 0;
  for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
    ++num_keys;
    if (lua_type(L, -2) != LUA_TNUMBER) wrong("the key " + describe_value(L, -2) + " in a list");
    const double key = lua_tonumber(L, -2);
    const bool is_item = std::floor(key) == key && key >= 1 && key <= static_cast<double>(length);
    if (!is_item) wrong("the list has gaps");
  }
  lua_pop(L, 1);
  if (num_keys != length) wrong("the list has gaps");
  return static_cast<int>(length);
}

bool check_boolean(lua_State* L, int index, std::string_view name) {
  if (!lua_isboolean(L, index)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} where true or false belongs", name, describe_value(L, index)),
                std::string(name));
  }
  return lua_toboolean(L, index) != 0;
}

}  // namespace tessera::lua_kit
