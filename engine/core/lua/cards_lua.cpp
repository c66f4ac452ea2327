// Cards of what the library declares in Lua: for help, for editors, and for what reads the options.

#include <limits>
#include <map>

#include "core_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera::core_lua {
namespace {

OptionType option_type(const std::string& name, const std::string& where) {
  static const std::map<std::string, OptionType> types{
      {"boolean", OptionType::boolean}, {"integer", OptionType::integer},
      {"number", OptionType::number},   {"string", OptionType::text},
      {"choice", OptionType::choice},   {"integers", OptionType::integer_list},
      {"table", OptionType::table},     {"any", OptionType::table}};
  const auto found = types.find(name);
  if (found == types.end()) {
    throw Error(ErrorCode::invalid_argument, where + ": no option type is called " + quote(name));
  }
  return found->second;
}

/// As Lua has it.
std::string lua_text(const Json& value) {
  std::string text = json_text(value);
  if (value.is_array()) {
    text.front() = '{';
    text.back() = '}';
  }
  return text;
}

/// The list under `key` of a card; none where it has none.
const Json& list_of(JsonFields& fields, const char* key) {
  static const Json none = Json::array();
  if (!fields.has(key)) return none;
  const Json& list = fields.at(key);
  if (!list.is_array()) {
    throw Error(ErrorCode::invalid_argument, fields.path_of(key) + ": a list belongs here");
  }
  return list;
}

std::string text_of(const Json& value, const std::string& where) {
  if (!value.is_string()) {
    throw Error(ErrorCode::invalid_argument, where + ": a string belongs here");
  }
  return value.get<std::string>();
}

OptionSpec option_spec(lua_kit::Reference& reference, const Json& item) {
  JsonFields fields(item, "card.options");
  OptionSpec spec;
  spec.name = reference.keep(fields.text("name"));
  spec.type = option_type(fields.text("type"), "card.options");
  spec.doc = reference.keep(fields.text("doc"));
  spec.unit = reference.keep(fields.text("unit", ""));
  spec.lua_type = reference.keep(fields.text("lua_type", ""));
  const double low = std::numeric_limits<double>::lowest(), high = -low;
  spec.min = fields.number("min", low, high, spec.min);
  spec.max = fields.number("max", low, high, spec.max);
  spec.required = fields.boolean("required", false);
  if (fields.has("default")) spec.default_text = reference.keep(lua_text(fields.at("default")));
  for (const Json& choice : list_of(fields, "choices")) {
    spec.choices.push_back(reference.keep(text_of(choice, fields.path_of("choices"))));
  }
  return spec;
}

/// The options of a function written in Lua.
OptionTable option_table(lua_kit::Reference& reference, JsonFields& card) {
  OptionTable table;
  table.name = reference.keep(card.text("name"));
  table.doc = reference.keep(card.text("doc"));
  table.returns = reference.keep(card.text("returns", ""));
  for (const Json& item : list_of(card, "options")) {
    table.options.push_back(option_spec(reference, item));
  }
  return table;
}

/// Parameters, fields or methods: { name, type, doc } each.
std::vector<lua_kit::ParameterCard> members(JsonFields& card, const char* key) {
  std::vector<lua_kit::ParameterCard> cards;
  const std::string where = card.path_of(key);
  for (const Json& item : list_of(card, key)) {
    if (!item.is_array() || item.size() != 3) {
      throw Error(ErrorCode::invalid_argument, where + ": { name, type, doc } belongs here");
    }
    cards.push_back({text_of(item[0], where), text_of(item[1], where), text_of(item[2], where)});
  }
  return cards;
}

/// Of an option reader: (given, path). Upvalues: its OptionTable, and a table of the defaults.
int read_options(lua_State* L) {
  const auto& table =
      *static_cast<const OptionTable*>(lua_kit::check_pointer(L, lua_upvalueindex(1), "options"));
  std::string path =
      lua_isnoneornil(L, 2) ? std::string(table.name) : lua_kit::check_text(L, 2, "path");
  const lua_kit::Options options(L, 1, table, std::move(path));
  lua_createtable(L, 0, static_cast<int>(table.options.size()));
  for (const OptionSpec& spec : table.options) {
    lua_kit::push_text(L, spec.name);
    if (options.given(spec.name)) {
      options.push(spec.name);
    } else {
      lua_kit::push_field(L, lua_upvalueindex(2), spec.name, "defaults");
    }
    lua_rawset(L, -3);
  }
  return 1;
}

}  // namespace

/// document{ name, doc, parameters = { { "rows", "table[]", "What it is" } }, returns, options = {
/// { name =, type =, doc =, unit =, default =, min =, max =, choices =, required = } } }: a
/// function of the library that is written in Lua, for help and for editors. Without parameters it
/// takes one table of options.
int document(lua_State* L) {
  const Json card = lua_kit::json_from_lua(L, 1, "card");
  JsonFields fields(card, "card");
  lua_kit::Reference& reference = environment(L).reference;
  if (fields.has("options")) reference.add(option_table(reference, fields));
  if (fields.has("options") && !fields.has("parameters")) return 0;
  lua_kit::FunctionCard function{
      fields.text("name"), fields.text("doc"), {}, fields.text("returns", "")};
  function.parameters = members(fields, "parameters");
  reference.add(std::move(function));
  return 0;
}

/// option_reader(card, defaults): what reads tables of the card's options, which are as for
/// `document`: reader(given, path) gives a new table of every option, given or default. Errors name
/// `path`, the card's name where there is none. What tables hold is for the caller to check.
int option_reader(lua_State* L) {
  const Json card = lua_kit::json_from_lua(L, 1, "card");
  lua_kit::check_table(L, 2, "defaults");
  JsonFields fields(card, "card");
  lua_kit::Reference& reference = environment(L).reference;
  const OptionTable& table = reference.keep(option_table(reference, fields));
  lua_pushlightuserdata(L, const_cast<OptionTable*>(&table));
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, lua_kit::guarded<read_options>, 2);
  return 1;
}

/// document_object{ name, doc, fields = { { "kind", "string", "What it is" } }, methods = { {
/// "apply", "(move: tessera.Move)", "What it does" } } }: an object that is made in Lua.
int document_object(lua_State* L) {
  const Json card = lua_kit::json_from_lua(L, 1, "card");
  JsonFields fields(card, "card");
  environment(L).reference.add(lua_kit::ObjectCard{fields.text("name"), fields.text("doc"),
                                                   members(fields, "fields"),
                                                   members(fields, "methods")});
  return 0;
}

}  // namespace tessera::core_lua
