#include "tessera/lua_kit/annotations.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/core/layout.h"
#include "tessera/core/text.h"

namespace tessera::lua_kit {
namespace {

// Where what is said of an option begins.
constexpr std::size_t kSaid = 28;

std::string lua_type_of(const OptionSpec& spec) {
  if (!spec.lua_type.empty()) return std::string(spec.lua_type);
  switch (spec.type) {
    case OptionType::boolean:
      return "boolean";
    case OptionType::integer:
      return "integer";
    case OptionType::number:
      return "number";
    case OptionType::text:
      return "string";
    case OptionType::choice: {
      std::vector<std::string> choices;
      for (std::string_view choice : spec.choices) choices.push_back(fmt::format("\"{}\"", choice));
      return join(choices, "|");
    }
    case OptionType::integer_list:
      return "integer[]";
    case OptionType::text_list:
      return "string[]";
    case OptionType::table:
      return "table";
    case OptionType::callback:
      return "function";
  }
  return "any";
}

std::string needed_text(const OptionSpec& spec) {
  if (spec.required) return "required";
  if (!spec.default_text.empty()) return fmt::format("default {}", spec.default_text);
  return "optional";
}

std::string help_entry(std::string_view name, std::string_view type, std::string_view doc) {
  return entry(name, type, kSaid, kHelpColumns) + paragraph(doc, kSaid, kHelpColumns);
}

std::string option_help(const OptionSpec& spec) {
  return help_entry(spec.name, describe_range(spec) + ", " + needed_text(spec), spec.doc);
}

std::string member_help(const ParameterCard& member) {
  return help_entry(member.name, member.lua_type, member.doc);
}

// A line that is continued four further in.
std::string signature_help(std::string_view text, std::size_t indent) {
  return paragraph(text, indent + 4, kHelpColumns).erase(0, 4);
}

std::string options_class(std::string_view table_name) {
  if (table_name.substr(0, 3) == "ts.") table_name.remove_prefix(3);
  std::string name(table_name);
  std::replace(name.begin(), name.end(), ':', '.');
  return "tessera.options." + name;
}

bool is_numeric(const OptionSpec& spec) {
  return spec.type == OptionType::integer || spec.type == OptionType::number ||
         spec.type == OptionType::integer_list;
}

std::string options_annotation(const OptionTable& table) {
  std::string text = fmt::format("---@class {}\n", options_class(table.name));
  for (const OptionSpec& spec : table.options) {
    std::string note(spec.doc);
    if (is_numeric(spec)) note += fmt::format(" ({})", describe_range(spec));
    if (!spec.default_text.empty()) note += fmt::format(" [default {}]", spec.default_text);
    text += fmt::format("---@field {}{} {} {}\n", spec.name, spec.required ? "" : "?",
                        lua_type_of(spec), note);
  }
  return text + "\n";
}

// Where the first of several types ends: at a comma that is in no bracket.
std::size_t end_of_type(std::string_view types) {
  int depth = 0;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const char c = types[i];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
    if (c == ',' && depth == 0) return i;
  }
  return types.size();
}

// "tessera run" is for people at a terminal; editors have no use for it.
bool is_verb(const OptionTable& table) { return table.name.find(' ') != std::string_view::npos; }

Json parameters_json(const std::vector<ParameterCard>& parameters) {
  Json list = Json::array();
  for (const ParameterCard& p : parameters) {
    list.push_back({{"name", p.name}, {"type", p.lua_type}, {"doc", p.doc}});
  }
  return list;
}

Json option_json(const OptionSpec& spec) {
  Json option{
      {"name", spec.name},          {"type", lua_type_of(spec)},     {"doc", spec.doc},
      {"unit", spec.unit},          {"range", describe_range(spec)}, {"required", spec.required},
      {"numeric", is_numeric(spec)}};
  if (!spec.default_text.empty()) option["default"] = spec.default_text;
  if (!spec.choices.empty()) option["choices"] = spec.choices;
  if (spec.min > -1e300) option["min"] = spec.min;
  if (spec.max < 1e300) option["max"] = spec.max;
  return option;
}

/// "ts.engine.speculative": what an option of ts.engine takes, and no function.
bool is_part(const std::map<std::string, OptionTable>& tables, const std::string& name) {
  return tables.count(name.substr(0, name.rfind('.'))) > 0 && tables.count(name) > 0;
}

std::string function_annotation(const FunctionCard& card, const OptionTable* options) {
  std::string text = fmt::format("--- {}\n", card.doc);
  std::vector<std::string> names;
  for (const ParameterCard& parameter : card.parameters) {
    // LuaCATS marks what may be left out by a "?" after the name.
    names.push_back(parameter.name.substr(0, parameter.name.find('?')));
    text += fmt::format("---@param {} {} {}\n", parameter.name, parameter.lua_type, parameter.doc);
  }
  if (options != nullptr) {
    const bool required = std::any_of(options->options.begin(), options->options.end(),
                                      [](const OptionSpec& spec) { return spec.required; });
    text += fmt::format("---@param options{} {}{}{}\n", required ? "" : "?",
                        options_class(options->name), options->instead.empty() ? "" : "|",
                        options->instead);
    names.emplace_back("options");
  }
  for (std::string_view rest = card.returns; !rest.empty();) {
    const std::size_t end = end_of_type(rest);
    text += fmt::format("---@return {}\n", rest.substr(0, end));
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return text + fmt::format("function {}({}) end\n\n", card.name, join(names, ", "));
}

}  // namespace

void Reference::add(const OptionTable& table) { tables_[std::string(table.name)] = table; }

void Reference::add(FunctionCard card) {
  std::string name = card.name;
  functions_[std::move(name)] = std::move(card);
}

void Reference::add(ObjectCard card) {
  std::string name = card.name;
  objects_[std::move(name)] = std::move(card);
}

Json Reference::options_of(const std::string& table) const {
  Json list = Json::array();
  const auto found = tables_.find(table);
  if (found == tables_.end()) return list;
  for (const OptionSpec& spec : found->second.options) list.push_back(option_json(spec));
  return list;
}

Json Reference::cards() const {
  Json functions = Json::object(), options = Json::object(), objects = Json::object();
  for (const auto& [name, card] : functions_) {
    functions[name] = {{"doc", card.doc},
                       {"parameters", parameters_json(card.parameters)},
                       {"returns", card.returns}};
  }
  for (const auto& [name, table] : tables_) {
    options[name] = {{"doc", table.doc}, {"returns", table.returns}, {"options", options_of(name)}};
    if (!table.instead.empty()) options[name]["instead"] = table.instead;
  }
  for (const auto& [name, card] : objects_) {
    objects[name] = {{"doc", card.doc},
                     {"fields", parameters_json(card.fields)},
                     {"methods", parameters_json(card.methods)}};
  }
  return {{"functions", functions}, {"options", options}, {"objects", objects}};
}

std::vector<std::string> Reference::topics() const {
  std::set<std::string> names;
  for (const auto& entry : tables_) names.insert(entry.first);
  for (const auto& entry : functions_) names.insert(entry.first);
  for (const auto& entry : objects_) names.insert(entry.first);
  return {names.begin(), names.end()};
}

std::string Reference::summary(const std::string& topic) const {
  if (const auto it = functions_.find(topic); it != functions_.end()) return it->second.doc;
  if (const auto it = tables_.find(topic); it != tables_.end()) return std::string(it->second.doc);
  if (const auto it = objects_.find(topic); it != objects_.end()) return it->second.doc;
  return "";
}

std::optional<std::string> Reference::help(const std::string& topic) const {
  const auto table = tables_.find(topic);
  const auto function = functions_.find(topic);
  const auto object = objects_.find(topic);
  if (table == tables_.end() && function == functions_.end() && object == objects_.end()) {
    return std::nullopt;
  }
  std::string text = topic;
  std::string returns = table != tables_.end() ? std::string(table->second.returns) : "";
  if (function != functions_.end()) {
    std::vector<std::string> names;
    for (const ParameterCard& p : function->second.parameters) names.push_back(p.name);
    if (table != tables_.end()) names.emplace_back("{ options }");
    text += " (" + join(names, ", ") + ")";
    if (!function->second.returns.empty()) returns = function->second.returns;
  } else if (table != tables_.end()) {
    text += is_part(tables_, topic) ? " = { options }" : " { options }";
  }
  if (!returns.empty() && !is_part(tables_, topic)) text += "  ->  " + returns;
  text = signature_help(text, 0) + paragraph(summary(topic), 2, kHelpColumns);
  if (function != functions_.end() && !function->second.parameters.empty()) {
    text += "\narguments:\n";
    for (const ParameterCard& p : function->second.parameters) text += member_help(p);
  }
  if (table != tables_.end() && !table->second.options.empty()) {
    text += "\noptions:\n";
    for (const OptionSpec& spec : table->second.options) text += option_help(spec);
  }
  if (object != objects_.end()) {
    if (!object->second.fields.empty()) text += "\nfields:\n";
    for (const ParameterCard& field : object->second.fields) text += member_help(field);
    if (!object->second.methods.empty()) text += "\nmethods:\n";
    for (const ParameterCard& method : object->second.methods) {
      text += signature_help(":" + method.name + method.lua_type, 2) +
              paragraph(method.doc, kSaid, kHelpColumns);
    }
  }
  return text;
}

std::string Reference::luacats() const {
  std::string text =
      "---@meta tessera\n"
      "-- Generated from the option tables and cards of the engine; do not edit.\n"
      "error(\"for editors only: the definitions are built into the program\")\n\n"
      "---@class tessera.Error\n"
      "---@field code string invalid_argument, out_of_range, not_found, infeasible, ...\n"
      "---@field message string One line: what, where, the numbers and what to do\n"
      "---@field where string? Option, field or file\n"
      "---@field constraint string? What no plan can meet\n\n"
      "local ts = {}\n\n";
  for (const auto& [name, card] : objects_) {
    text += fmt::format("--- {}\n---@class {}\n", card.doc, name);
    for (const ParameterCard& field : card.fields) {
      text += fmt::format("---@field {} {} {}\n", field.name, field.lua_type, field.doc);
    }
    for (const ParameterCard& method : card.methods) {
      // "(path: string): boolean", without the object itself.
      const std::string_view rest = std::string_view(method.lua_type).substr(1);
      text += fmt::format("---@field {} fun(self{}{} {}\n", method.name,
                          rest.front() == ')' ? "" : ", ", rest, method.doc);
    }
    text += "\n";
  }
  for (const auto& entry : tables_) {
    if (!is_verb(entry.second)) text += options_annotation(entry.second);
  }
  std::string group;  // "ts.speculative", the table of the functions before
  for (const std::string& name : topics()) {
    const auto table = tables_.find(name);
    const auto function = functions_.find(name);
    if (name.rfind("ts.", 0) != 0 || is_part(tables_, name)) continue;
    if (const std::size_t dot = name.rfind('.'); dot > 2 && name.substr(0, dot) != group) {
      group = name.substr(0, dot);
      text += group + " = {}\n\n";
    }
    FunctionCard card;
    if (function != functions_.end()) {
      card = function->second;
    } else {
      card = {name, std::string(table->second.doc), {}, std::string(table->second.returns)};
    }
    text += function_annotation(card, table == tables_.end() ? nullptr : &table->second);
  }
  return text + "return ts\n";
}

}  // namespace tessera::lua_kit
