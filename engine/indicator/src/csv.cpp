#include "csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::indicator {
namespace {

[[noreturn]] void refuse_line(const std::string& path, std::size_t line,
                              const std::string& problem) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}, line {}: {}", path, line, problem),
              path);
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& path) : text_(text), path_(path) {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") at_ = 3;  // byte order mark of spreadsheets
  }

  /// False at the end of the text.
  bool next(CsvRow& row) {
    skip_blank_lines_and_comments();
    if (at_ >= text_.size()) return false;
    row.line = line_;
    row.fields.clear();
    do {
      row.fields.push_back(field());
    } while (take(','));
    if (at_ < text_.size() && !take_newline())
      refuse_line(path_, line_, "text after a quoted field");
    return true;
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool take_newline() {
    if (peek() == '\r' && peek(1) == '\n') ++at_;
    if (!take('\n')) return false;
    ++line_;
    return true;
  }

  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t') ++at_;
  }

  void skip_blank_lines_and_comments() {
    while (at_ < text_.size()) {
      const std::size_t start = at_;
      skip_blanks();
      if (peek() == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      if (take_newline()) continue;
      if (at_ < text_.size()) at_ = start;
      return;
    }
  }

  std::string field() {
    const std::size_t start = at_;
    skip_blanks();
    if (peek() == '"') {
      std::string content = quoted();
      skip_blanks();
      return content;
    }
    at_ = std::min(text_.find_first_of(",\n", start), text_.size());
    std::string_view raw = text_.substr(start, at_ - start);
    if (!raw.empty() && raw.back() == '\r' && peek() == '\n') {
      raw.remove_suffix(1);
      --at_;
    }
    return trimmed(raw);
  }

  std::string quoted() {
    const std::size_t first_line = line_;
    std::string content;
    ++at_;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == '"') {
        ++at_;
        if (peek() != '"') return content;
      }
      content += c;
    }
    refuse_line(path_, first_line, "a quoted field is not closed");
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
};

void check_header(CsvTable& table) {
  std::vector<std::string>& names = table.header.fields;
  for (std::string& name : names) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (table.column(names[i]) != i && !names[i].empty()) {
      refuse_line(table.path, table.header.line, fmt::format("two columns {}", quote(names[i])));
    }
  }
}

}  // namespace

std::size_t CsvTable::column(std::string_view name) const {
  const auto it = std::find(header.fields.begin(), header.fields.end(), name);
  return it == header.fields.end() ? none : static_cast<std::size_t>(it - header.fields.begin());
}

CsvTable parse_csv(std::string_view text, const std::string& path) {
  CsvTable table;
  table.path = path;
  Reader reader(text, path);
  if (!reader.next(table.header)) {
    throw Error(ErrorCode::invalid_argument, path + ": empty, a header row expected", path);
  }
  check_header(table);
  CsvRow row;
  while (reader.next(row)) {
    if (row.fields.size() != table.header.fields.size()) {
      refuse_line(path, row.line,
                  fmt::format("{} fields where the header has {}", row.fields.size(),
                              table.header.fields.size()));
    }
    table.rows.push_back(row);
  }
  return table;
}

}  // namespace tessera::indicator
