#pragma once

#include <cstdint>
#include <iterator>
#include <lua.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/core/record_options.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/value.h"

/// What scripts read of records and how options set them, from the fields declared beside each
/// (core/record.h).
namespace tessera::lua_kit {

/// How a member's type is pushed, and its LuaCATS type.
template <class Value>
struct ScriptValue;

/// Whether scripts can be shown a value of the type.
template <class Value>
concept Shown = requires {
  ScriptValue<Value>::type();
};

template <>
struct ScriptValue<double> {
  static std::string type() { return "number"; }
  static void push(lua_State* L, double value) { lua_pushnumber(L, value); }
};
template <class Integer>
requires std::is_integral_v<Integer>
struct ScriptValue<Integer> {
  static std::string type() { return "integer"; }
  static void push(lua_State* L, Integer value) {
    push_integer(L, static_cast<std::int64_t>(value));
  }
};
template <>
struct ScriptValue<bool> {
  static std::string type() { return "boolean"; }
  static void push(lua_State* L, bool value) { lua_pushboolean(L, value ? 1 : 0); }
};
template <>
struct ScriptValue<std::string> {
  static std::string type() { return "string"; }
  static void push(lua_State* L, const std::string& value) { push_text(L, value); }
};
template <NamedEnum Enum>
struct ScriptValue<Enum> {
  static std::string type() { return "string"; }
  static void push(lua_State* L, Enum value) { push_text(L, name_of(value)); }
};
template <Shown Value>
struct ScriptValue<std::optional<Value>> {
  static std::string type() { return ScriptValue<Value>::type() + "?"; }
  static void push(lua_State* L, const std::optional<Value>& value) {
    if (value) {
      ScriptValue<Value>::push(L, *value);
    } else {
      lua_pushnil(L);
    }
  }
};
template <Shown Value>
struct ScriptValue<std::vector<Value>> {
  static std::string type() { return ScriptValue<Value>::type() + "[]"; }
  static void push(lua_State* L, const std::vector<Value>& values) {
    luaL_checkstack(L, 3, "a list");
    lua_createtable(L, static_cast<int>(values.size()), 0);
    int i = 0;
    for (const Value& value : values) {
      ScriptValue<Value>::push(L, value);
      lua_rawseti(L, -2, ++i);
    }
  }
};
template <Shown Value>
struct ScriptValue<std::map<std::string, Value>> {
  static std::string type() { return "table<string, " + ScriptValue<Value>::type() + ">"; }
  static void push(lua_State* L, const std::map<std::string, Value>& values) {
    luaL_checkstack(L, 3, "a map");
    lua_createtable(L, 0, static_cast<int>(values.size()));
    for (const auto& [key, value] : values) {
      push_text(L, key);
      ScriptValue<Value>::push(L, value);
      lua_rawset(L, -3);
    }
  }
};
template <>
struct ScriptValue<Json> {
  static std::string type() { return "any"; }
  static void push(lua_State* L, const Json& value) { push_json(L, value); }
};

/// Gives the table on top of the stack the fields of a record; an absent one has no key.
template <Record T>
void set_fields(lua_State* L, const T& record) {
  luaL_checkstack(L, 3, "a record");
  for_each_field<T>([&]<auto Member, class Codec>(const Field<Member, Codec>& field) {
    using Value = typename Field<Member, Codec>::Value;
    if (!field.spec.in_scripts) return;
    if constexpr (Shown<Value>) {
      push_text(L, field.spec.name);
      ScriptValue<Value>::push(L, field.get(record));
      lua_rawset(L, -3);
    }
  });
}

/// A record that is no object of its own is a table of its fields.
template <Record T>
struct ScriptValue<T> {
  static std::string type() { return "table"; }
  static void push(lua_State* L, const T& record) {
    luaL_checkstack(L, 1, "a record");
    lua_newtable(L);
    set_fields(L, record);
  }
};

template <class Value>
void push_value(lua_State* L, const Value& value) {
  ScriptValue<Value>::push(L, value);
}

/// Of a type that scripts see as an object: its ScriptValue derives from this.
template <class T>
struct ObjectValue {
  static std::string type() { return object_type<T>().name; }
  static void push(lua_State* L, const T& value) { push_object<T>(L, std::make_shared<T>(value)); }
};

/// The fields that scripts read of an object which shows a record, in the order of its declaration.
/// `show(object, read)` calls read(record), or does not: then the field is nil.
template <class Object, Record T, auto show>
std::vector<ObjectField<Object>> fields_shown(bool always = true) {
  std::vector<ObjectField<Object>> fields;
  for_each_field<T>([&]<auto Member, class Codec>(const Field<Member, Codec>& field) {
    using Value = typename Field<Member, Codec>::Value;
    const FieldSpec& spec = field.spec;
    if (!spec.in_scripts) return;
    if constexpr (Shown<Value>) {
      std::string type =
          spec.script_type.empty() ? ScriptValue<Value>::type() : std::string(spec.script_type);
      if (!always && !type.ends_with('?')) type += '?';
      fields.push_back({.name = spec.name.data(),
                        .lua_type = std::move(type),
                        .doc = documented(spec),
                        .get = [](lua_State* L, const Object& object) {
                          bool shown = false;
                          show(object, [&](const T& record) {
                            ScriptValue<Value>::push(L, Field<Member, Codec>::get(record));
                            shown = true;
                          });
                          if (!shown) lua_pushnil(L);
                        }});
    }
  });
  return fields;
}

/// Of an object that is a record itself.
template <Record T>
std::vector<ObjectField<T>> fields_of() {
  return fields_shown<T, T, [](const T& record, auto&& read) { read(record); }>();
}

/// Fields from a record, and those that are none.
template <class Object>
std::vector<ObjectField<Object>> joined(std::vector<std::vector<ObjectField<Object>>> parts) {
  std::vector<ObjectField<Object>> all;
  for (auto& part : parts) std::move(part.begin(), part.end(), std::back_inserter(all));
  return all;
}

/// Whether options have values of a member's type; those of other types (models, maps) are left to
/// whoever knows them.
template <class Value>
inline constexpr bool kIsRead = OptionOf<Value>::type != OptionType::table;
template <>
inline constexpr bool kIsRead<Json> = true;

/// Sets a member from the option of its name.
template <class Value>
void read_option(const Options& options, std::string_view name, Value& value) {
  if constexpr (kIsOptional<Value>) {
    read_option(options, name, value.emplace());
  } else if constexpr (std::is_same_v<Value, bool>) {
    value = options.boolean(name);
  } else if constexpr (std::is_integral_v<Value>) {
    value = static_cast<Value>(options.integer(name));
  } else if constexpr (std::is_same_v<Value, double>) {
    value = options.number(name);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    value = options.text(name);
  } else if constexpr (std::is_same_v<Value, Json>) {
    value = options.json(name, value.is_array() ? Json::array() : Json::object());
  } else if constexpr (NamedEnum<Value>) {
    value = *named<Value>(options.choice(name));
  } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
    value = options.texts(name);
  } else {
    value.clear();
    for (const std::int64_t item : options.integers(name)) {
      value.push_back(static_cast<typename Value::value_type>(item));
    }
  }
}

/// Sets every field of a record that the script gave.
template <Record T>
void read_options(const Options& options, T& record) {
  for_each_field<T>([&]<auto Member, class Codec>(const Field<Member, Codec>& field) {
    using Value = typename Field<Member, Codec>::Value;
    if constexpr (!Field<Member, Codec>::computed && kIsRead<Value>) {
      if (field.spec.as_option == AsOption::never || !options.given(field.spec.name)) return;
      read_option(options, field.spec.name, field.get(record));
    }
  });
}

/// An option table of a record's fields, with options besides them in front. Others go between by
/// OptionTable::with.
template <Record T>
OptionTable option_table(OptionTable table) {
  for (OptionSpec& option : options_of<T>()) table.options.push_back(std::move(option));
  return table;
}

}  // namespace tessera::lua_kit
