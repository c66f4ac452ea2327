// Deployments of several models, whose places a script decides (scripts/tessera/strategies).

#include <fmt/format.h>

#include <algorithm>

#include "core_lua.h"
#include "deployment_lua.h"
#include "engine_lua.h"
#include "scheduler_lua.h"
#include "served_lua.h"
#include "serving_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/serving/models.h"

namespace tessera::solver_lua {
namespace {

using serving::DeviceView;
using serving::ModelPlacement;
using solver::AssembledDeployment;
using solver::DeploymentOptions;

constexpr double kMost = 1e18;

/// Reads a field of the table at `index`, where it is there: read(L, its index, its path).
template <class Read>
void with_field(lua_State* L, int index, const char* name, const std::string& path,
                const Read& read) {
  if (lua_kit::push_field(L, index, name, path)) {
    read(L, lua_gettop(L), lua_kit::field_path(path, name));
  }
  lua_pop(L, 1);
}

double number_field(lua_State* L, int index, const char* name, const std::string& path,
                    double absent, double most) {
  with_field(L, index, name, path, [&](lua_State*, int at, const std::string& where) {
    absent = lua_kit::check_number(L, at, where, 0, most);
  });
  return absent;
}

std::string text_field(lua_State* L, int index, const char* name, const std::string& path) {
  std::string text;
  with_field(L, index, name, path, [&](lua_State*, int at, const std::string& where) {
    text = lua_kit::check_utf8(L, at, where);
  });
  return text;
}

/// What all placements of a deployment are made with.
struct Making {
  std::string path;
  DataFolders folders;
  std::shared_ptr<cost::PriceCache> prices = std::make_shared<cost::PriceCache>();
};

/// One of a placement's replicas: { pool =, devices =, stage_bytes =, seats = }, several where it
/// is a plan of several.
void read_replicas(lua_State* L, const std::string& path, const Making& making,
                   ModelPlacement& placement) {
  const int table = lua_gettop(L);
  DeploymentOptions options;
  options.make_scheduler = serving_lua::scheduler_maker(L);
  options.prices = making.prices;
  with_field(L, table, "pool", path, [&](lua_State*, int index, const std::string& where) {
    options.pools.emplace().push_back(pool_argument(L, index, where));
  });
  with_field(L, table, "seats", path, [&](lua_State*, int index, const std::string& where) {
    std::int64_t& seats = options.pools->front().engine.max_num_seqs;
    seats = std::max(seats, lua_kit::check_integer(L, index, where, 1, 1 << 20, "requests"));
  });
  std::vector<double> stage_bytes;
  with_field(L, table, "stage_bytes", path, [&](lua_State*, int index, const std::string& where) {
    lua_kit::for_each_item(L, index, where, [&](std::size_t, const std::string& item) {
      stage_bytes.push_back(lua_kit::check_number(L, -1, item, 0, kMost, "bytes"));
    });
  });
  AssembledDeployment made = solver::assemble(options, making.folders, making.path);
  for (serving::Replica& replica : made.deployment.replicas) {
    replica.stage_bytes = stage_bytes;
    placement.replicas.push_back(std::move(replica));
  }
}

/// Where a strategy of a script puts models.
class ScriptPlacer final : public serving::Placer {
 public:
  /// The functions that decide lie on top of the stack: of places, and of requests, or nil.
  ScriptPlacer(lua_State* L, std::shared_ptr<const Making> making)
      : place_(L, -2, making->path + ".strategy"), making_(std::move(making)) {
    if (!lua_isnil(L, -1)) route_.emplace(L, -1, making_->path + ".strategy");
  }

  ModelPlacement place(std::size_t model, double now_s,
                       const std::vector<DeviceView>& devices) override {
    lua_State* L = place_.state();
    const lua_kit::StackGuard guard(L);
    luaL_checkstack(L, 12, "a place");
    lua_pushnumber(L, static_cast<double>(model + 1));
    lua_pushnumber(L, now_s);
    lua_kit::push_value(L, devices);
    place_.call(3, 2);
    const int table = lua_gettop(L) - 1;
    ModelPlacement placement;
    if (lua_isnil(L, table)) {
      placement.why = lua_kit::check_utf8(L, table + 1, making_->path + ".strategy: its reason");
      return placement;
    }
    const std::string path = making_->path + ".strategy";
    with_field(L, table, "replicas", path, [&](lua_State*, int index, const std::string& where) {
      lua_kit::for_each_item(L, index, where, [&](std::size_t, const std::string& item) {
        read_replicas(L, item, *making_, placement);
      });
    });
    with_field(L, table, "layers", path, [&](lua_State*, int index, const std::string& where) {
      lua_kit::for_each_item(L, index, where, [&](std::size_t, const std::string& item) {
        placement.layers.push_back(lua_kit::check_integer(L, -1, item, 0, 1e6, "layers"));
      });
    });
    placement.ready_after_s =
        number_field(L, table, "ready_after_s", path, 0, serving::kLongestRun_s);
    placement.memory_bytes = number_field(L, table, "memory_bytes", path, 0, kMost);
    with_field(L, table, "configuration", path,
               [&](lua_State*, int index, const std::string& where) {
                 placement.configuration = lua_kit::json_from_lua(L, index, where).dump();
               });
    return placement;
  }

  bool routes() const override { return route_.has_value(); }

  std::optional<std::size_t> route(std::size_t model, double now_s,
                                   const serving::RoutedRequest& request) override {
    lua_State* L = route_->state();
    const lua_kit::StackGuard guard(L);
    luaL_checkstack(L, 8, "a request");
    lua_pushnumber(L, static_cast<double>(model + 1));
    lua_createtable(L, 0, 6);
    lua_kit::set_number(L, "now_s", now_s);
    lua_kit::set_integer(L, "request", request.request);
    lua_kit::set_integer(L, "prompt_tokens", request.prompt_tokens);
    lua_kit::set_integer(L, "max_tokens", request.max_tokens);
    lua_kit::set_integer(L, "priority", request.priority);
    lua_kit::set_integer(L, "slo_class", request.slo_class);
    route_->call(2, 1);
    if (lua_isnil(L, -1)) return std::nullopt;
    const std::int64_t position = lua_kit::check_integer(
        L, -1, making_->path + ".strategy: the engine that route returns", 1, 1e6);
    return static_cast<std::size_t>(position - 1);
  }

 private:
  lua_kit::LuaFunction place_;
  std::optional<lua_kit::LuaFunction> route_;
  std::shared_ptr<const Making> making_;
};

/// start(traffic, devices) of a script returns the functions that decide.
serving::MakePlacer placer_maker(lua_State* L, int index, const std::string& path) {
  const auto making =
      std::make_shared<const Making>(Making{path, core_lua::environment(L).folders});
  const auto start = std::make_shared<lua_kit::LuaFunction>(L, index, path + ".start");
  return
      [start, making](const serving::Traffic& traffic,
                      const std::vector<DeviceView>& devices) -> std::unique_ptr<serving::Placer> {
        lua_State* state = start->state();
        const lua_kit::StackGuard guard(state);
        luaL_checkstack(state, 8, "a strategy");
        lua_kit::push_object<serving::Traffic>(state, std::make_shared<serving::Traffic>(traffic));
        lua_kit::push_value(state, devices);
        start->call(2, 2);
        return std::make_unique<ScriptPlacer>(state, making);
      };
}

serving::ModelSet model_set(lua_State* L, int index, const std::string& path,
                            std::vector<serving::Slo>& slos) {
  serving::ModelSet set;
  bool has_slo = false;
  with_field(L, index, "models", path, [&](lua_State*, int list, const std::string& where) {
    lua_kit::for_each_item(L, list, where, [&](std::size_t, const std::string& item) {
      const int model = lua_gettop(L);
      serving::ServedModel own{text_field(L, model, "name", item)};
      own.at_s = number_field(L, model, "at_s", item, 0, serving::kLongestRun_s);
      const double until_s = number_field(L, model, "until_s", item, -1, serving::kLongestRun_s);
      if (until_s >= 0) own.until_s = until_s;
      serving::Slo slo;
      with_field(L, model, "slo", item, [&](lua_State*, int at, const std::string& slo_path) {
        const std::vector<serving::Slo> read = serving_lua::slo_argument(L, at, slo_path);
        if (read.size() != 1) refuse(slo_path, "a model has one; give a table of limits");
        slo = read.front();
        has_slo = true;
      });
      slo.name = own.name;
      slos.push_back(std::move(slo));
      set.models.push_back(std::move(own));
    });
  });
  if (!has_slo) slos.clear();
  with_field(L, index, "devices", path, [&](lua_State*, int list, const std::string& where) {
    lua_kit::for_each_item(L, list, where, [&](std::size_t, const std::string& item) {
      const int device = lua_gettop(L);
      set.devices.push_back({text_field(L, device, "name", item),
                             number_field(L, device, "total_bytes", item, 0, kMost)});
    });
  });
  set.window_s = number_field(L, index, "window_s", path, set.window_s, serving::kLongestRun_s);
  return set;
}

}  // namespace

int new_models_deployment(lua_State* L) {
  const std::string path = "ts.deployment";
  lua_settop(L, 1);
  luaL_checkstack(L, 12, "a deployment");
  auto made = std::make_shared<AssembledDeployment>();
  auto set = std::make_shared<serving::ModelSet>(model_set(L, 1, path, made->model_slos));
  with_field(L, 1, "start", path, [&](lua_State*, int index, const std::string&) {
    set->make_placer = placer_maker(L, index, path);
  });
  with_field(L, 1, "router", path, [&](lua_State*, int index, const std::string& where) {
    serving_lua::read_router(L, index, where, made->deployment);
  });
  made->deployment.api_s = number_field(L, 1, "api_s", path, 0, 1000);
  made->source = text_field(L, 1, "source", path);
  made->deployment.models = std::move(set);
  lua_kit::push_object<AssembledDeployment>(L, std::move(made));
  return 1;
}

}  // namespace tessera::solver_lua
