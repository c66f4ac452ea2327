#include <string>
#include <vector>

#include "core_lua.h"
#include "cost_lua.h"
#include "samples_lua.h"
#include "tessera/core/error.h"
#include "tessera/cost/design.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::cost_lua {
namespace {

constexpr std::size_t kMostCandidates = 4096;  // 128 MiB of covariances

}  // namespace

// (device, candidates, count, design): numbers of candidates, from 1, in the order to measure them.
int design_points(lua_State* L) {
  const auto device = core_lua::device_argument(L, 1, "ts.calibration_points.device");
  const std::string path = "ts.calibration_points.candidates";
  std::vector<cost::OpQuery> candidates;
  lua_kit::for_each_item(
      L, 2, path,
      [&](std::size_t, const std::string& where) {
        candidates.push_back(query_argument(L, lua_gettop(L), where, true));
      },
      kMostCandidates);
  const auto count = static_cast<std::size_t>(lua_kit::check_integer(
      L, 3, "ts.calibration_points.count", 1, static_cast<double>(kMostCandidates)));
  const bool d_optimal = lua_kit::check_text(L, 4, "ts.calibration_points.design") == "d_optimal";
  const auto points =
      cost::design_points(*device, candidates, count,
                          d_optimal ? cost::Design::d_optimal : cost::Design::least_variance);
  lua_createtable(L, static_cast<int>(points.size()), 0);
  for (std::size_t i = 0; i < points.size(); ++i) {
    lua_pushinteger(L, static_cast<lua_Integer>(points[i]) + 1);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  return 1;
}

}  // namespace tessera::cost_lua
