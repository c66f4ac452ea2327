#include "tessera/core/request_columns.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>

#include "tessera/core/text.h"

namespace tessera {
namespace {

constexpr double kMaxStamp = 1e19;
constexpr double kFirstOfMilliseconds = 1e11;

/// Letters and digits of a name: "Request tokens", "request-tokens" and "RequestTokens" are one.
std::string squeezed(std::string_view name) {
  std::string result;
  for (const char c : lower(name)) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) result += c;
  }
  return result;
}

/// The first of these columns that a table has; names in letters and digits.
std::size_t one_of(const CsvReader& csv, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    for (std::size_t i = 0; i < csv.header().size(); ++i) {
      if (squeezed(csv.header()[i]) == name) return i;
    }
  }
  return CsvReader::none;
}

}  // namespace

RequestColumns::RequestColumns(const CsvReader& csv)
    : prompt(one_of(
          csv, {"prompttokens", "contexttokens", "inputtokens", "numprefilltokens", "inputlength",
                "promptlen", "requesttokens", "inputlen", "promptlength", "numprompttokens", "isl",
                "inputsequencelength", "prefilltokens", "promptsize"})),
      output(one_of(csv, {"outputtokens", "generatedtokens", "numdecodetokens", "outputlength",
                          "outputlen", "responsetokens", "completiontokens", "numoutputtokens",
                          "osl", "outputsequencelength", "decodetokens", "tokensize"})) {
  arrival = one_of(csv, {"arrivals", "arrivaltimes"});
  if (arrival == CsvReader::none) {
    arrival = one_of(csv, {"timestampms", "arrivalms", "arrivaltimems"});
    clock = Clock::milliseconds;
  }
  if (arrival == CsvReader::none) {
    arrival = one_of(csv, {"timestamp", "arrivedat", "arrivaltime", "arrival", "timestamps",
                           "arrivaltimestamp", "created", "createdat", "starttime"});
    clock = Clock::stamps;
  }
  is_burst_gpt = one_of(csv, {"requesttokens"}) != CsvReader::none &&
                 one_of(csv, {"responsetokens"}) != CsvReader::none;
  is_ours = csv.column("output_tokens") != CsvReader::none;
}

TimeStamp arrival_stamp(const CsvReader& csv, std::size_t column) {
  const std::string_view text = csv.field(column);
  if (const std::optional<TimeStamp> stamp = parse_time_stamp(text)) return *stamp;
  const std::optional<double> number = to_number(text);
  if (!number || !(std::abs(*number) <= kMaxStamp)) {
    csv.refuse(fmt::format("{} is {}, seconds or a time such as 2023-11-16 18:15:46.68 is needed",
                           csv.name_of(column), quote(text)));
  }
  // Since 1970 in milli-, micro- or nanoseconds: in seconds these are beyond the year 5000.
  double value = *number;
  while (std::abs(value) >= kFirstOfMilliseconds) value /= 1e3;
  const double whole = std::floor(value);
  return {static_cast<std::int64_t>(whole), value - whole};
}

}  // namespace tessera
