#include "help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "tessera/core/json.h"
#include "tessera/core/layout.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "verbs.h"

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
  lua_kit::push_field(L, -1, name, "tessera");
  lua_remove(L, -2);
  if (lua_isfunction(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

using Topics = std::map<std::string, std::string>;  // name and one line

std::optional<std::string> reference_help(Host& host, const std::string& topic) {
  std::string object = "tessera." + topic;  // "search" means tessera.Search as well
  if (object.size() > 8) object[8] = static_cast<char>(std::toupper(object[8]));
  for (const std::string& name :
       {topic, "ts." + topic, "tessera." + topic, "tessera " + topic, object}) {
    if (auto text = host.reference().help(name)) return text;
  }
  return std::nullopt;
}

// Topics that the Lua library adds: `help_topics()` returns { [name] = "one line" }.
Topics library_topics(lua_State* L) {
  const lua_kit::StackGuard guard(L);
  Topics topics;
  if (!push_library_function(L, "help_topics")) return topics;
  if (lua_kit::protected_call(L, 0, 1) != 0) return topics;
  const Json found = lua_kit::json_from_lua(L, -1, "help_topics()");
  for (const auto& [name, line] : found.items()) {
    if (line.is_string()) topics[name] = line;
  }
  return topics;
}

Topics all_topics(Host& host) {
  Topics topics = library_topics(host.state());  // first, because loading the library adds cards
  for (const std::string& name : host.reference().topics()) {
    const std::string summary = host.reference().summary(name);
    const std::size_t end = summary.find(". ");  // the first sentence
    topics[name] = end == std::string::npos ? summary : summary.substr(0, end + 1);
  }
  return topics;
}

}  // namespace

std::string usage_text() {
  constexpr std::size_t kSaid = 35;
  const auto said = [](std::string_view name, std::string_view text) {
    return entry(name, text, kSaid, kHelpColumns);
  };
  std::string verbs;
  for (const LuaVerb& verb : lua_verbs()) {
    const std::string words =
        verb.positional.empty() ? "" : fmt::format(" [{}...]", verb.positional);
    verbs += said(fmt::format("tessera {}{}", verb.name, words), verb.summary);
  }
  return "tessera plans, predicts and simulates LLM serving on mixed GPUs.\n\n" +
         said("tessera FILE.lua [ARGS]", "run a script; it gets ARGS as ... and in arg") +
         said("tessera run FILE... [FLAGS]", "run scripts and sweep experiments") +
         said("tessera -e CODE [ARGS]", "run code; with --json print what it returns") + verbs +
         said("tessera repl", "prompt with history and completion") +
         said("tessera list", "experiments and examples, one line each") +
         said("tessera help [TOPIC]", "this text, or what is known about TOPIC") +
         said("tessera version [--kernels]",
              "what the program was built from; which kernels it runs") +
         "\n" + said("VERB --help", "the flags of run and of the verbs from plan to man") +
         said("--json", "print data as JSON and nothing else on stdout") +
         "\n"
         "Exit status: 0 done, 1 error, 2 usage, 3 infeasible, 130 interrupted.\n"
         "TESSERA_PATH: folders (separated by ':') with modules, data and experiments of\n"
         "yours.\n";
}

namespace {

enum class Group { concepts, functions, objects, verbs, methods };

Group group_of(const std::string& topic) {
  if (topic.starts_with("tessera ")) return Group::verbs;
  if (topic.starts_with("tessera.")) return Group::objects;
  if (topic.starts_with("ts.")) return Group::functions;
  const bool of_method = topic.find_first_of(":.") != std::string::npos;
  return of_method ? Group::methods : Group::concepts;
}

/// Of each its name and what is said of it.
std::string described(const Topics& topics, Group group) {
  std::string text;
  for (const auto& [name, line] : topics) {
    if (group_of(name) == group) text += entry(name, line, 28, kHelpColumns);
  }
  return text;
}

/// The names alone, as many to a line as fit.
std::string named_only(const Topics& topics, Group group) {
  std::string text;
  for (const auto& topic : topics) {
    if (group_of(topic.first) == group) text += (text.empty() ? "" : "   ") + topic.first;
  }
  std::string lines;
  while (!text.empty()) {
    std::size_t end =
        text.size() <= kHelpColumns - 2 ? text.size() : text.rfind("   ", kHelpColumns - 2);
    lines += "  " + text.substr(0, end) + "\n";
    text.erase(0, std::min(text.find_first_not_of(' ', end), text.size()));
  }
  return lines;
}

}  // namespace

std::string help_overview(Host& host) {
  const Topics topics = all_topics(host);
  return usage_text() +
         "\nStart here:\n"
         "  tessera plan --model llama-3.1-8b --cluster 2xA100-80G    a first plan\n"
         "  tessera man tutorial      six steps to experiments of your own\n"
         "  tessera man               all pages\n"
         "  tessera examples          scripts to copy\n"
         "  tessera support llama-3.1-8b L4    what fits and runs on a GPU\n"
         "\nConcepts, and what ships (tessera help TOPIC for each of these and below):\n" +
         described(topics, Group::concepts) +
         "\nThe library (`ts` in scripts and at the prompt):\n" +
         described(topics, Group::functions) + "\nObjects that it returns or takes:\n" +
         named_only(topics, Group::objects) + "\nMethods with options of their own:\n" +
         named_only(topics, Group::methods) + "\nVerbs with flags (also tessera VERB --help):\n" +
         named_only(topics, Group::verbs);
}

namespace {

// A topic of the Lua library, whose names ("planners") mean the list and not the function.
std::optional<std::string> library_help(Host& host, const std::string& topic) {
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

}  // namespace

std::optional<std::string> help_topic(Host& host, const std::string& topic) {
  if (auto text = reference_help(host, topic)) {
    const auto words = library_help(host, topic);  // "quality" is a verb, and a thing to know of
    return words ? *words + "\n" + *text : text;
  }
  if (auto text = library_help(host, topic)) return text;
  return reference_help(host, topic);  // loading the library has added its own functions
}

std::string nearest_topics(Host& host, const std::string& topic) {
  std::vector<std::string> names;
  for (const auto& known : all_topics(host)) names.push_back(known.first);
  return did_you_mean(topic, names);
}

}  // namespace tessera::app
