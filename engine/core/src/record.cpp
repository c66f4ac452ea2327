#include "tessera/core/record.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/record_options.h"
#include "tessera/core/text.h"

namespace tessera {

std::string FieldPath::operator()(std::string_view field) const {
  return fmt::format("{}{}{}", record, separator, field);
}

std::string documented(const FieldSpec& spec) {
  const std::string_view doc = spec.script_doc.empty() ? spec.doc : spec.script_doc;
  if (spec.unit.empty()) return std::string(doc);
  return fmt::format("{} ({})", doc, spec.unit);
}

void throw_unknown_name(const std::string& path, const std::string& name,
                        const std::vector<std::string_view>& names) {
  const std::vector<std::string> known(names.begin(), names.end());
  std::string all;
  for (const std::string& one : known) all += (all.empty() ? "'" : ", '") + one + "'";
  const bool near = !nearest_names(name, known).empty();
  refuse(path, "{} is not known{} of {} belongs here", quote(name),
         near ? did_you_mean(name, known) + " One" : "; one", all);
}

std::string JsonValue<std::string>::read(const Json& json, const std::string& path,
                                         const FieldSpec& spec) {
  std::string text = json_string(json, path);
  if (spec.choices == nullptr) return text;
  const std::vector<std::string_view> known = spec.choices();
  if (std::find(known.begin(), known.end(), text) == known.end())
    throw_unknown_name(path, text, known);
  return text;
}

OptionSpec option_of(const FieldSpec& spec, OptionType type) {
  const bool of_words = spec.choices != nullptr;
  return {.name = spec.name,
          .type = of_words ? OptionType::choice : type,
          .doc = spec.doc,
          .unit = spec.unit,
          .default_text = std::string(spec.default_text),
          .min = spec.min,
          .max = spec.max,
          .choices = of_words ? spec.choices() : std::vector<std::string_view>{},
          .lua_type = spec.option_type,
          .required = spec.as_option == AsOption::required,
          .flag = spec.as_flag && type != OptionType::callback};
}

std::string lua_source(double value) { return fmt::format("{}", value); }

std::string lua_source(bool value) { return value ? "true" : "false"; }

std::string lua_source(const std::string& value) { return fmt::format("\"{}\"", value); }

std::string lua_source(const std::vector<std::string>& values) {
  std::vector<std::string> sources;
  for (const std::string& value : values) sources.push_back(lua_source(value));
  return fmt::format("{{ {} }}", fmt::join(sources, ", "));
}

std::string lua_source(const std::vector<std::int32_t>& values) {
  return fmt::format("{{{}}}", fmt::join(values, ", "));
}

}  // namespace tessera
