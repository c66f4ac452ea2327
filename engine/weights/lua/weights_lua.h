#pragma once

#include <lua.hpp>
#include <memory>
#include <string>

#include "tessera/lua_kit/object.h"
#include "tessera/weights/tensor.h"
#include "tessera/weights/weights.h"

namespace tessera::lua_kit {
template <>
const ObjectType<weights::Weights>& object_type<weights::Weights>();
template <>
const ObjectType<weights::Tensor>& object_type<weights::Tensor>();
}  // namespace tessera::lua_kit

namespace tessera::weights_lua {

/// What ts.weights and ts.tensor made; a path is opened. `path` is named in errors.
std::shared_ptr<const weights::Weights> weights_argument(lua_State* L, int index,
                                                         const std::string& path);
std::shared_ptr<const weights::Tensor> tensor_argument(lua_State* L, int index,
                                                       const std::string& path);

/// Makes `require "tessera.weights"` work. Needs the core's environment.
void register_weights(lua_State* L);

// Parts of it.
void register_tensor(lua_State* L);
int new_tensor(lua_State* L);

/// A table of the tensors, those of all layers that look alike on one line.
std::string print_weights(const weights::Weights& weights);

}  // namespace tessera::weights_lua
