#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Reads RFC 4180 text row by row: LF or CRLF, quoted fields (with line ends in them), a byte order
/// mark, empty lines, and lines that start with '#' as comments. Unquoted fields lose blanks around
/// them. Where the first row has no comma, semicolons or tabs stand between fields; beside
/// semicolons a number may have a comma for its point. Every error names the file and the line.
class CsvReader {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// `text` must outlive the reader; its lines are counted from `first_line` on.
  /// @throws Error{invalid_argument} for text with NUL bytes.
  CsvReader(std::string_view text, std::string path, std::size_t first_line = 1);

  /// Takes the next row as names of columns, in lower case; later rows must be as long.
  /// @throws Error{invalid_argument} where there is no row, or two columns have one name.
  void read_header();
  /// Goes to the next row; false at the end. @throws Error{invalid_argument}.
  bool next();

  std::size_t line() const { return line_; }  ///< 1-based, where the current row starts
  /// Fields of the current row, valid until the next.
  const std::vector<std::string_view>& fields() const { return fields_; }
  std::string_view field(std::size_t column) const { return fields_[column]; }

  const std::vector<std::string>& header() const { return header_; }
  /// Index of a column, or `none`.
  std::size_t column(std::string_view name) const;
  /// The same. @throws Error{invalid_argument} with the columns that are there.
  std::size_t require_column(std::string_view name) const;

  /// The field as a finite number in [low, high]. @throws Error{invalid_argument}.
  double number(std::size_t column, double low, double high) const;
  /// The field as an integer in [low, high]. @throws Error{invalid_argument}.
  std::int64_t integer(std::size_t column, std::int64_t low, std::int64_t high) const;
  /// How messages call a column: by its name, or "field 2" without a header.
  std::string name_of(std::size_t column) const;

  const std::string& path() const { return path_; }
  /// @throws Error{invalid_argument}: "trace.csv, line 7: <problem>".
  [[noreturn]] void refuse(const std::string& problem) const;

 private:
  char peek(std::size_t ahead = 0) const;
  bool take(char c);
  bool take_newline();
  void skip_blanks();
  void skip_blank_lines_and_comments();
  std::string_view next_field();
  std::string_view quoted_field();
  char separator_of_first_row() const;
  std::string_view with_point(std::string_view field);
  [[noreturn]] void refuse_at(std::size_t line, const std::string& problem) const;

  std::string_view text_;
  std::string path_;
  char separator_ = ',';
  std::size_t at_ = 0;
  std::size_t next_line_ = 1;  ///< line of `at_`
  std::size_t line_ = 1;
  std::vector<std::string_view> fields_;
  std::deque<std::string> unescaped_;  ///< of the current row: fields that are not as in the text
  std::vector<std::string> header_;
};

/// The text as a finite number, or nothing: no blanks, no sign '+', no hexadecimal.
std::optional<double> to_number(std::string_view text);

struct CsvRow {
  std::size_t line = 0;  ///< 1-based, where the row starts
  std::vector<std::string> fields;
};

/// A whole file, for those who go through it more than once.
struct CsvTable {
  std::string path;
  CsvRow header;
  std::vector<CsvRow> rows;  ///< each as long as the header

  /// Index of a column, or `none`.
  std::size_t column(std::string_view name) const;
  static constexpr std::size_t none = CsvReader::none;
};

/// @throws Error{invalid_argument} naming path and line.
CsvTable parse_csv(std::string_view text, const std::string& path);

}  // namespace tessera
