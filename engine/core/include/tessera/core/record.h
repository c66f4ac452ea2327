#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tessera/core/option.h"

/// Records whose fields are declared once, beside the struct:
///
///     template <>
///     struct tessera::Fields<tessera::Node> {
///       static constexpr auto list = std::tuple{
///           field<&Node::name>({.name = "name", .doc = "Name to refer to it by"}),
///           field<&Node::disk_bytes_per_s>({.name = "disk_bytes_per_s", .doc = "Rate of its disk",
///                                           .unit = "bytes/s", .min = 1, .max = kMaxBytesPerS,
///                                           .in_file = InFile::when_set})};
///     };
///
/// From this list come the record's JSON, both ways (record_json.h), the options that set it, with
/// their checks, flags and help (record_options.h), and the fields that scripts read, with their
/// documentation (lua_kit/record.h). Defaults are the initial values of the members.
namespace tessera {

/// Sums and percentages of numbers up to it stay finite.
inline constexpr double kHuge = 1e300;

/// How a field stands in files.
enum class InFile {
  required,   ///< always written; a file without it is refused
  defaulted,  ///< always written; a file without it gets the initial value
  when_set,   ///< written where it differs from its initial value, which a file without it gets
  or_null     ///< of optional members: always written, null where absent
};

/// How a field stands among the options that set the record.
enum class AsOption {
  never,
  plain,      ///< without a default: what is not given stays as it is
  defaulted,  ///< the member's initial value is printed as its default
  required
};

struct FieldSpec {
  std::string_view name;                 ///< the same in C++, JSON, Lua and flags
  std::string_view doc;                  ///< one sentence, without the unit
  std::string_view unit = {};            ///< "s", "bytes", "tokens"; empty for plain counts
  double min = -1.7976931348623157e308;  ///< inclusive; of lists, of every item
  double max = 1.7976931348623157e308;   ///< inclusive
  InFile in_file = InFile::required;
  AsOption as_option = AsOption::plain;
  bool in_scripts = true;  ///< scripts read it as a field of the object
  std::string_view option_type =
      {};  ///< LuaCATS type of the option, where the member's says little
  std::string_view script_type = {};   ///< LuaCATS type of the field, likewise
  std::string_view script_doc = {};    ///< of the field, where `doc` says how the option is given
  std::string_view default_text = {};  ///< the option's default, where it is no initial value
  std::vector<std::string_view> (*choices)() = nullptr;  ///< the words that a text may be
  bool as_flag = true;                                   ///< the command line offers the option too
};

/// "Peak memory bandwidth (bytes/s)": what scripts read there, with its unit.
std::string documented(const FieldSpec& spec);

/// How values of a member's type are written and read; specialised in record_json.h and beside
/// types that need more.
template <class Value>
struct JsonValue;
/// In its place: of a member that files do not have, or that their readers know by hand.
struct NotInFiles;
/// In its place: of a number that has to be whole although its member is a double.
struct WholeNumber;
/// In its place: of a list whose items messages count from 1, as scripts do.
template <class Item>
struct ListFromOne;
/// In its place: of a type that has functions of its own, to_json(value) and Read(json, path).
template <auto Read>
struct ByFunction;

namespace detail {

template <class Member>
struct MemberOf;
template <class Record, class Value>
struct MemberOf<Value Record::*> {
  using record = Record;
  using value = Value;
};
template <class Record, class Value>
struct MemberOf<Value (Record::*)() const> {
  using record = Record;
  using value = std::remove_cvref_t<Value>;
};

}  // namespace detail

/// One field: a member, or a member function without arguments, which scripts read and nothing
/// writes.
template <auto Member, class Codec>
struct Field {
  using Record = typename detail::MemberOf<decltype(Member)>::record;
  using Value = typename detail::MemberOf<decltype(Member)>::value;
  using Json = Codec;
  static constexpr bool computed = std::is_member_function_pointer_v<decltype(Member)>;
  static constexpr bool in_files = !computed && !std::is_same_v<Codec, NotInFiles>;
  static constexpr auto member = Member;

  FieldSpec spec;

  static decltype(auto) get(const Record& record) {
    if constexpr (computed) {
      return (record.*Member)();
    } else {
      return static_cast<const Value&>(record.*Member);
    }
  }
  static Value& get(Record& record) requires(!computed) { return record.*Member; }
};

template <auto Member, class Codec = JsonValue<typename detail::MemberOf<decltype(Member)>::value>>
constexpr Field<Member, Codec> field(FieldSpec spec) {
  return {spec};
}

/// How messages name a field of a record: "plan.json: stages[0]: decode_s" in files,
/// "ts.workload.batch_size" in options.
struct FieldPath {
  std::string record;
  std::string_view separator = ": ";

  std::string operator()(std::string_view field) const;
};

/// Among the fields, an option that is no member: whoever takes it reads it by hand.
struct OptionOnly {
  FieldSpec spec;
  OptionType type;
};

/// Specialised beside each record: `list`, a tuple of fields, and where fields have to agree with
/// each other `check(const Record&, const FieldPath&)`, which throws an Error naming the field.
template <class Record>
struct Fields;

template <class T>
concept Record = requires {
  Fields<T>::list;
};

/// Calls `visit(field)` for the record's fields in order, options that are no members left out.
template <Record T, class Visit>
constexpr void for_each_field(Visit&& visit) {
  const auto member = [&]<class Item>(const Item& item) {
    if constexpr (!std::is_same_v<Item, OptionOnly>) visit(item);
  };
  std::apply([&](const auto&... item) { (member(item), ...); }, Fields<T>::list);
}

/// What `Fields<T>::check` says of fields that have to agree with each other.
template <Record T>
void check_record(const T& record, const FieldPath& path) {
  if constexpr (requires { Fields<T>::check(record, path); }) Fields<T>::check(record, path);
}

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

}  // namespace tessera
