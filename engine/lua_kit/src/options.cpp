#include <fmt/format.h>

#include <algorithm>

#include "literal.h"
#include "lua_type.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::lua_kit {
namespace {

// Where an option's type says so, one number stands for a list of it alone.
bool takes_one_number(const OptionSpec& spec) {
  if (spec.type != OptionType::integer_list || spec.lua_type.empty()) return false;
  const auto types = alternatives(spec.lua_type);
  return std::find(types.begin(), types.end(), "integer") != types.end();
}

// Items of the value on top of the stack, each on top of it for as long as it is checked.
template <class Check>
void for_each_value(lua_State* L, const std::string& path, const OptionSpec& spec, Check&& check) {
  if (lua_type(L, -1) == LUA_TNUMBER && takes_one_number(spec)) return check(path);
  const int list = lua_gettop(L);
  const std::size_t length = list_length(L, list, path, "give " + describe_range(spec));
  for (std::size_t i = 1; i <= length; ++i) {
    push_item(L, list, i, path);
    check(item_path(path, i));
    lua_pop(L, 1);
  }
}

std::string check_choice(lua_State* L, const std::string& path, const OptionSpec& spec) {
  const std::vector<std::string> choices(spec.choices.begin(), spec.choices.end());
  if (lua_type(L, -1) != LUA_TSTRING) {
    refuse(path, describe_value(L, -1) + " is not a choice; give " + describe_range(spec));
  }
  std::string text = check_text(L, -1, path);
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    const bool is_near = !nearest_names(text, choices).empty();
    refuse(path, quote(text) + " is not a choice" +
                     (is_near ? did_you_mean(text, choices) + " Give " : "; give ") +
                     describe_range(spec));
  }
  return text;
}

}  // namespace

Options::Options(lua_State* L, int index, const OptionTable& table, std::string path, Keys keys)
    : L_(L),
      index_(index < 0 && index > LUA_REGISTRYINDEX ? lua_gettop(L) + 1 + index : index),
      table_(table),
      path_(std::move(path)) {
  luaL_checkstack(L, 8, "options");
  const StackGuard guard(L);
  if (lua_isnoneornil(L, index_)) {
    for (const OptionSpec& option : table_.options) {
      if (option.required)
        refuse(path_, "a table of options is needed, got " + describe_value(L, index_));
    }
    index_ = 0;
    return;
  }
  if (!lua_istable(L, index_)) {
    refuse(path_, describe_value(L, index_) + " where a table of options belongs");
  }
  check_keys(keys);
  for (const OptionSpec& option : table_.options) {
    if (given(option.name)) {
      check_value(option);
    } else if (option.required) {
      refuse(path_of(option.name), "missing; give {}{}{}", describe_range(option),
             option.doc.empty() ? "" : ": ", option.doc);
    }
  }
}

std::string Options::path_of(std::string_view name) const {
  return path_ + "." + std::string(name);
}

const OptionSpec& Options::spec(std::string_view name) const {
  const OptionSpec* found = table_.find(name);
  if (found == nullptr) {
    throw Error(ErrorCode::internal,
                fmt::format("the option table {} has no '{}'", table_.name, name));
  }
  return *found;
}

void Options::check_keys(Keys keys) {
  const std::size_t length = keys == Keys::named ? 0 : lua_objlen(L_, index_);
  for (lua_pushnil(L_); lua_next(L_, index_) != 0; lua_pop(L_, 1)) {
    if (lua_type(L_, -2) == LUA_TSTRING) {
      const std::string key = check_text(L_, -2, path_);
      if (table_.find(key) != nullptr) continue;
      std::vector<std::string> names;
      for (const OptionSpec& option : table_.options) names.emplace_back(option.name);
      refuse(path_, "unknown option " + quote(key) + did_you_mean(key, names));
    }
    if (keys == Keys::named) {
      refuse(path_, "options have names, but the key " + describe_value(L_, -2) + " was given");
    }
    const double position = lua_type(L_, -2) == LUA_TNUMBER ? lua_tonumber(L_, -2) : 0;
    if (!(position >= 1 && position <= static_cast<double>(length)) ||
        position != static_cast<double>(static_cast<std::int64_t>(position))) {
      refuse(path_, "the key " + describe_value(L_, -2) + " is neither an option nor an item");
    }
    ++num_positional_;
  }
  if (static_cast<std::size_t>(num_positional_) != length) refuse(path_, "the list has gaps");
}

void Options::check_value(const OptionSpec& option) const {
  const StackGuard guard(L_);
  const std::string path = path_of(option.name);
  push(option.name);
  const auto wrong = [&] {
    refuse(path, describe_value(L_, -1) + " has the wrong type; give " + describe_range(option));
  };
  switch (option.type) {
    case OptionType::boolean:
      if (!lua_isboolean(L_, -1)) wrong();
      break;
    case OptionType::integer:
      check_integer(L_, -1, path, option.min, option.max, option.unit);
      break;
    case OptionType::number:
      check_number(L_, -1, path, option.min, option.max, option.unit);
      break;
    case OptionType::text:
      if (lua_type(L_, -1) != LUA_TSTRING) wrong();
      check_utf8(L_, -1, path);
      break;
    case OptionType::choice:
      check_choice(L_, path, option);
      break;
    case OptionType::integer_list:
      for_each_value(L_, path, option, [&](const std::string& item) {
        check_integer(L_, -1, item, option.min, option.max, option.unit);
      });
      break;
    case OptionType::text_list:
      for_each_value(L_, path, option, [&](const std::string& item) { check_utf8(L_, -1, item); });
      break;
    case OptionType::table:
      if (!fits_type(L_, -1, option.lua_type.empty() ? "table" : option.lua_type)) {
        refuse(path, "{} has the wrong type; give {}{}{}", describe_value(L_, -1),
               describe_range(option), option.doc.empty() ? "" : ": ", option.doc);
      }
      break;
    case OptionType::callback:
      if (!lua_isfunction(L_, -1)) wrong();
      break;
  }
}

void Options::refuse_others(const std::vector<std::string_view>& names,
                            std::string_view reason) const {
  for (const OptionSpec& option : table_.options) {
    if (given(option.name) && std::find(names.begin(), names.end(), option.name) == names.end()) {
      refuse(path_of(option.name), std::string(reason));
    }
  }
}

bool Options::given(std::string_view name) const {
  if (index_ == 0) return false;
  push_text(L_, name);
  lua_rawget(L_, index_);
  const bool present = !lua_isnil(L_, -1);
  lua_pop(L_, 1);
  return present;
}

bool Options::has(std::string_view name) const {
  return given(name) || !spec(name).default_text.empty();
}

bool Options::push(std::string_view name) const {
  const OptionSpec& option = spec(name);
  luaL_checkstack(L_, 4, "options");
  if (index_ != 0) {
    push_text(L_, name);
    lua_rawget(L_, index_);
    if (!lua_isnil(L_, -1)) return true;
    lua_pop(L_, 1);
  }
  push_literal(L_, option.default_text);
  return !lua_isnil(L_, -1);
}

void Options::push_positional(int position) const {
  push_item(L_, index_, static_cast<std::size_t>(position), path_);
}

std::int64_t Options::integer(std::string_view name) const {
  const StackGuard guard(L_);
  const OptionSpec& option = spec(name);
  push(name);
  return check_integer(L_, -1, path_of(name), option.min, option.max, option.unit);
}

double Options::number(std::string_view name) const {
  const StackGuard guard(L_);
  const OptionSpec& option = spec(name);
  push(name);
  return check_number(L_, -1, path_of(name), option.min, option.max, option.unit);
}

std::string Options::text(std::string_view name) const {
  const StackGuard guard(L_);
  push(name);
  return check_text(L_, -1, path_of(name));
}

bool Options::boolean(std::string_view name) const {
  const StackGuard guard(L_);
  push(name);
  return check_boolean(L_, -1, path_of(name));
}

std::string Options::choice(std::string_view name) const {
  const StackGuard guard(L_);
  push(name);
  return check_choice(L_, path_of(name), spec(name));
}

std::vector<std::int64_t> Options::integers(std::string_view name) const {
  const StackGuard guard(L_);
  const OptionSpec& option = spec(name);
  std::vector<std::int64_t> values;
  if (!push(name)) return values;
  for_each_value(L_, path_of(name), option, [&](const std::string& item) {
    values.push_back(check_integer(L_, -1, item, option.min, option.max, option.unit));
  });
  return values;
}

Json Options::json(std::string_view name, Json absent) const {
  const StackGuard guard(L_);
  if (!push(name)) return absent;
  Json value = json_from_lua(L_, -1, path_of(name));
  return value.empty() ? absent : value;
}

std::vector<std::string> Options::texts(std::string_view name) const {
  const StackGuard guard(L_);
  std::vector<std::string> values;
  if (!push(name)) return values;
  for_each_value(L_, path_of(name), spec(name),
                 [&](const std::string& item) { values.push_back(check_text(L_, -1, item)); });
  return values;
}

}  // namespace tessera::lua_kit
