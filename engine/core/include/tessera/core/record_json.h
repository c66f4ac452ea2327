#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/json.h"
#include "tessera/core/record.h"

/// JSON of records, both ways, as strict as JsonFields: every complaint names the path of the
/// field, and what no field is called is refused.
namespace tessera {

template <Record T>
Json json_of(const T& record);
/// @throws Error{invalid_argument | out_of_range} naming the field, and what `Fields<T>::check`
/// throws.
template <Record T>
T from_json(const Json& json, const std::string& path);

template <>
struct JsonValue<double> {
  static Json write(double value) { return value; }
  static double read(const Json& json, const std::string& path, const FieldSpec& spec) {
    return json_number(json, path, spec.min, spec.max) + 0.0;  // -0.0 would be shown with its sign
  }
};

template <class Integer>
requires std::is_integral_v<Integer>
struct JsonValue<Integer> {
  static Json write(Integer value) { return value; }
  static Integer read(const Json& json, const std::string& path, const FieldSpec& spec) {
    return static_cast<Integer>(json_integer(json, path, static_cast<std::int64_t>(spec.min),
                                             static_cast<std::int64_t>(spec.max)));
  }
};

template <>
struct JsonValue<bool> {
  static Json write(bool value) { return value; }
  static bool read(const Json& json, const std::string& path, const FieldSpec&) {
    return json_boolean(json, path);
  }
};

/// @throws Error{invalid_argument} with the names that there are, the nearest one first.
[[noreturn]] void throw_unknown_name(const std::string& path, const std::string& name,
                                     const std::vector<std::string_view>& names);

template <>
struct JsonValue<std::string> {
  static Json write(const std::string& value) { return value; }
  static std::string read(const Json& json, const std::string& path, const FieldSpec& spec);
};

/// Any value, as it stands.
template <>
struct JsonValue<Json> {
  static Json write(const Json& value) { return value; }
  static Json read(const Json& json, const std::string&, const FieldSpec&) { return json; }
};

struct WholeNumber {
  static Json write(double value) { return value; }
  static double read(const Json& json, const std::string& path, const FieldSpec& spec) {
    return static_cast<double>(JsonValue<std::int64_t>::read(json, path, spec));
  }
};

template <NamedEnum Enum>
struct JsonValue<Enum> {
  static Json write(Enum value) { return name_of(value); }
  static Enum read(const Json& json, const std::string& path, const FieldSpec&) {
    const std::string name = json_string(json, path);
    if (const auto value = named<Enum>(name)) return *value;
    throw_unknown_name(path, name, names_of<Enum>());
  }
};

template <Record T>
struct JsonValue<T> {
  static Json write(const T& value) { return json_of(value); }
  static T read(const Json& json, const std::string& path, const FieldSpec&) {
    return from_json<T>(json, path);
  }
};

template <class Value>
struct JsonValue<std::optional<Value>> {
  static Json write(const std::optional<Value>& value) {
    return value ? JsonValue<Value>::write(*value) : Json(nullptr);
  }
  static std::optional<Value> read(const Json& json, const std::string& path,
                                   const FieldSpec& spec) {
    return JsonValue<Value>::read(json, path, spec);
  }
};

/// @param first how messages count the first item.
template <class Item>
std::vector<Item> read_list(const Json& json, const std::string& path, const FieldSpec& spec,
                            std::size_t first = 0) {
  check_array(json, path);
  std::vector<Item> items;
  items.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string where = path + "[" + std::to_string(first + i) + "]";
    items.push_back(JsonValue<Item>::read(json[i], where, spec));
  }
  return items;
}

template <class Value>
struct JsonValue<std::vector<Value>> {
  static Json write(const std::vector<Value>& values) {
    Json list = Json::array();
    for (const Value& value : values) list.push_back(JsonValue<Value>::write(value));
    return list;
  }
  static std::vector<Value> read(const Json& json, const std::string& path, const FieldSpec& spec) {
    return read_list<Value>(json, path, spec);
  }
};

template <>
struct JsonValue<std::vector<double>> {
  static Json write(const std::vector<double>& values) { return values; }
  static std::vector<double> read(const Json& json, const std::string& path,
                                  const FieldSpec& spec) {
    return json_numbers(json, path, spec.min, spec.max);
  }
};

template <>
struct JsonValue<std::vector<std::int32_t>> {
  static Json write(const std::vector<std::int32_t>& values) { return values; }
  static std::vector<std::int32_t> read(const Json& json, const std::string& path,
                                        const FieldSpec& spec) {
    return json_integers(json, path, static_cast<std::int32_t>(spec.min),
                         static_cast<std::int32_t>(spec.max));
  }
};

template <auto Read>
struct ByFunction {
  template <class Value>
  static Json write(const Value& value) {
    return to_json(value);
  }
  static auto read(const Json& json, const std::string& path, const FieldSpec&) {
    return Read(json, path);
  }
};

template <class Item>
struct ListFromOne : JsonValue<std::vector<Item>> {
  static std::vector<Item> read(const Json& json, const std::string& path, const FieldSpec& spec) {
    return read_list<Item>(json, path, spec, 1);
  }
};

/// One field of an object that is no record.
template <class Value>
Value read_field(JsonFields& fields, const char* name, const FieldSpec& spec = {}) {
  return JsonValue<Value>::read(fields.at(name), fields.path_of(name), spec);
}

/// The fields of a record that has more than them: what its file says besides is read by the caller
/// before `fields.finish()`.
template <Record T>
void read_fields(JsonFields& fields, T& record) {
  for_each_field<T>([&]<auto Member, class Codec>(const Field<Member, Codec>& field) {
    if constexpr (Field<Member, Codec>::in_files) {
      const FieldSpec& spec = field.spec;
      const char* name = spec.name.data();  // names are literals
      if (spec.in_file != InFile::required && !fields.has(name)) return;
      field.get(record) = Codec::read(fields.at(name), fields.path_of(name), spec);
    }
  });
}

/// A member's initial value; of records that are never made without their parts, an empty one.
template <class Item>
typename Item::Value initial_value() {
  using Owner = typename Item::Record;
  if constexpr (std::is_default_constructible_v<Owner>) {
    return Item::get(static_cast<const Owner&>(Owner{}));
  } else {
    return {};
  }
}

template <Record T>
void write_fields(const T& record, Json& json) {
  for_each_field<T>([&]<auto Member, class Codec>(const Field<Member, Codec>& field) {
    using Item = Field<Member, Codec>;
    if constexpr (Item::in_files) {
      const FieldSpec& spec = field.spec;
      Json value = Codec::write(field.get(record));
      if (spec.in_file == InFile::when_set) {
        if constexpr (std::is_default_constructible_v<typename Item::Value>) {
          static const Json initial = Codec::write(initial_value<Item>());
          if (value == initial) return;
        }
      }
      json[std::string(spec.name)] = std::move(value);
    }
  });
}

template <Record T>
Json json_of(const T& record) {
  Json json = Json::object();
  write_fields(record, json);
  return json;
}

template <Record T>
T from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  T record;
  read_fields(fields, record);
  fields.finish();
  check_record(record, FieldPath{path});
  return record;
}

}  // namespace tessera
