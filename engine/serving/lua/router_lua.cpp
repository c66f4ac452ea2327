// Routers: those of the engine, and functions of scripts.

#include <fmt/format.h>

#include "engine_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/function.h"
#include "tessera/lua_kit/record.h"

namespace tessera::serving_lua {
namespace {

/// choose(replicas, request): replicas is a list of { waiting, running, pending_tokens,
/// used_blocks, kv_blocks, seats, share, cached_tokens }, and a position in it comes back.
class ScriptRouter final : public serving::Router {
 public:
  ScriptRouter(std::shared_ptr<const lua_kit::LuaFunction> choose, std::string path, bool prefixes)
      : choose_(std::move(choose)), path_(std::move(path)), prefixes_(prefixes) {}

  bool looks_for_prefixes() const override { return prefixes_; }
  bool looks_at_blocks() const override { return true; }

  std::size_t choose(const std::vector<serving::ReplicaLoad>& loads,
                     const serving::RoutedRequest& request) override {
    lua_State* L = choose_->state();
    lua_createtable(L, static_cast<int>(loads.size()), 0);
    for (std::size_t i = 0; i < loads.size(); ++i) {
      lua_createtable(L, 0, 8);
      set(L, "waiting", loads[i].num_waiting);
      set(L, "running", loads[i].num_running);
      set(L, "pending_tokens", loads[i].pending_tokens);
      set(L, "used_blocks", loads[i].used_blocks);
      set(L, "kv_blocks", loads[i].kv_blocks);
      set(L, "seats", loads[i].num_seats);
      lua_kit::set_number(L, "share", loads[i].share);
      if (prefixes_) set(L, "cached_tokens", request.cached_tokens(i));
      lua_rawseti(L, -2, static_cast<int>(i) + 1);
    }
    lua_createtable(L, 0, 5);
    set(L, "request", request.request);
    set(L, "prompt_tokens", request.prompt_tokens);
    set(L, "max_tokens", request.max_tokens);
    set(L, "priority", request.priority);
    set(L, "slo_class", request.slo_class);
    choose_->call(2, 1);
    const std::int64_t position = lua_kit::check_integer(
        L, -1, path_ + ": the position that it returns", 1, static_cast<double>(loads.size()));
    lua_pop(L, 1);
    return static_cast<std::size_t>(position - 1);
  }

 private:
  static void set(lua_State* L, const char* name, std::int64_t value) {
    lua_pushnumber(L, static_cast<double>(value));
    lua_setfield(L, -2, name);
  }

  std::shared_ptr<const lua_kit::LuaFunction> choose_;
  std::string path_;
  bool prefixes_;
};

}  // namespace

const OptionTable& router_options() {
  static const OptionTable table = [] {
    OptionTable t =
        lua_kit::option_table<serving::RouterOptions>({"ts.deployment.router",
                                                       "How requests are shared out among engines.",
                                                       "table",
                                                       {},
                                                       "string"});
    t.options.push_back({.name = "choose",
                         .type = OptionType::callback,
                         .doc = "choose(replicas, request) of a script: replicas is a list of { "
                                "waiting, running, pending_tokens, used_blocks, kv_blocks, seats, "
                                "share, cached_tokens }; returns a position in it",
                         .lua_type = "fun(replicas: table[], request: table): integer"});
    t.options.push_back({.name = "prefixes",
                         .type = OptionType::boolean,
                         .doc = "Whether `choose` reads cached_tokens, the prompt tokens that an "
                                "engine has in its prefix cache",
                         .default_text = "false"});
    return t;
  }();
  return table;
}

void read_router(lua_State* L, int index, const std::string& path,
                 serving::Deployment& deployment) {
  serving::RouterOptions& router = deployment.router;
  if (lua_type(L, index) == LUA_TSTRING) {
    router.name = lua_kit::check_text(L, index, path);
    serving::make_router(router);  // so that a wrong name is told now
    return;
  }
  const lua_kit::Options options(L, index, router_options(), path);
  lua_kit::read_options(options, router);
  if (!options.push("choose")) {
    lua_pop(L, 1);
    serving::make_router(router);
    return;
  }
  const std::string where =
      options.given("name") ? fmt::format("router '{}'", router.name) : options.path_of("choose");
  if (!options.given("name")) router.name = "choose";
  const auto choose = std::make_shared<lua_kit::LuaFunction>(L, -1, options.path_of("choose"));
  lua_pop(L, 1);
  deployment.make_router = [choose, where, prefixes = options.boolean("prefixes")](
                               const serving::RouterOptions&) -> std::unique_ptr<serving::Router> {
    return std::make_unique<ScriptRouter>(choose, where, prefixes);
  };
}

}  // namespace tessera::serving_lua
