#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/core/json.h"

namespace tessera::chat {

class Value;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<std::string, Value>>;  ///< in the order of insertion

/// Arguments of a call.
struct Arguments;

/// A value of Jinja: Python's, as far as templates see them. Lists and dicts never change;
/// namespaces do.
class Value {
 public:
  struct Undefined {
    std::string name;
  };
  struct None {};
  using Function = std::function<Value(const Arguments&)>;
  struct Namespace {
    std::map<std::string, Value> fields;
  };

  Value() : held_(Undefined{}) {}
  Value(None) : held_(None{}) {}
  Value(bool value) : held_(value) {}
  Value(std::int64_t value) : held_(value) {}
  Value(double value) : held_(value) {}
  Value(std::string value) : held_(std::make_shared<const std::string>(std::move(value))) {}
  Value(List value) : held_(std::make_shared<const List>(std::move(value))) {}
  Value(Dict value) : held_(std::make_shared<const Dict>(std::move(value))) {}
  Value(Function value) : held_(std::make_shared<const Function>(std::move(value))) {}
  static Value undefined(std::string name) {
    Value value;
    value.held_ = Undefined{std::move(name)};
    return value;
  }
  static Value new_namespace() {
    Value value;
    value.held_ = std::make_shared<Namespace>();
    return value;
  }
  static Value of(const Json& json);

  bool is_undefined() const { return std::holds_alternative<Undefined>(held_); }
  bool is_none() const { return std::holds_alternative<None>(held_); }
  const bool* boolean() const { return std::get_if<bool>(&held_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&held_); }
  const double* real() const { return std::get_if<double>(&held_); }
  const std::string* text() const { return pointed<const std::string>(); }
  const List* list() const { return pointed<const List>(); }
  const Dict* dict() const { return pointed<const Dict>(); }
  const Function* function() const { return pointed<const Function>(); }
  Namespace* name_space() const { return pointed<Namespace>(); }
  const std::string& undefined_name() const { return std::get<Undefined>(held_).name; }

  bool is_number() const { return boolean() || integer() || real(); }
  double number() const;  ///< of is_number
  bool is_true() const;
  const char* type_name() const;  ///< "a text"

 private:
  template <class T>
  T* pointed() const {
    const auto* pointer = std::get_if<std::shared_ptr<T>>(&held_);
    return pointer ? pointer->get() : nullptr;
  }
  std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>,
               std::shared_ptr<const Function>, std::shared_ptr<Namespace>>
      held_;
};

struct Arguments {
  List values;
  Dict named;

  /// The argument at a place or of a name; undefined where there is none.
  Value at(std::size_t place, std::string_view name) const;
};

const Value* find(const Dict& dict, std::string_view key);

/// Python's str() and repr().
std::string text_of(const Value& value);
std::string repr_of(const Value& value);
/// As json.dumps(ensure_ascii=False) writes it. @param indent < 0: in one line
std::string dumped(const Value& value, int indent);
bool are_equal(const Value& a, const Value& b);
/// @throws Error{invalid_argument} for what has no order
int compare(const Value& a, const Value& b);
/// Items of a list, keys of a dict, characters of a text, none of what is undefined.
/// @throws Error{invalid_argument} for others
List items_of(const Value& value);
std::vector<std::string> characters_of(std::string_view text);
bool contains(const Value& in, const Value& what);

}  // namespace tessera::chat
