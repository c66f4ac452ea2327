#pragma once

#include "tessera/core/csv.h"
#include "tessera/core/requests.h"

namespace tessera {

/// Where the lengths and the arrival of a request stand in a table, by the names that they have in
/// traces of Azure, BurstGPT, Vidur, Mooncake and others; CsvReader::none: nowhere.
struct RequestColumns {
  explicit RequestColumns(const CsvReader& csv);
  /// Of a table without names, nor arrivals.
  RequestColumns(std::size_t prompt_column, std::size_t output_column)
      : prompt(prompt_column), output(output_column) {}

  /// How arrivals are written: after the start, or on a clock of their own.
  enum class Clock { seconds, milliseconds, stamps };

  std::size_t prompt, output, arrival = CsvReader::none;
  Clock clock = Clock::seconds;
  bool is_burst_gpt = false;  ///< whose clock counts whole seconds and whose models are a service's
  bool is_ours = false;       ///< in other traces an answer of no tokens is a request that failed

  bool have_lengths() const { return prompt != CsvReader::none && output != CsvReader::none; }
};

/// An arrival of Clock::stamps: a time, or seconds; beyond 1e11 milliseconds, and so on.
/// @throws Error naming the file, the line, the column and its text.
TimeStamp arrival_stamp(const CsvReader& csv, std::size_t column);

}  // namespace tessera
