#include "flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "command_line.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
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

void push_list(lua_State* L, const OptionSpec& spec, const std::vector<std::string>& texts) {
  lua_newtable(L);
  int position = 0;
  for (const std::string& text : texts) {
    for (std::size_t start = 0; start <= text.size();) {
      const std::size_t comma = std::min(text.find(',', start), text.size());
      const std::string item = text.substr(start, comma - start);
      if (spec.type == OptionType::integer_list) {
        push_number_or_text(L, item);
      } else {
        lua_kit::push_text(L, item);
      }
      lua_rawseti(L, -2, ++position);
      start = comma + 1;
    }
  }
}

void push_flag_value(lua_State* L, const OptionSpec& spec, const std::vector<std::string>& texts) {
  if (spec.type == OptionType::integer_list || spec.type == OptionType::text_list) {
    return push_list(L, spec, texts);
  }
  if (texts.size() > 1) {
    throw UsageError{fmt::format("{} is given {} times", flag_of(spec.name), texts.size())};
  }
  const std::string& text = texts.front();
  switch (spec.type) {
    case OptionType::integer:
    case OptionType::number:
      return push_number_or_text(L, text);
    case OptionType::boolean:
      if (text == "true" || text == "false") return lua_pushboolean(L, text == "true");
      return lua_kit::push_text(L, text);
    default:
      return lua_kit::push_text(L, text);
  }
}

}  // namespace

std::string flag_of(std::string_view option) {
  std::string flag = "--" + std::string(option);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

void push_flags(lua_State* L, const OptionTable& table, const FlagValues& flags) {
  lua_newtable(L);
  for (const auto& [name, texts] : flags) {
    push_flag_value(L, *table.find(name), texts);
    lua_setfield(L, -2, name.c_str());
  }
  const std::string path(table.name);
  try {
    const lua_kit::Options options(L, -1, table, path);
    for (const OptionSpec& spec : table.options) {
      const std::string name(spec.name);
      if (!options.given(name)) continue;
      options.push(name);
      lua_setfield(L, -2, name.c_str());
    }
  } catch (const Error& error) {
    std::string message = error.what();
    // The user typed a flag, not a Lua option.
    if (message.rfind(path + ".", 0) == 0) {
      const std::size_t end = message.find_first_of(":[", path.size());
      message =
          flag_of(message.substr(path.size() + 1, end - path.size() - 1)) + message.substr(end);
    }
    throw UsageError{message};
  }
}

}  // namespace tessera::app
