#include "help.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/value.h"

namespace tessera::app {
namespace {

// Pushes require("tessera")[name] if that is a function.
bool push_library_function(lua_State* L, const char* name) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera");
  if (lua_kit::protected_call(L, 1, 1) != 0 || !lua_istable(L, -1)) {
    lua_pop(L, 1);
    return false;
  }
  lua_kit::push_text(L, name);
  lua_rawget(L, -2);
  lua_remove(L, -2);
  if (lua_isfunction(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

// Topics that the Lua library adds: `help_topics()` returns a list of names.
std::vector<std::string> library_topics(lua_State* L) {
  const lua_kit::StackGuard guard(L);
  std::vector<std::string> topics;
  if (!push_library_function(L, "help_topics")) return topics;
  if (lua_kit::protected_call(L, 0, 1) != 0 || !lua_istable(L, -1)) return topics;
  const int length = static_cast<int>(lua_objlen(L, -1));
  for (int i = 1; i <= length; ++i) {
    lua_rawgeti(L, -1, i);
    if (lua_type(L, -1) == LUA_TSTRING) topics.push_back(lua_kit::check_text(L, -1, "topic"));
    lua_pop(L, 1);
  }
  return topics;
}

std::vector<std::string> all_topics(Host& host) {
  std::vector<std::string> topics = host.reference().topics();
  for (std::string& topic : library_topics(host.state())) topics.push_back(std::move(topic));
  std::sort(topics.begin(), topics.end());
  topics.erase(std::unique(topics.begin(), topics.end()), topics.end());
  return topics;
}

}  // namespace

std::string usage_text() {
  return "tessera plans, predicts and simulates LLM serving on mixed GPUs.\n"
         "\n"
         "  tessera FILE.lua [ARGS]          run a script; it gets ARGS as ... and in arg\n"
         "  tessera run FILE.lua... [ARGS]   run several, one after the other, in one Lua state\n"
         "  tessera -e CODE [ARGS]           run code; with --json print what it returns\n"
         "  tessera plan --model MODEL --cluster CLUSTER [OPTIONS]\n"
         "                                   plan and print; 'tessera plan --help' lists options\n"
         "  tessera repl                     prompt with history and completion\n"
         "  tessera list                     experiments and examples, one line each\n"
         "  tessera help [TOPIC]             this text, or what is known about TOPIC\n"
         "  tessera version                  what the program was built from\n"
         "\n"
         "  --json                           print data as JSON and nothing else on stdout\n"
         "\n"
         "Exit status: 0 done, 1 error, 2 usage, 3 infeasible, 130 interrupted.\n"
         "TESSERA_PATH: folders (separated by ':') with modules, data and experiments of yours.\n";
}

std::string help_overview(Host& host) {
  std::string text = usage_text() + "\nTopics:\n";
  for (const std::string& topic : all_topics(host)) {
    text += fmt::format("  {:<26}{}\n", topic, host.reference().summary(topic));
  }
  return text;
}

std::optional<std::string> help_topic(Host& host, const std::string& topic) {
  for (const std::string& name : {topic, "ts." + topic, "tessera." + topic, "tessera " + topic}) {
    if (auto text = host.reference().help(name)) return text;
  }
  lua_State* L = host.state();
  const lua_kit::StackGuard guard(L);
  if (!push_library_function(L, "help_topic")) return std::nullopt;
  lua_kit::push_text(L, topic);
  if (lua_kit::protected_call(L, 1, 1) != 0) {
    host.report_error();
    lua_pushnil(L);  // keeps the stack as the guard expects it
    return std::nullopt;
  }
  if (lua_type(L, -1) != LUA_TSTRING) return std::nullopt;
  std::string text = lua_kit::check_text(L, -1, "help");
  if (text.empty() || text.back() != '\n') text += '\n';
  return text;
}

std::string nearest_topics(Host& host, const std::string& topic) {
  return did_you_mean(topic, all_topics(host));
}

}  // namespace tessera::app
