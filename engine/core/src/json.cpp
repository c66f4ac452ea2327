#include "tessera/core/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera {
namespace {

[[noreturn]] void refuse_json(const std::string& path, const std::string& problem,
                              ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, path + ": " + problem, path);
}

const char* type_of(const Json& value) {
  if (value.is_number_integer()) return "an integer";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "a boolean";
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  return "null";
}

std::string position(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      newline == std::string_view::npos ? before.size() : before.size() - newline - 1;
  return fmt::format("line {}, column {}", line, std::max<std::size_t>(column, 1));
}

// Builds the value as the parser reads. Refuses deep nesting before the parser recurses, and keys
// written twice, whose meaning is anybody's guess. The library's own builders take time quadratic
// in the elements of an array of objects (with a callback) and in the keys of an ordered object.
class Builder {
 public:
  Builder(const std::string& source, int max_depth) : source_(source), max_depth_(max_depth) {}

  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  ~Builder() { dismantle(root_); }

  Json take() { return std::move(root_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t& value) { return add(std::move(value)); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_array() { return close(); }
  bool start_object(std::size_t) {
    keys_.emplace_back();
    return open(Json::object());
  }
  bool end_object() {
    keys_.pop_back();
    return close();
  }
  bool key(std::string& key) {
    if (!keys_.back().insert(key).second) {
      refuse_json(source_, fmt::format("the key {} appears twice in one object", quote(key)));
    }
    key_ = std::move(key);
    return true;
  }
  template <typename Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& exception) {
    throw exception;
  }

 private:
  template <typename Value>
  bool add(Value&& value) {
    (void)place(Json(std::forward<Value>(value)));
    return true;
  }
  // The library's destructor allocates as much as the value has elements: where memory has run out
  // while it was read, that would end the program. This does without.
  static void dismantle(Json& value) {
    if (value.is_array()) {
      for (auto& items = value.get_ref<Json::array_t&>(); !items.empty(); items.pop_back()) {
        dismantle(items.back());
      }
    } else if (value.is_object()) {
      Json::object_t::Container& fields = value.get_ref<Json::object_t&>();
      for (; !fields.empty(); fields.pop_back()) dismantle(fields.back().second);
    }
  }
  bool open(Json&& container) {
    if (open_.size() >= static_cast<std::size_t>(max_depth_)) {
      refuse_json(source_, fmt::format("nested deeper than {} levels", max_depth_));
    }
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  // A parent grows only while none of its children is open, so pointers in open_ stay valid.
  Json* place(Json&& value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_array()) {
      auto& items = open_.back()->get_ref<Json::array_t&>();
      return &items.emplace_back(std::move(value));
    }
    // As the vector that it is: its own emplace looks through all keys, which key() has done.
    Json::object_t::Container& fields = open_.back()->get_ref<Json::object_t&>();
    return &fields.emplace_back(std::move(key_), std::move(value)).second;
  }

  const std::string& source_;
  int max_depth_;
  Json root_;
  std::vector<Json*> open_;
  std::vector<std::unordered_set<std::string>> keys_;
  std::string key_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& source, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    refuse_json(source, fmt::format("{} of JSON, the limit is {}",
                                    format_bytes(static_cast<double>(text.size())),
                                    format_bytes(static_cast<double>(limits.max_bytes))));
  }
  try {
    Builder builder(source, limits.max_depth);
    Json::sax_parse(text.begin(), text.end(), &builder);
    return builder.take();
  } catch (const Json::parse_error& e) {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
      refuse_json(source, "empty, JSON expected");
    // The library's text ends in what it found; its own position prefix and codes say nothing to a
    // user.
    std::string what = e.what();
    const std::size_t colon = what.find(": ", what.find("parse error"));
    if (colon != std::string::npos) what = what.substr(colon + 2);
    refuse_json(source,
                fmt::format("not valid JSON at {}: {}", position(text, e.byte), quote(what, 160)));
  } catch (const Json::out_of_range& e) {
    refuse_json(source, "a number is too large for a double (about 1.8e308)",
                ErrorCode::out_of_range);
  }
}

std::string json_text(const Json& value, int indent) {
  try {
    return value.dump(indent);
  } catch (const Json::type_error&) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("text that is not UTF-8 cannot be written as JSON: {}",
                            quote(shown_json(value).substr(0, 200))));
  }
}

std::string shown_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json read_json_file(const std::string& path, const JsonLimits& limits) {
  return parse_json(read_file(path, limits.max_bytes), path, limits);
}

Json parse_config(std::string_view text, const std::string& source) {
  constexpr std::string_view kWords[] = {"-Infinity", "Infinity", "NaN"};
  std::string strict;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size();) {
    if (in_text && text[i] == '\\' && i + 1 < text.size()) {
      strict += text.substr(i, 2);
      i += 2;
      continue;
    }
    if (text[i] == '"') in_text = !in_text;
    const auto word = std::find_if(std::begin(kWords), std::end(kWords), [&](auto known) {
      return !in_text && text.substr(i, known.size()) == known;
    });
    if (word == std::end(kWords)) {
      strict += text[i++];
    } else {
      strict += fmt::format("\"{}\"", *word);
      i += word->size();
    }
  }
  return parse_json(strict, source);
}

Json read_config_file(const std::string& path) {
  return parse_config(read_file(path, JsonLimits{}.max_bytes), path);
}

JsonFields::JsonFields(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {
  if (!object_.is_object())
    refuse_json(path_, fmt::format("{} where an object belongs", type_of(object_)));
}

std::string JsonFields::path_of(const char* key) const { return path_ + ": " + key; }

const Json* JsonFields::find(const char* key) {
  seen_.insert(key);
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool JsonFields::has(const char* key) { return find(key) != nullptr; }

const Json& JsonFields::at(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) refuse_json(path_, fmt::format("the field '{}' is missing", key));
  return *value;
}

std::string JsonFields::text(const char* key) { return json_string(at(key), path_of(key)); }

std::string JsonFields::text(const char* key, const std::string& fallback) {
  return has(key) ? text(key) : fallback;
}

bool JsonFields::boolean(const char* key, bool fallback) {
  const Json* value = find(key);
  return value == nullptr ? fallback : json_boolean(*value, path_of(key));
}

double JsonFields::number(const char* key, double low, double high) {
  return json_number(at(key), path_of(key), low, high);
}

double JsonFields::number(const char* key, double low, double high, double fallback) {
  return has(key) ? number(key, low, high) : fallback;
}

std::optional<double> JsonFields::optional_number(const char* key, double low, double high) {
  if (!has(key)) return std::nullopt;
  return number(key, low, high);
}

std::int64_t JsonFields::integer(const char* key, std::int64_t low, std::int64_t high) {
  return json_integer(at(key), path_of(key), low, high);
}

std::int64_t JsonFields::integer(const char* key, std::int64_t low, std::int64_t high,
                                 std::int64_t fallback) {
  return has(key) ? integer(key, low, high) : fallback;
}

void JsonFields::finish() const {
  for (const auto& [key, value] : object_.items()) {
    if (seen_.count(key) == 0) {
      const std::vector<std::string> known(seen_.begin(), seen_.end());
      refuse_json(path_, fmt::format("unknown field {}{}", quote(key), did_you_mean(key, known)));
    }
  }
}

std::string json_string(const Json& value, const std::string& path) {
  if (!value.is_string())
    refuse_json(path, fmt::format("{} where a string belongs", type_of(value)));
  return value.get<std::string>();
}

bool json_boolean(const Json& value, const std::string& path) {
  if (!value.is_boolean())
    refuse_json(path, fmt::format("{} where true or false belongs", type_of(value)));
  return value.get<bool>();
}

double json_number(const Json& value, const std::string& path, double low, double high) {
  if (!value.is_number())
    refuse_json(path, fmt::format("{} where a number belongs", type_of(value)));
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < low || number > high) {
    refuse_json(path, fmt::format("{} is outside [{}, {}]", number, low, high),
                ErrorCode::out_of_range);
  }
  return number + 0.0;  // -0 is 0, as it is once written and read
}

std::int64_t json_integer(const Json& value, const std::string& path, std::int64_t low,
                          std::int64_t high) {
  if (!value.is_number())
    refuse_json(path, fmt::format("{} where an integer belongs", type_of(value)));
  const double number = value.get<double>();
  if (!std::isfinite(number) || std::floor(number) != number ||
      std::fabs(number) > kMaxExactInteger) {
    refuse_json(path, fmt::format("{} is not an integer", value.dump()));
  }
  if (number < static_cast<double>(low) || number > static_cast<double>(high)) {
    refuse_json(path, fmt::format("{} is outside [{}, {}]", value.dump(), low, high),
                ErrorCode::out_of_range);
  }
  return static_cast<std::int64_t>(number);
}

void check_array(const Json& value, const std::string& path, std::string_view wanted) {
  if (!value.is_array()) refuse_json(path, fmt::format("{} belongs here", wanted));
}

std::vector<double> json_numbers(const Json& value, const std::string& path, double low,
                                 double high) {
  if (!value.is_array())
    refuse_json(path, fmt::format("{} where an array of numbers belongs", type_of(value)));
  std::vector<double> numbers;
  numbers.reserve(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    numbers.push_back(json_number(value[i], fmt::format("{}[{}]", path, i), low, high));
  }
  return numbers;
}

std::vector<std::int32_t> json_integers(const Json& value, const std::string& path,
                                        std::int32_t low, std::int32_t high) {
  std::vector<std::int32_t> integers;
  for (const double number : json_numbers(value, path, low, high)) {
    if (std::floor(number) != number)
      refuse_json(path, fmt::format("{} is not an integer", number));
    integers.push_back(static_cast<std::int32_t>(number));
  }
  return integers;
}

}  // namespace tessera
