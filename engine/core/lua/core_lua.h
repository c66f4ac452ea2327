#pragma once

#include <functional>
#include <lua.hpp>
#include <memory>
#include <string>

#include "tessera/core/cluster.h"
#include "tessera/core/device.h"
#include "tessera/core/files.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/option.h"
#include "tessera/core/workload.h"
#include "tessera/lua_kit/annotations.h"

/// The things of a planning problem as scripts see them: models, devices, clusters, workloads.
namespace tessera::core_lua {

/// What bindings share within one Lua state; owned by the host, which outlives the state.
struct Environment {
  DataFolders folders;
  lua_kit::Reference& reference;
  /// The architecture that a file of weights speaks of; set by the bindings of weights.
  std::function<ModelShape(const std::string& path)> model_of_weights = {};
};

void set_environment(lua_State* L, Environment* environment);
Environment& environment(lua_State* L);

/// Wherever one of these is wanted, an object, its name, or a table of its fields does. `path` is
/// named in errors.
std::shared_ptr<const ModelShape> model_argument(lua_State* L, int index, const std::string& path);
std::shared_ptr<const Device> device_argument(lua_State* L, int index, const std::string& path);
std::shared_ptr<const Cluster> cluster_argument(lua_State* L, int index, const std::string& path);
std::shared_ptr<const Workload> workload_argument(lua_State* L, int index, const std::string& path);

/// Makes `require "tessera.core"` work and fills the reference. Needs `set_environment`.
void register_core(lua_State* L);

/// Options of ts.workload; the command line offers some of them.
const OptionTable& workload_options();

// Parts of register_core, one file each.
void register_model(lua_State* L);
void register_device(lua_State* L);
void register_cluster(lua_State* L);
void register_workload(lua_State* L);

int new_model(lua_State* L);
int new_device(lua_State* L);
int device_meant(lua_State* L);
int model_id(lua_State* L);
int stored_format(lua_State* L);
int devices_called(lua_State* L);
int short_name(lua_State* L);
int new_cluster(lua_State* L);
int cluster_of_text(lua_State* L);
int new_workload(lua_State* L);

int document(lua_State* L);
int document_object(lua_State* L);
int option_reader(lua_State* L);
int write_folder(lua_State* L);
int folder_files(lua_State* L);

}  // namespace tessera::core_lua
