#include <algorithm>
#include <initializer_list>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "trace_reader.h"

namespace tessera::serving {
namespace {

[[noreturn]] void refuse_columns(const CsvReader& csv, const std::string& problem) {
  tessera::refuse(csv.path(), "{}; the header has: {}", problem,
                  quote(join(csv.header(), ", "), 200));
}

}  // namespace

TraceColumns::TraceColumns(const CsvReader& csv) : RequestColumns(csv) {
  if (!have_lengths()) {
    const bool is_result = csv.column("request_throughput") != CsvReader::none;
    refuse_columns(csv, is_result ? "a benchmark's result and no trace; `tessera compare` reads it"
                                  : "no columns of prompt and output lengths (prompt_tokens, "
                                    "output_tokens), which texts alone, as ShareGPT's, do not say");
  }
  if (arrival == CsvReader::none) {
    refuse_columns(csv,
                   "no column of arrivals (arrival_s in seconds, arrival_ms in milliseconds, "
                   "timestamp with a date); for lengths alone give lengths = and rate_per_s in "
                   "place of trace =");
  }
  model = is_burst_gpt ? CsvReader::none : csv.column("model");
  max_tokens = csv.column("max_tokens");
  priority = csv.column("priority");
  slo_class = csv.column("slo_class");
  prefix_group = csv.column("prefix_group");
  prefix_tokens = csv.column("prefix_tokens");
  session = csv.column("session");
  after = csv.column("after");
  cancel_after = csv.column("cancel_after_s");
  block_ids = csv.column("block_ids");
  block_id_tokens = csv.column("block_id_tokens");
  if ((prefix_group == CsvReader::none) != (prefix_tokens == CsvReader::none)) {
    refuse_columns(csv, "one of prefix_group and prefix_tokens without the other");
  }
  if (after != CsvReader::none && clock == Clock::stamps) {
    refuse_columns(csv, "column after needs arrival_s, of later turns the time after that answer");
  }
  if (block_id_tokens != CsvReader::none && block_ids == CsvReader::none) {
    refuse_columns(csv, "block_id_tokens without block_ids");
  }
  const std::initializer_list<std::size_t> known = {
      arrival,      prompt,        output,  model, max_tokens,   priority,  slo_class,
      prefix_group, prefix_tokens, session, after, cancel_after, block_ids, block_id_tokens};
  for (std::size_t i = 0; i < csv.header().size(); ++i) {
    if (std::find(known.begin(), known.end(), i) == known.end()) {
      left_out.push_back(quote(csv.header()[i]));
    }
  }
}

std::optional<Ticks> exact_ticks(std::string_view text, int digits) {
  constexpr auto kMost = static_cast<Ticks>(kLongestRun_s) * kTicksPerSecond;
  Ticks ticks = 0;
  int left = -1;  // digits after the point that still count; -1: before it
  bool any = false;
  const auto take = [&](int digit) {
    if (ticks > (kMost - digit) / 10) return false;
    ticks = 10 * ticks + digit;
    return true;
  };
  for (const char c : text) {
    if (c == '.' && left < 0 && any) {
      left = digits;
    } else if (c < '0' || c > '9') {
      return std::nullopt;
    } else {
      any = true;
      if (left == 0 && c != '0') return std::nullopt;
      if (left == 0) continue;
      if (!take(c - '0')) return std::nullopt;
      if (left > 0) --left;
    }
  }
  if (!any) return std::nullopt;
  for (int i = left < 0 ? digits : left; i > 0; --i) {
    if (!take(0)) return std::nullopt;
  }
  return ticks;
}

}  // namespace tessera::serving
