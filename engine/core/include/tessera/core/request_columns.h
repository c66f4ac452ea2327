#pragma once

#include "tessera/core/csv.h"
#include "tessera/core/requests.h"

namespace tessera {

/// Where the lengths and the arrival of a request stand in a table, by the names that they have in
/// traces of Azure, Vidur, Mooncake and others; CsvReader::none: nowhere.
struct RequestColumns {
  explicit RequestColumns(const CsvReader& csv);
  /// Of a table without names, nor arrivals.
  RequestColumns(std::size_t prompt_column, std::size_t output_column)
      : prompt(prompt_column), output(output_column) {}

  /// How arrivals are written: after the start, or on a clock of their own.
  enum class Clock { seconds, milliseconds, stamps };

  std::size_t prompt, output, arrival = CsvReader::none;
  Clock clock = Clock::seconds;

  bool have_lengths() const { return prompt != CsvReader::none && output != CsvReader::none; }
};

/// An arrival of Clock::stamps: seconds of at most 1e12 either way, or a time.
/// @throws Error naming the file, the line, the column and its text.
TimeStamp arrival_stamp(const CsvReader& csv, std::size_t column);

}  // namespace tessera
