#include "tessera/core/request_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/requests.h"
#include "tessera/core/text.h"
#include "tessera/core/text_file.h"
#include "tessera/core/units.h"

namespace tessera {
namespace {

constexpr std::uint64_t kLargestFile = 1ull << 30;
constexpr std::int64_t kQwenBlock = 16;  ///< tokens of a hash id of Qwen-Bailian's traces

/// Objects of one table, a row each.
class ObjectRows {
 public:
  explicit ObjectRows(const std::string& path) : path_(path) {}

  void add(const Json& object, const std::string& where) {
    if (!object.is_object()) refuse(where, "an object with the lengths of a request is needed");
    std::vector<std::string> row(names_.size());
    for (const auto& [key, value] : object.items()) {
      if (lower(key) == "hash_ids" && value.is_array()) {
        put(row, "block_ids", ids_of(value, where));
        count_blocks(object, value.size());
      } else if (value.is_object()) {  // { "usage": { "prompt_tokens": 512, ... } }
        for (const auto& [name, inner] : value.items()) {
          if (!object.contains(name)) put_value(row, name, inner);
        }
      } else {
        put_value(row, key, value);
      }
    }
    look_at_clock(object);
    rows_.push_back(std::move(row));
  }

  void skip_line() { rows_.emplace_back(std::nullopt); }

  RequestTable table() {
    const bool has_blocks = columns_.contains("block_ids");
    std::string text;
    for (std::string name : names_) {
      if (name == "timestamp" && is_milliseconds()) name = "timestamp_ms";
      text += fmt::format("{}{}", text.empty() ? "" : ",", quoted(name));
    }
    if (has_blocks) text += ",block_id_tokens";
    text += '\n';
    for (const std::optional<std::vector<std::string>>& row : rows_) {
      if (!row) {  // an empty line stays one, so that lines are counted as in the file
        text += '\n';
        continue;
      }
      for (std::size_t i = 0; i < names_.size(); ++i) {
        if (i > 0) text += ',';
        if (i < row->size()) text += (*row)[i];
      }
      if (has_blocks) text += fmt::format(",{}", block_tokens());
      text += '\n';
    }
    if (names_.empty()) refuse(path_, "objects without any number; no requests in it");
    return {std::move(text), 0};
  }

 private:
  static std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
      if (c == '"') result += '"';
      result += c == '\n' || c == '\r' || c == '\0' ? ' ' : c;
    }
    return result + '"';
  }

  static std::string ids_of(const Json& list, const std::string& where) {
    std::string text;
    for (const Json& id : list) {
      if (!id.is_number_integer()) refuse(where, "hash_ids: whole numbers are needed");
      text += fmt::format("{}{}", text.empty() ? "" : " ", id.get<std::int64_t>());
    }
    return text;
  }

  void put_value(std::vector<std::string>& row, const std::string& name, const Json& value) {
    if (value.is_structured() || value.is_null()) return;
    put(row, name, value.is_string() ? quoted(value.get<std::string>()) : json_text(value));
  }

  void put(std::vector<std::string>& row, const std::string& name, std::string text) {
    const auto [known, is_new] = columns_.try_emplace(name, names_.size());
    if (is_new) names_.push_back(name);
    if (row.size() < names_.size()) row.resize(names_.size());
    row[known->second] = std::move(text);
  }

  /// A block is as long as no request has more of them than its prompt has room for.
  void count_blocks(const Json& object, std::size_t count) {
    const auto length = object.find("input_length");
    if (count == 0 || length == object.end() || !length->is_number_integer()) return;
    const auto tokens = length->get<std::int64_t>();
    if (tokens < 1 || tokens > kMaxTokensPerRequest) return;  // refused where it is read
    for (std::int64_t size : {512, 256, 128, 64, 32, 16}) {
      if (size <= block_ && static_cast<std::int64_t>(count) <= ceil_div(tokens, size)) {
        block_ = size;
        return;
      }
    }
    block_ = 16;
  }

  std::int64_t block_tokens() const { return columns_.contains("chat_id") ? kQwenBlock : block_; }

  /// Mooncake counts whole milliseconds, Qwen-Bailian seconds with a fraction.
  void look_at_clock(const Json& object) {
    const auto at = object.find("timestamp");
    if (at == object.end()) return;
    const bool is_whole = at->is_number() && at->get<double>() == std::floor(at->get<double>()) &&
                          at->get<double>() < 1e11;  // beyond that the number itself says its unit
    all_whole_ = all_whole_ && is_whole;
  }

  bool is_milliseconds() const { return all_whole_ && !columns_.contains("chat_id"); }

  const std::string& path_;
  std::map<std::string, std::size_t> columns_;
  std::vector<std::string> names_;
  std::vector<std::optional<std::vector<std::string>>> rows_;  ///< nothing: an empty line
  std::int64_t block_ = 512;
  bool all_whole_ = true;
};

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

Json parsed(std::string_view text, const std::string& where) {
  return parse_json(text, where, {.max_bytes = kLargestFile});
}

RequestTable of_lines(std::string_view text, const std::string& path) {
  ObjectRows rows(path);
  std::size_t line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view item = text.substr(at, end - at);
    const std::string where = fmt::format("{}, line {}", path, ++line);
    if (is_blank(item)) {
      rows.skip_line();
    } else {
      rows.add(parsed(item, where), where);
    }
    at = end + 1;
  }
  return rows.table();
}

/// The requests of one document: an array of them, or the only list of objects in an object.
RequestTable of_document(const Json& document, const std::string& path) {
  const Json* list = &document;
  if (document.is_object()) {
    for (const auto& [key, value] : document.items()) {
      if (value.is_array() && !value.empty() && value.front().is_object()) list = &value;
    }
  }
  ObjectRows rows(path);
  if (list->is_object()) {
    rows.add(*list, path);
  } else {
    for (std::size_t i = 0; i < list->size(); ++i) {
      rows.add((*list)[i], fmt::format("{}[{}]", path, i));
    }
  }
  return rows.table();
}

}  // namespace

RequestTable read_request_table(const std::string& path) {
  std::string text = read_text_file(path, kLargestFile);
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos || (text[start] != '{' && text[start] != '[')) {
    return {std::move(text), 1};
  }
  const std::string_view first(text.data(), std::min(text.find('\n', start), text.size()));
  const bool is_whole_object = text[start] == '{' && first.find('}') != std::string_view::npos &&
                               first.find_last_not_of(" \t\r") == first.rfind('}');
  if (is_whole_object) return of_lines(text, path);
  return of_document(parsed(text, path), path);
}

}  // namespace tessera
