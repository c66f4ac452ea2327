#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::indicator {

struct CsvRow {
  std::size_t line = 0;  ///< 1-based, where the row starts
  std::vector<std::string> fields;
};

struct CsvTable {
  std::string path;
  CsvRow header;
  std::vector<CsvRow> rows;  ///< each as long as the header

  /// Index of a column, or `none`.
  std::size_t column(std::string_view name) const;
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
};

/// RFC 4180 with a header row, LF or CRLF, and lines that start with '#' as comments. Unquoted
/// fields lose blanks around them; column names are compared in lower case.
/// @throws Error{invalid_argument} naming path and line.
CsvTable parse_csv(std::string_view text, const std::string& path);

}  // namespace tessera::indicator
