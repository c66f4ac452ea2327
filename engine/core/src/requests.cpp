#include "tessera/core/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>

#include "tessera/core/csv.h"
#include "tessera/core/error.h"
#include "tessera/core/request_columns.h"
#include "tessera/core/request_table.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

constexpr double kMaxArrival_s = 1e12;

/// Takes a number of just so many digits.
bool take_digits(std::string_view& text, std::size_t count, int& value) {
  if (text.size() < count) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + count, value);
  if (error != std::errc() || end != text.data() + count || value < 0) return false;
  text.remove_prefix(count);
  return true;
}

bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

/// Seconds that a clock is ahead of UTC, by what stands behind its time: nothing, "Z", "+02:00",
/// "-0730" or "+00".
std::optional<int> offset_s(std::string_view text) {
  if (text.empty() || text == "Z") return 0;
  const int sign = text.front() == '-' ? -1 : 1;
  int hours = 0, minutes = 0;
  if (!take(text, "+-") || !take_digits(text, 2, hours)) return std::nullopt;
  take(text, ":");
  if (!text.empty() && !take_digits(text, 2, minutes)) return std::nullopt;
  if (!text.empty() || hours > 15 || minutes > 59) return std::nullopt;
  return sign * (3600 * hours + 60 * minutes);
}

/// Seconds, from where the column counts them.
double arrival_s(const CsvReader& csv, const RequestColumns& columns) {
  switch (columns.clock) {
    case RequestColumns::Clock::seconds:
      return csv.number(columns.arrival, 0, kMaxArrival_s);
    case RequestColumns::Clock::milliseconds:
      return csv.number(columns.arrival, 0, 1e3 * kMaxArrival_s) / 1e3;
    case RequestColumns::Clock::stamps:
      break;
  }
  const TimeStamp stamp = arrival_stamp(csv, columns.arrival);
  return static_cast<double>(stamp.whole_s) + stamp.fraction_s;
}

class RequestReader {
 public:
  RequestReader(const RequestTable& table, const std::string& path, std::int64_t max_prompt,
                std::int64_t max_output)
      : table_(table), path_(path), max_prompt_(max_prompt), max_output_(max_output) {}

  RequestTrace read() {
    CsvReader first(table_.text, path_, table_.first_line);
    if (!first.next()) refuse("no lengths in it");
    const bool numbers =
        std::any_of(first.fields().begin(), first.fields().end(),
                    [](std::string_view field) { return to_number(field).has_value(); });
    CsvReader csv(table_.text, path_, table_.first_line);
    std::optional<RequestColumns> columns;
    if (!numbers) {
      csv.read_header();
      columns.emplace(csv);
      if (!columns->have_lengths()) columns.reset();
    }
    while (csv.next()) add(csv, columns ? *columns : last_two(csv));
    if (trace_.requests.empty()) {
      refuse(trace_.num_left_out > 0
                 ? fmt::format("all {} requests are longer than {} prompt or {} output tokens",
                               trace_.num_left_out, max_prompt_, max_output_)
                 : "no lengths in it");
    }
    if (columns && columns->arrival != CsvReader::none) by_arrival();
    return std::move(trace_);
  }

 private:
  static RequestColumns last_two(const CsvReader& csv) {
    const std::size_t count = csv.fields().size();
    if (count < 2) {
      csv.refuse("one field, where a prompt and an output length (tokens) are needed");
    }
    return {count - 2, count - 1};
  }

  void add(const CsvReader& csv, const RequestColumns& columns) {
    TracedRequest request;
    request.prompt_tokens = csv.integer(columns.prompt, 1, kMaxTokensPerRequest);
    const bool may_fail = !columns.is_ours && columns.arrival != CsvReader::none;
    request.output_tokens = csv.integer(columns.output, may_fail ? 0 : 1, kMaxTokensPerRequest);
    if (request.output_tokens == 0) return;  // it got no answer
    if (columns.arrival != CsvReader::none) request.arrival_s = arrival_s(csv, columns);
    if (request.prompt_tokens > max_prompt_ || request.output_tokens > max_output_) {
      ++trace_.num_left_out;
    } else {
      trace_.requests.push_back(request);
    }
  }

  // Traces are written as requests end, or as they come.
  void by_arrival() {
    std::stable_sort(
        trace_.requests.begin(), trace_.requests.end(),
        [](const TracedRequest& a, const TracedRequest& b) { return a.arrival_s < b.arrival_s; });
    const double first = trace_.requests.front().arrival_s;
    for (TracedRequest& request : trace_.requests) request.arrival_s -= first;
    trace_.has_arrivals = true;
  }

  [[noreturn]] void refuse(const std::string& problem) const { tessera::refuse(path_, problem); }

  const RequestTable& table_;
  const std::string& path_;
  std::int64_t max_prompt_, max_output_;
  RequestTrace trace_;
};

std::optional<std::int64_t> take_length(std::string_view& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 1 || value > kMaxTokensPerRequest) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// "374 44", or "374 44 0.5" with an arrival.
std::optional<TracedRequest> request_of(std::string_view item, bool has_arrival) {
  const std::optional<std::int64_t> prompt = take_length(item);
  if (!prompt || !take(item, " ")) return std::nullopt;
  const std::optional<std::int64_t> output = take_length(item);
  if (!output) return std::nullopt;
  if (!has_arrival)
    return item.empty() ? std::optional(TracedRequest{*prompt, *output, 0}) : std::nullopt;
  if (!take(item, " ")) return std::nullopt;
  const std::optional<double> arrival = to_number(item);
  if (!arrival || *arrival < 0 || *arrival > kMaxArrival_s) return std::nullopt;
  return TracedRequest{*prompt, *output, *arrival};
}

template <typename Value>
double mean(const RequestTrace& trace, Value value) {
  double sum = 0;
  for (const TracedRequest& request : trace.requests) sum += static_cast<double>(value(request));
  return sum / static_cast<double>(trace.requests.size());
}

template <typename Value>
std::int64_t largest(const RequestTrace& trace, Value value) {
  std::int64_t result = 0;
  for (const TracedRequest& request : trace.requests) result = std::max(result, value(request));
  return result;
}

}  // namespace

double RequestTrace::mean_prompt_tokens() const {
  return mean(*this, [](const TracedRequest& r) { return r.prompt_tokens; });
}

double RequestTrace::mean_output_tokens() const {
  return mean(*this, [](const TracedRequest& r) { return r.output_tokens; });
}

std::int64_t RequestTrace::max_prompt_tokens() const {
  return largest(*this, [](const TracedRequest& r) { return r.prompt_tokens; });
}

std::int64_t RequestTrace::max_output_tokens() const {
  return largest(*this, [](const TracedRequest& r) { return r.output_tokens; });
}

double RequestTrace::mean_context_tokens() const {
  const double steps = mean_output_tokens();
  const double cached = mean(*this, [](const TracedRequest& r) {
    const auto prompt = static_cast<double>(r.prompt_tokens);
    const auto output = static_cast<double>(r.output_tokens);
    return output * (prompt + output / 2);
  });
  return cached / steps;
}

std::optional<TimeStamp> parse_time_stamp(std::string_view text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, whole = 0;
  if (!take_digits(text, 4, year) || !take(text, "-") || !take_digits(text, 2, month) ||
      !take(text, "-") || !take_digits(text, 2, day) || !take(text, " T") ||
      !take_digits(text, 2, hour) || !take(text, ":") || !take_digits(text, 2, minute) ||
      !take(text, ":") || !take_digits(text, 2, whole)) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || whole > 60) return std::nullopt;
  double fraction = 0;
  if (!text.empty() && (text.front() == '.' || text.front() == ',')) {
    const std::string digits = "0." + std::string(text.substr(1, text.find_first_of("Z+-") - 1));
    const std::optional<double> read = to_number(digits);
    if (!read || *read >= 1) return std::nullopt;
    fraction = *read;
    text.remove_prefix(digits.size() - 1);
  }
  const std::optional<int> offset = offset_s(text);
  if (!offset) return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return TimeStamp{
      86400 * static_cast<std::int64_t>(days) + 3600 * hour + 60 * minute + whole - *offset,
      fraction};
}

RequestTrace read_requests(const std::string& path, std::int64_t max_prompt_tokens,
                           std::int64_t max_output_tokens) {
  const RequestTable table = read_request_table(path);
  return RequestReader(table, path, max_prompt_tokens, max_output_tokens).read();
}

std::string to_text(const RequestTrace& trace) {
  std::string text;
  for (const TracedRequest& r : trace.requests) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ";", r.prompt_tokens, r.output_tokens);
    if (trace.has_arrivals) text += fmt::format(" {}", r.arrival_s);
  }
  return text;
}

RequestTrace requests_from_text(std::string_view text, const std::string& path) {
  RequestTrace trace;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    const std::string_view item = text.substr(at, end - at);
    const bool first = trace.requests.empty();
    if (first) trace.has_arrivals = std::count(item.begin(), item.end(), ' ') == 2;
    const std::optional<TracedRequest> request = request_of(item, trace.has_arrivals);
    if (!request || (!first && request->arrival_s < trace.requests.back().arrival_s)) {
      refuse(path,
             "request {} is {}; prompt and output tokens are needed, and "
             "after them in all or in none an arrival (s), ascending",
             trace.requests.size() + 1, quote(item));
    }
    trace.requests.push_back(*request);
    at = end + 1;
  }
  return trace;
}

}  // namespace tessera
