#include "plan_verb.h"

#include <cstdlib>

#include "command_line.h"
#include "plan_options.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/value.h"

namespace tessera::app {
namespace {

void push_number_or_text(lua_State* L, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') {
    lua_kit::push_text(L, text);  // refused by the option's check, which can name it
  } else {
    lua_pushnumber(L, value);
  }
}

void push_flag_value(lua_State* L, const OptionSpec& spec, const std::string& text) {
  switch (spec.type) {
    case OptionType::integer:
    case OptionType::number:
      return push_number_or_text(L, text);
    case OptionType::boolean:
      if (text == "true" || text == "false") return lua_pushboolean(L, text == "true");
      return lua_kit::push_text(L, text);
    case OptionType::integer_list:
    case OptionType::text_list: {
      lua_newtable(L);
      std::size_t start = 0;
      for (int i = 1; start <= text.size(); ++i) {
        const std::size_t comma = std::min(text.find(',', start), text.size());
        const std::string item = text.substr(start, comma - start);
        if (spec.type == OptionType::integer_list) {
          push_number_or_text(L, item);
        } else {
          lua_kit::push_text(L, item);
        }
        lua_rawseti(L, -2, i);
        start = comma + 1;
      }
      return;
    }
    default:
      return lua_kit::push_text(L, text);
  }
}

// Pushes the checked options; what is not given is defaulted where the library does so.
void push_options(lua_State* L, const std::map<std::string, std::string>& flags) {
  lua_newtable(L);
  for (const auto& [name, text] : flags) {
    push_flag_value(L, *plan_options().find(name), text);
    lua_setfield(L, -2, name.c_str());
  }
  const std::string path = "plan";
  try {
    const lua_kit::Options options(L, -1, plan_options(), path);
    for (const OptionSpec& spec : plan_options().options) {
      const std::string name(spec.name);
      if (!options.given(name)) continue;
      options.push(name);
      lua_setfield(L, -2, name.c_str());
    }
  } catch (const Error& error) {
    std::string message = error.what();
    // The user typed a flag, not a Lua option.
    if (message.rfind(path + ".", 0) == 0) {
      const std::size_t end = message.find_first_of(":[");
      message =
          flag_of(message.substr(path.size() + 1, end - path.size() - 1)) + message.substr(end);
    }
    throw UsageError{message};
  }
}

}  // namespace

ExitStatus run_plan(Host& host, const std::map<std::string, std::string>& flags) {
  lua_State* L = host.state();
  lua_settop(L, 0);
  push_options(L, flags);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.cli");
  if (const ExitStatus status = host.call(1, 1); status != kDone) return status;
  lua_getfield(L, -1, "plan");
  lua_pushvalue(L, 1);
  if (const ExitStatus status = host.call(1, 2); status != kDone) return status;
  if (lua_toboolean(L, -2)) return kDone;
  return host.report_error();  // the `why` on top reads like an error that was raised
}

}  // namespace tessera::app
