#pragma once

#include <lua.hpp>
#include <memory>
#include <string>

#include "tessera/core/option.h"
#include "tessera/lua_kit/object.h"
#include "tessera/serving/traffic.h"
#include "tessera/serving/traffic_options.h"

/// Online serving as scripts see it, one file per part.
namespace tessera::serving_lua {

/// A tessera.Traffic, or a table of the options of ts.traffic. `path` is named in errors.
std::shared_ptr<const serving::Traffic> traffic_argument(lua_State* L, int index,
                                                         const std::string& path);

/// The table alone, before any request is made.
serving::TrafficOptions traffic_options_argument(lua_State* L, int index, const std::string& path);

/// Options of ts.traffic; the command line offers those that are plain values.
const OptionTable& traffic_options();

/// Makes `require "tessera.serving"` work, with all parts, and fills the reference.
void register_serving(lua_State* L);

// Each registers its objects and fills the reference; the core's environment comes first.
void register_traffic(lua_State* L);

int new_traffic(lua_State* L);

}  // namespace tessera::serving_lua

namespace tessera::lua_kit {

template <>
const ObjectType<serving::Traffic>& object_type<serving::Traffic>();

}  // namespace tessera::lua_kit
