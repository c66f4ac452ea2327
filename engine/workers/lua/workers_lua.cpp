#include "workers_lua.h"

#include <memory>

#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/module.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/workers/pool.h"

namespace tessera {
namespace workers_lua {
namespace {

struct ScriptPool {
  mutable std::unique_ptr<workers::Pool> pool;  ///< objects are shared as const; empty: closed
};

struct Home {
  std::string executable;
  workers::Channel* channel = nullptr;
};

const char kHomeKey = 0;

Home& home(lua_State* L) { return *static_cast<Home*>(lua_kit::registry_pointer(L, &kHomeKey)); }

const OptionTable& start_options() {
  static const OptionTable options = lua_kit::option_table<workers::PoolSettings>(
      {"workers.start", "A pool of worker processes", "tessera.Workers", {}});
  return options;
}

int start(lua_State* L) {
  const lua_kit::Options options(L, 1, start_options(), "workers.start");
  workers::PoolSettings settings;
  settings.command = {home(L).executable};
  lua_kit::read_options(options, settings);
  auto pool = std::make_unique<workers::Pool>(std::move(settings));
  lua_kit::push_object(L, std::make_shared<const ScriptPool>(ScriptPool{std::move(pool)}));
  return 1;
}

workers::Pool& self(lua_State* L) {
  const auto& held = lua_kit::check_object<ScriptPool>(L, 1, "workers");
  if (held->pool == nullptr) throw Error(ErrorCode::invalid_argument, "workers: they are closed");
  return *held->pool;
}

int submit(lua_State* L) {
  const auto id = lua_kit::check_integer(L, 2, "workers:submit.id", 1, 1e15);
  self(L).submit(static_cast<std::uint64_t>(id), lua_kit::check_text(L, 3, "workers:submit.text"));
  return 0;
}

int wait(lua_State* L) {
  const double timeout_s = lua_kit::check_number(L, 2, "workers:wait.timeout_s", 0, 1e7, "s");
  lua_kit::push_value(L, self(L).wait(timeout_s));
  return 1;
}

int withdraw(lua_State* L) {
  lua_pushnumber(L, static_cast<double>(self(L).withdraw()));
  return 1;
}

int num_open(lua_State* L) {
  lua_pushnumber(L, static_cast<double>(self(L).num_open()));
  return 1;
}

int close_pool(lua_State* L) {
  lua_kit::check_object<ScriptPool>(L, 1, "workers")->pool.reset();
  return 0;
}

int machine_memory(lua_State* L) {
  lua_pushnumber(L, workers::machine_memory_bytes());
  return 1;
}

workers::Channel& channel(lua_State* L) { return *home(L).channel; }

int receive(lua_State* L) {
  const auto message = channel(L).receive();
  if (!message) return 0;
  lua_kit::push_integer(L, static_cast<std::int64_t>(message->id));
  lua_kit::push_text(L, message->text);
  return 2;
}

int ready(lua_State* L) {
  channel(L).ready();
  return 0;
}

int answer(lua_State* L) {
  const auto id = lua_kit::check_integer(L, 1, "channel.answer.id", 1, 1e15);
  channel(L).answer(static_cast<std::uint64_t>(id), lua_kit::check_text(L, 2, "channel.answer"),
                    lua_kit::check_boolean(L, 3, "channel.answer.last"));
  return 0;
}

}  // namespace
}  // namespace workers_lua

template <>
const lua_kit::ObjectType<workers_lua::ScriptPool>&
lua_kit::object_type<workers_lua::ScriptPool>() {
  using namespace workers_lua;
  static const ObjectType<ScriptPool> type{
      .name = "tessera.Workers",
      .doc = "Worker processes",
      .fields = {},
      .methods = {{"submit", guarded<submit>, "(id: integer, text: string)", "Adds an item"},
                  {"wait", guarded<wait>, "(timeout_s: number): table[]", "What became of items"},
                  {"withdraw", guarded<withdraw>, "(): integer", "Forgets what no worker began"},
                  {"num_open", guarded<num_open>, "(): integer", "Items without an outcome"},
                  {"close", guarded<close_pool>, "()", "Ends the processes"}},
      .summary = [](const ScriptPool&) { return std::string("worker processes"); }};
  return type;
}

namespace workers_lua {

void register_workers(lua_State* L, const std::string& executable, workers::Channel* line) {
  lua_kit::register_object<ScriptPool>(L);
  // Lives as long as the program: every state of a process has the same.
  static Home* const shared = new Home;
  *shared = {executable, line};
  lua_pushlightuserdata(L, const_cast<char*>(&kHomeKey));
  lua_pushlightuserdata(L, shared);
  lua_rawset(L, LUA_REGISTRYINDEX);
  lua_kit::register_module(L, "tessera.workers",
                           {{"start", lua_kit::guarded<start>},
                            {"machine_memory_bytes", lua_kit::guarded<machine_memory>}});
  if (line == nullptr) return;
  lua_kit::register_module(L, "tessera.workers.channel",
                           {{"receive", lua_kit::guarded<receive>},
                            {"ready", lua_kit::guarded<ready>},
                            {"answer", lua_kit::guarded<answer>}});
}

}  // namespace workers_lua
}  // namespace tessera
