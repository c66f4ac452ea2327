#pragma once

#include <initializer_list>
#include <string_view>

#include "tessera/core/csv.h"

namespace tessera {

/// Where the lengths of requests stand in a table, by the names that it has in traces of Azure,
/// Vidur, Mooncake and others; CsvReader::none: nowhere.
struct LengthColumns {
  explicit LengthColumns(const CsvReader& csv);

  std::size_t prompt, output;
  bool are_there() const { return prompt != CsvReader::none && output != CsvReader::none; }
};

/// The first of these columns that a table has.
std::size_t one_of(const CsvReader& csv, std::initializer_list<std::string_view> names);

}  // namespace tessera
