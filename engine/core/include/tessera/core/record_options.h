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

template <class Value>
struct WithoutOptional {
  using type = Value;
};
template <class Value>
struct WithoutOptional<std::optional<Value>> {
  using type = Value;
};

OptionSpec option_of(const FieldSpec& spec, OptionType type);

template <auto Member, class Codec>
OptionSpec option_of(const Field<Member, Codec>& field) {
  using Value = typename Field<Member, Codec>::Value;
  using Plain = typename WithoutOptional<Value>::type;
  OptionSpec option = option_of(field.spec, OptionOf<Value>::type);
  if constexpr (NamedEnum<Plain>) option.choices = names_of<Plain>();
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
  const auto add = [&]<class Item>(const Item& item) {
    if constexpr (std::is_same_v<Item, OptionOnly>) {
      options.push_back(option_of(item.spec, item.type));
    } else if constexpr (!Item::computed) {
      if (item.spec.as_option != AsOption::never) options.push_back(option_of(item));
    }
  };
  std::apply([&](const auto&... item) { (add(item), ...); }, Fields<T>::list);
  return options;
}

}  // namespace tessera
