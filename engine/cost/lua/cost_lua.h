#pragma once

#include <lua.hpp>
#include <memory>
#include <string>

#include "tessera/core/option.h"
#include "tessera/cost/kernel_set.h"
#include "tessera/cost/profile.h"

namespace tessera::cost_lua {

/// A profile as scripts see it: with the kernel set that prices its layers.
struct BoundProfile {
  std::shared_ptr<const cost::Profile> profile;
  cost::KernelSet kernels;
  std::shared_ptr<const cost::ProfiledModel> model;
};
std::shared_ptr<const BoundProfile> bind_profile(std::shared_ptr<const cost::Profile> profile,
                                                 const cost::KernelSet& kernels);

/// A profile object, or the path of a file.
std::shared_ptr<const BoundProfile> profile_argument(lua_State* L, int index,
                                                     const std::string& path);

/// Makes `require "tessera.cost"` work. Needs the core's environment.
void register_cost(lua_State* L);

// Parts of register_cost, one file each.
void register_profile(lua_State* L);
int new_profile(lua_State* L);
int fit_profile(lua_State* L);
int cross_validate(lua_State* L);
int calibrate(lua_State* L);
int design_points(lua_State* L);
void register_lone_run(lua_State* L);
int pricing(lua_State* L);
int lone_run(lua_State* L);
int scheme_quality(lua_State* L);
int read_profile_data(lua_State* L);
const OptionTable& profile_options();
const OptionTable& fit_options();
const OptionTable& cross_validate_options();
const OptionTable& calibrate_options();
const OptionTable& read_options();

}  // namespace tessera::cost_lua
