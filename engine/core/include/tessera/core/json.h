#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/json_fwd.h"

namespace tessera {

struct JsonLimits {
  std::uint64_t max_bytes = 64ull << 20;
  int max_depth = 64;
};

/// Strict parser for files from outside: bounded size and nesting, no duplicate keys, no number
/// outside the range of a double, nothing after the value.
/// @throws Error{invalid_argument} naming `source`, line and column.
Json parse_json(std::string_view text, const std::string& source, const JsonLimits& limits = {});

/// read_file + parse_json.
Json read_json_file(const std::string& path, const JsonLimits& limits = {});

/// JSON as Python writes it, which has Infinity, -Infinity and NaN: they become texts, which every
/// reader of a number refuses by name.
Json parse_config(std::string_view text, const std::string& source);
/// read_file + parse_config: a config.json of Hugging Face.
Json read_config_file(const std::string& path);

/// One line, or `indent` blanks a level. (Every file that calls Json::dump itself compiles a
/// serializer of its own.)
/// @throws Error{invalid_argument} for text that is not UTF-8.
std::string json_text(const Json& value, int indent = -1);

/// The same for messages and the terminal: bytes that are not UTF-8 are replaced.
std::string shown_json(const Json& value, int indent = -1);

/// Reads the fields of one JSON object: each access checks type and range and names the full path
/// ("datasets/devices/T4-16G.json: memory_bytes ..."); `finish` refuses what nobody asked for.
class JsonFields {
 public:
  /// @throws Error{invalid_argument} unless `object` is an object.
  JsonFields(const Json& object, std::string path);

  bool has(const char* key);
  const Json& at(const char* key);  ///< @throws if missing

  std::string text(const char* key);
  std::string text(const char* key, const std::string& fallback);
  bool boolean(const char* key, bool fallback);
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high);
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high, std::int64_t fallback);
  double number(const char* key, double low, double high);
  double number(const char* key, double low, double high, double fallback);
  std::optional<double> optional_number(const char* key, double low, double high);

  /// Marks a key as understood without reading it.
  void ignore(const char* key) { seen_.insert(key); }

  /// @throws Error{invalid_argument} for a key that was never asked for, with the nearest known
  /// names.
  void finish() const;

  std::string path_of(const char* key) const;

 private:
  const Json* find(const char* key);

  const Json& object_;
  std::string path_;
  std::set<std::string> seen_;
};

/// One value, checked as JsonFields checks a field; `path` is named in errors.
std::string json_string(const Json& value, const std::string& path);
bool json_boolean(const Json& value, const std::string& path);
double json_number(const Json& value, const std::string& path, double low, double high);
std::int64_t json_integer(const Json& value, const std::string& path, std::int64_t low,
                          std::int64_t high);
/// @throws unless it is an array; `wanted` is what belongs there: "an array".
void check_array(const Json& value, const std::string& path, std::string_view wanted = "an array");

/// Vector of finite numbers, each in [low, high]. `path` is named in errors.
std::vector<double> json_numbers(const Json& value, const std::string& path, double low,
                                 double high);

/// Vector of whole numbers, each in [low, high].
std::vector<std::int32_t> json_integers(const Json& value, const std::string& path,
                                        std::int32_t low, std::int32_t high);

}  // namespace tessera
