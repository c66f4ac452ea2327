#include "tessera/core/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::size_t index_of(const std::vector<std::string>& names, std::string_view name) {
  const auto it = std::find(names.begin(), names.end(), name);
  return it == names.end() ? CsvReader::none : static_cast<std::size_t>(it - names.begin());
}

}  // namespace

CsvReader::CsvReader(std::string_view text, std::string path, std::size_t first_line)
    : text_(text), path_(std::move(path)), next_line_(first_line) {
  const std::size_t nul = text_.find('\0');
  if (nul != std::string_view::npos) {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<long>(nul), '\n');
    refuse_at(static_cast<std::size_t>(line), "a NUL byte; this is no text in UTF-8 or ASCII");
  }
  if (text_.substr(0, 3) == "\xEF\xBB\xBF") at_ = 3;  // byte order mark of spreadsheets
  separator_ = separator_of_first_row();
}

char CsvReader::separator_of_first_row() const {
  for (std::size_t at = at_; at < text_.size();) {
    const std::size_t end = std::min(text_.find('\n', at), text_.size());
    const std::string_view row = trimmed(text_.substr(at, end - at));
    at = end + 1;
    if (row.empty() || row == "\r" || row.front() == '#') continue;
    for (const char separator : {',', ';', '\t'}) {
      // "0,0;512;64" without a header: a comma that is a point, between semicolons
      if (separator == ',' && row.find(';') != std::string_view::npos &&
          to_number(row.substr(0, row.find(','))) && row.front() != '"') {
        continue;
      }
      if (row.find(separator) != std::string_view::npos) return separator;
    }
    break;
  }
  return ',';
}

void CsvReader::read_header() {
  if (!next()) {
    tessera::refuse(path_, "empty, a header row expected");
  }
  for (const std::string_view name : fields_) header_.push_back(lower(name));
  for (std::size_t i = 0; i < header_.size(); ++i) {
    if (column(header_[i]) != i && !header_[i].empty()) {
      refuse(fmt::format("two columns {}", quote(header_[i])));
    }
  }
}

bool CsvReader::next() {
  skip_blank_lines_and_comments();
  if (at_ >= text_.size()) return false;
  line_ = next_line_;
  fields_.clear();
  unescaped_.clear();
  do {
    fields_.push_back(next_field());
  } while (take(separator_));
  if (at_ < text_.size() && !take_newline()) refuse_at(next_line_, "text after a quoted field");
  if (!header_.empty() && fields_.size() != header_.size()) {
    refuse(fmt::format("{} fields where the header has {}", fields_.size(), header_.size()));
  }
  return true;
}

std::size_t CsvReader::column(std::string_view name) const { return index_of(header_, name); }

std::size_t CsvReader::require_column(std::string_view name) const {
  const std::size_t index = column(name);
  if (index != none) return index;
  tessera::refuse(path_, "no column '{}'; the header has: {}", name,
                  quote(join(header_, ", "), 200));
}

double CsvReader::number(std::size_t column, double low, double high) const {
  const std::optional<double> value = to_number(field(column));
  if (value && *value >= low && *value <= high) return *value;
  refuse(fmt::format("{} is {}, a number in [{:g}, {:g}] is needed", name_of(column),
                     quote(field(column)), low, high));
}

std::int64_t CsvReader::integer(std::size_t column, std::int64_t low, std::int64_t high) const {
  const std::string_view text = field(column);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high) {
    return value;
  }
  refuse(fmt::format("{} is {}, an integer in [{}, {}] is needed", name_of(column), quote(text),
                     low, high));
}

std::string CsvReader::name_of(std::size_t column) const {
  return column < header_.size() ? quote(header_[column]) : fmt::format("field {}", column + 1);
}

void CsvReader::refuse(const std::string& problem) const { refuse_at(line_, problem); }

void CsvReader::refuse_at(std::size_t line, const std::string& problem) const {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}, line {}: {}", path_, line, problem),
              path_);
}

char CsvReader::peek(std::size_t ahead) const {
  return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
}

bool CsvReader::take(char c) {
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

bool CsvReader::take_newline() {
  if (peek() == '\r' && peek(1) == '\n') ++at_;
  if (!take('\n')) return false;
  ++next_line_;
  return true;
}

void CsvReader::skip_blanks() {
  while (peek() == ' ' || (peek() == '\t' && separator_ != '\t')) ++at_;
}

void CsvReader::skip_blank_lines_and_comments() {
  while (at_ < text_.size()) {
    const std::size_t start = at_;
    skip_blanks();
    if (peek() == '#') at_ = std::min(text_.find('\n', at_), text_.size());
    if (take_newline()) continue;
    if (at_ < text_.size()) at_ = start;
    return;
  }
}

std::string_view CsvReader::next_field() {
  const std::size_t start = at_;
  skip_blanks();
  if (peek() == '"') {
    const std::string_view content = quoted_field();
    skip_blanks();
    return content;
  }
  const char ends[] = {separator_, '\n', '\0'};
  at_ = std::min(text_.find_first_of(ends, start), text_.size());
  std::string_view raw = text_.substr(start, at_ - start);
  if (!raw.empty() && raw.back() == '\r' && peek() == '\n') {
    raw.remove_suffix(1);
    --at_;
  }
  return separator_ == ';' ? with_point(trimmed(raw)) : trimmed(raw);
}

/// "0,5" as "0.5".
std::string_view CsvReader::with_point(std::string_view field) {
  const std::size_t comma = field.find(',');
  if (comma == std::string_view::npos || field.find('.') != std::string_view::npos) return field;
  std::string number(field);
  number[comma] = '.';
  return to_number(number) ? unescaped_.emplace_back(std::move(number)) : field;
}

std::string_view CsvReader::quoted_field() {
  const std::size_t first_line = next_line_, start = ++at_;
  bool doubled = false;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\n') ++next_line_;
    if (c != '"') continue;
    if (peek(1) == '"') {
      doubled = true;
      ++at_;
      continue;
    }
    const std::string_view raw = text_.substr(start, at_++ - start);
    if (!doubled) return raw;
    std::string& content = unescaped_.emplace_back();
    for (std::size_t i = 0; i < raw.size(); ++i) {
      content += raw[i];
      if (raw[i] == '"') ++i;  // the second of a pair
    }
    return content;
  }
  refuse_at(first_line, "a quoted field is not closed");
}

std::optional<double> to_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::size_t CsvTable::column(std::string_view name) const { return index_of(header.fields, name); }

CsvTable parse_csv(std::string_view text, const std::string& path) {
  CsvReader reader(text, path);
  reader.read_header();
  CsvTable table;
  table.path = path;
  table.header = {reader.line(), reader.header()};
  while (reader.next()) {
    table.rows.push_back({reader.line(), {reader.fields().begin(), reader.fields().end()}});
  }
  return table;
}

}  // namespace tessera
