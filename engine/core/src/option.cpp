#include "tessera/core/option.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tessera/core/error.h"
#include "tessera/core/units.h"

namespace tessera {

const OptionSpec* OptionTable::find(std::string_view option) const {
  for (const OptionSpec& spec : options) {
    if (spec.name == option) return &spec;
  }
  return nullptr;
}

OptionTable OptionTable::with(std::string_view behind, std::vector<OptionSpec> more) const {
  OptionTable wider = *this;
  const auto place = std::find_if(wider.options.begin(), wider.options.end(),
                                  [&](const OptionSpec& spec) { return spec.name == behind; });
  if (place == wider.options.end()) {
    throw Error(ErrorCode::internal, fmt::format("the option table {} has no '{}'", name, behind));
  }
  wider.options.insert(place + 1, std::make_move_iterator(more.begin()),
                       std::make_move_iterator(more.end()));
  return wider;
}

std::string describe_range(const OptionSpec& spec) {
  const auto range = [&](const char* noun) {
    const bool low = spec.min > -1e300, high = spec.max < 1e300;
    std::string text = noun;
    if (low && high) {
      text += fmt::format(" in [{}, {}]", format_number(spec.min), format_number(spec.max));
    } else if (low) {
      text += fmt::format(" >= {}", format_number(spec.min));
    } else if (high) {
      text += fmt::format(" <= {}", format_number(spec.max));
    }
    if (!spec.unit.empty()) text += fmt::format(" ({})", spec.unit);
    return text;
  };
  switch (spec.type) {
    case OptionType::boolean:
      return "true or false";
    case OptionType::integer:
      return range("an integer");
    case OptionType::number:
      return range("a number");
    case OptionType::text:
      return "a string";
    case OptionType::choice: {
      std::string text = "one of ";
      for (std::size_t i = 0; i < spec.choices.size(); ++i) {
        text += fmt::format("{}'{}'", i > 0 ? ", " : "", spec.choices[i]);
      }
      return text;
    }
    case OptionType::integer_list:
      return range("a list, each item an integer");
    case OptionType::text_list:
      return "a list of strings";
    case OptionType::table:
      return spec.lua_type.empty() ? "a table" : std::string(spec.lua_type);
    case OptionType::callback:
      return "a function";
  }
  return "";
}

}  // namespace tessera
