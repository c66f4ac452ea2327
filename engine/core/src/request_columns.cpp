#include "tessera/core/request_columns.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>

#include "tessera/core/text.h"

namespace tessera {
namespace {

constexpr double kMaxStamp_s = 1e12;

/// The first of these columns that a table has.
std::size_t one_of(const CsvReader& csv, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (csv.column(name) != CsvReader::none) return csv.column(name);
  }
  return CsvReader::none;
}

}  // namespace

RequestColumns::RequestColumns(const CsvReader& csv)
    : prompt(one_of(csv, {"prompt_tokens", "contexttokens", "input_tokens", "num_prefill_tokens",
                          "input_length", "prompt_len"})),
      output(one_of(csv, {"output_tokens", "generatedtokens", "num_decode_tokens", "output_length",
                          "output_len"})),
      arrival(csv.column("arrival_s")) {
  if (arrival == CsvReader::none) {
    arrival = csv.column("timestamp_ms");
    clock = Clock::milliseconds;
  }
  if (arrival == CsvReader::none) {
    arrival = one_of(csv, {"timestamp", "arrived_at", "arrival_time"});
    clock = Clock::stamps;
  }
}

TimeStamp arrival_stamp(const CsvReader& csv, std::size_t column) {
  const std::string_view text = csv.field(column);
  if (const std::optional<TimeStamp> stamp = parse_time_stamp(text)) return *stamp;
  const std::optional<double> number = to_number(text);
  if (!number || !(std::abs(*number) <= kMaxStamp_s)) {
    csv.refuse(fmt::format("{} is {}, seconds or a time such as 2023-11-16 18:15:46.68 is needed",
                           csv.name_of(column), quote(text)));
  }
  const double whole = std::floor(*number);
  return {static_cast<std::int64_t>(whole), *number - whole};
}

}  // namespace tessera
