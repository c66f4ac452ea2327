#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

/// The values of an enumeration as files, options and messages spell them, in one table beside it:
///
///     template <>
///     inline constexpr auto tessera::kEnumNames<Phase> = enum_names<Phase>(
///         {{Phase::prefill, "prefill"}, {Phase::decode, "decode"}});
template <class Enum>
inline constexpr std::nullptr_t kEnumNames = nullptr;

template <class Enum, std::size_t n>
constexpr std::array<std::pair<Enum, std::string_view>, n> enum_names(
    const std::pair<Enum, std::string_view> (&names)[n]) {
  return std::to_array(names);
}

template <class Enum>
concept NamedEnum = requires {
  kEnumNames<Enum>.size();
};

template <NamedEnum Enum>
constexpr std::string_view name_of(Enum value) {
  for (const auto& [known, name] : kEnumNames<Enum>) {
    if (known == value) return name;
  }
  return "";
}

template <NamedEnum Enum>
constexpr std::optional<Enum> named(std::string_view name) {
  for (const auto& [value, known] : kEnumNames<Enum>) {
    if (known == name) return value;
  }
  return std::nullopt;
}

/// All names, in the order of the table.
template <NamedEnum Enum>
std::vector<std::string_view> names_of() {
  std::vector<std::string_view> names;
  for (const auto& entry : kEnumNames<Enum>) names.push_back(entry.second);
  return names;
}

}  // namespace tessera
