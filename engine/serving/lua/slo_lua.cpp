// The SLO that scripts ask for.
#include <algorithm>
#include <cmath>

#include "served_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/table.h"

namespace tessera::serving_lua {
namespace {

using serving::LatencyTarget;
using serving::Metric;
using serving::Slo;
using serving::Statistic;

LatencyTarget& target_of(Slo& slo, Metric metric) {
  switch (metric) {
    case Metric::ttft_s:
      return slo.ttft_s;
    case Metric::tpot_s:
      return slo.tpot_s;
    case Metric::e2e_s:
      return slo.e2e_s;
    case Metric::itl_s:
      break;
  }
  return slo.itl_s;
}

[[noreturn]] void refuse_key(const std::string& path, const std::string& key,
                             const std::vector<std::string_view>& names, const char* more) {
  std::vector<std::string> known(names.begin(), names.end());
  known.emplace_back(more);
  refuse(path, "{} is no limit{}", quote(key), did_you_mean(key, known));
}

/// The key of the pair on top of the stack.
std::string key_of(lua_State* L, const std::string& path) {
  if (lua_type(L, -2) != LUA_TSTRING) {
    refuse(path, "the key {} has no meaning here", lua_kit::describe_value(L, -2));
  }
  return lua_kit::check_text(L, -2, path);
}

/// The value on top of the stack: a limit of every request, or limits of the whole.
LatencyTarget read_target(lua_State* L, const std::string& path) {
  LatencyTarget target;
  if (lua_type(L, -1) == LUA_TNUMBER) {
    target.each = lua_kit::any_number(L, -1, path);
    return target;
  }
  lua_kit::check_table(L, -1, path, "seconds, or { p99 = seconds }");
  lua_kit::for_each_pair(L, -1, path, [&] {
    const std::string key = key_of(L, path);
    const double limit_s = lua_kit::any_number(L, -1, lua_kit::field_path(path, key));
    if (key == "each") {
      target.each = limit_s;
    } else if (const auto statistic = named<Statistic>(key)) {
      // Infinite ones, of scripts that compute theirs, are no limits.
      if (!std::isinf(limit_s)) target.of_all.push_back({*statistic, limit_s});
    } else {
      refuse_key(path, key, names_of<Statistic>(), "each");
    }
  });
  // Tables have no order of their own.
  std::sort(target.of_all.begin(), target.of_all.end(),
            [](const auto& a, const auto& b) { return a.statistic < b.statistic; });
  return target;
}

Slo read_slo(lua_State* L, int index, const std::string& path) {
  lua_kit::check_table(L, index, path, "a table of limits");
  Slo slo;
  lua_kit::for_each_pair(L, index, path, [&] {
    const std::string key = key_of(L, path), field = lua_kit::field_path(path, key);
    if (key == "name") {
      slo.name = lua_kit::check_utf8(L, -1, field);
    } else if (const auto metric = named<Metric>(key)) {
      target_of(slo, *metric) = read_target(L, field);
    } else {
      refuse_key(path, key, names_of<Metric>(), "name");
    }
  });
  serving::check_slo(slo, path);
  return slo;
}

}  // namespace

std::vector<Slo> slo_argument(lua_State* L, int index, const std::string& path) {
  if (lua_isnoneornil(L, index)) return {};
  if (index < 0 && index > LUA_REGISTRYINDEX) index = lua_gettop(L) + 1 + index;
  luaL_checkstack(L, 10, "an SLO");
  lua_kit::check_table(L, index, path, "a table of limits");
  if (lua_kit::border(L, index) == 0) return {read_slo(L, index, path)};
  std::vector<Slo> slos;
  lua_kit::for_each_item(
      L, index, path,
      [&](std::size_t i, const std::string& item) {
        slos.push_back(read_slo(L, lua_gettop(L), item));
        if (slos.back().name.empty()) slos.back().name = "class " + std::to_string(i - 1);
      },
      1000);
  return slos;
}

}  // namespace tessera::serving_lua
