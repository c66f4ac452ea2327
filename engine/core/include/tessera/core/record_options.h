#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/option.h"
#include "tessera/core/record.h"

/// Options that set the fields of a record.
namespace tessera {

template <class Value>
struct OptionOf {
  static constexpr OptionType type = OptionType::table;  // read by whoever knows the type
};
template <>
struct OptionOf<double> {
  static constexpr OptionType type = OptionType::number;
};
template <class Integer>
requires std::is_integral_v<Integer>
struct OptionOf<Integer> {
  static constexpr OptionType type = OptionType::integer;
};
template <>
struct OptionOf<bool> {
  static constexpr OptionType type = OptionType::boolean;
};
template <>
struct OptionOf<std::string> {
  static constexpr OptionType type = OptionType::text;
};
template <NamedEnum Enum>
struct OptionOf<Enum> {
  static constexpr OptionType type = OptionType::choice;
};
template <class Integer>
requires std::is_integral_v<Integer>
struct OptionOf<std::vector<Integer>> {
  static constexpr OptionType type = OptionType::integer_list;
};
template <>
struct OptionOf<std::vector<std::string>> {
  static constexpr OptionType type = OptionType::text_list;
};
template <class Value>
struct OptionOf<std::optional<Value>> : OptionOf<Value> {};

/// A value as Lua source: 512, true, "steady", {3, 4, 8, 16}.
std::string lua_source(double value);
std::string lua_source(bool value);
std::string lua_source(const std::string& value);
std::string lua_source(const std::vector<std::int32_t>& values);
std::string lua_source(const std::vector<std::string>& values);
template <NamedEnum Enum>
std::string lua_source(Enum value) {
  return lua_source(std::string(name_of(value)));
}
template <class Integer>
requires std::is_integral_v<Integer> std::string lua_source(Integer value) {
  return lua_source(static_cast<double>(value));
}

template <auto Member, class Codec>
OptionSpec option_of(const Field<Member, Codec>& field) {
  using Value = typename Field<Member, Codec>::Value;
  OptionSpec option{.name = field.spec.name,
                    .type = OptionOf<Value>::type,
                    .doc = field.spec.doc,
                    .unit = field.spec.unit,
                    .default_text = std::string(field.spec.default_text),
                    .min = field.spec.min,
                    .max = field.spec.max,
                    .lua_type = field.spec.option_type,
                    .required = field.spec.as_option == AsOption::required};
  if constexpr (NamedEnum<Value>) option.choices = names_of<Value>();
  if (field.spec.choices != nullptr) {
    option.type = OptionType::choice;
    option.choices = field.spec.choices();
  }
  if constexpr (requires(Value value) { lua_source(value); }) {
    if (field.spec.as_option == AsOption::defaulted) {
      option.default_text = lua_source(field.get(typename Field<Member, Codec>::Record{}));
    }
  }
  return option;
}

/// The options that set a record, in the order of its fields.
template <Record T>
std::vector<OptionSpec> options_of() {
  std::vector<OptionSpec> options;
  for_each_field<T>([&]<auto Member, class Codec>(const Field<Member, Codec>& field) {
    if constexpr (!Field<Member, Codec>::computed) {
      if (field.spec.as_option != AsOption::never) options.push_back(option_of(field));
    }
  });
  return options;
}

}  // namespace tessera
