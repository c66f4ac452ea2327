#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// What a script or a command line may pass for an option.
enum class OptionType {
  boolean,
  integer,
  number,
  text,
  choice,  ///< one of `choices`
  integer_list,
  text_list,
  table,     ///< a Lua table or an object; checked by whoever reads it
  callback,  ///< a Lua function
};

/// One record per option. The same list parses Lua tables and command-line flags, prints `tessera
/// help`, and generates the LuaCATS annotations, so the three cannot disagree.
struct OptionSpec {
  std::string_view name;
  OptionType type = OptionType::number;
  std::string_view doc;        ///< one sentence, with the unit
  std::string_view unit = {};  ///< "s", "bytes", "tokens"; empty for plain counts
  std::string default_text =
      {};  ///< as Lua source ("60", "\"steady\"", "{3, 4, 8, 16}"); empty: required or absent
  double min = -1.7976931348623157e308;  ///< inclusive
  double max = 1.7976931348623157e308;   ///< inclusive
  std::vector<std::string_view> choices = {};
  std::string_view lua_type =
      {};  ///< LuaCATS type where `type` alone says too little ("tessera.Model|string")
  bool required = false;
  bool flag = true;  ///< a verb that takes the table's options takes this one as a flag
};

/// A named option table: what one constructor or method takes.
struct OptionTable {
  std::string_view name;  ///< "ts.plan", also the help topic
  std::string_view doc;
  std::string_view returns;  ///< LuaCATS return type
  std::vector<OptionSpec> options;
  std::string_view instead = {};  ///< LuaCATS type that may be given in place of the table
  /// Every spec by name; nullptr when unknown.
  const OptionSpec* find(std::string_view option) const;
  /// The same table with more options behind the one of that name.
  OptionTable with(std::string_view behind, std::vector<OptionSpec> more) const;
};

/// "an integer in [1, 1024]", "a number >= 0 (s)", "one of 'steady', 'paper'": for messages and
/// help.
std::string describe_range(const OptionSpec& spec);

}  // namespace tessera
