#pragma once

#include <functional>
#include <lua.hpp>
#include <string>
#include <vector>

#include "tessera/lua_kit/object.h"
#include "tessera/serving/served.h"
#include "tessera/serving/simulate.h"

/// A served run as scripts see it, and the SLO that they ask for.
namespace tessera::serving_lua {

/// { ttft_s =, tpot_s =, e2e_s =, itl_s = }, each a limit of every request in seconds or of the
/// whole, { p99 = 2, mean = 1 }, both by { each = 3, p99 = 2 }; or a list of them, one a class of
/// requests in the order of slo_class, with names. nil: none. `path` is named in errors.
std::vector<serving::Slo> slo_argument(lua_State* L, int index, const std::string& path);

/// Serves a traffic with a model that runs, for ts.serve.
struct RealServer {
  std::function<serving::Ran(const serving::Deployment&, const serving::Traffic&,
                             const serving::SimulationOptions&)>
      serve;
  std::string source = {};  ///< of its times; empty: the deployment's step costs
};

void register_served(lua_State* L);
/// replay(path or served): what ts.replay gives.
int replay(lua_State* L);
/// views(path or served): of that, lines of JSON, each an EngineView.
int views(lua_State* L);

}  // namespace tessera::serving_lua

namespace tessera::lua_kit {

template <>
const ObjectType<serving::Served>& object_type<serving::Served>();
template <>
const ObjectType<serving_lua::RealServer>& object_type<serving_lua::RealServer>();

}  // namespace tessera::lua_kit
