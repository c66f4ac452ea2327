#include "trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::serving {
namespace {

// Of arrivals, beyond which their unit is asked after.
constexpr double kLeastGap_s = 1e-3, kLongGap_s = 10, kLongestGap_s = 100;
constexpr auto kMaxId = static_cast<std::int64_t>(kMaxExactInteger);

class TraceReader {
 public:
  TraceReader(const TraceFile& file, bool sort)
      : csv_(file.table.text, file.path, file.table.first_line), sort_(sort) {
    csv_.read_header();
  }

  Traffic read() {
    const TraceColumns columns(csv_);
    if (sort_ && columns.after != CsvReader::none) {
      tessera::refuse(csv_.path(),
                      "sort = true would take turns away from those that they wait for (column "
                      "after); write the file in order of arrival");
    }
    while (csv_.next()) add(columns);
    if (traffic_.requests.empty()) {
      tessera::refuse(csv_.path(),
                      num_unanswered_ == 0
                          ? "no requests in it"
                          : fmt::format("none of its {} requests got an answer", num_unanswered_));
    }
    look_at_unit(columns);
    if (num_unanswered_ > 0) {
      traffic_.notes.push_back(
          fmt::format("{} requests without an answer were left out", num_unanswered_));
    }
    if (sort_) {
      std::stable_sort(traffic_.requests.begin(), traffic_.requests.end(),
                       [](const Request& a, const Request& b) { return a.arrival < b.arrival; });
    }
    if (columns.clock == TraceColumns::Clock::stamps) from_first();
    if (!columns.left_out.empty()) {
      traffic_.notes.push_back("columns left out: " + join(columns.left_out, ", "));
    }
    traffic_.replayed = true;
    return std::move(traffic_);
  }

 private:
  std::int64_t optional_integer(std::size_t column, std::int64_t low, std::int64_t high,
                                std::int64_t absent) const {
    if (column == CsvReader::none || csv_.field(column).empty()) return absent;
    return csv_.integer(column, low, high);
  }

  void add(const TraceColumns& c) {
    if (traffic_.requests.size() >= static_cast<std::size_t>(kMaxRequests)) {
      csv_.refuse(fmt::format("more than {} requests", kMaxRequests));
    }
    Request r;
    r.prompt_tokens = csv_.integer(c.prompt, 1, kMaxTokensPerRequest);
    r.output_tokens = csv_.integer(c.output, c.is_ours || c.after != CsvReader::none ? 1 : 0,
                                   kMaxTokensPerRequest);
    if (r.output_tokens == 0) {  // in others' traces: it failed
      ++num_unanswered_;
      return;
    }
    r.max_tokens = optional_integer(c.max_tokens, 0, kMaxTokensPerRequest, 0);
    if (r.max_tokens != 0 && r.max_tokens < r.output_tokens) {
      csv_.refuse(fmt::format("output_tokens ({}) is above max_tokens ({})", r.output_tokens,
                              r.max_tokens));
    }
    if (c.model != CsvReader::none) {
      const std::string_view name = csv_.field(c.model);
      if (name.empty()) csv_.refuse("model is empty; each request names the one that it is for");
      r.model = number_of_model(std::string(name));
    }
    r.priority =
        static_cast<std::int32_t>(optional_integer(c.priority, -1'000'000'000, 1'000'000'000, 0));
    r.slo_class = static_cast<std::int32_t>(optional_integer(c.slo_class, 0, 1000, 0));
    r.stream = optional_integer(c.session, -1, kMaxId, -1);
    const auto index = static_cast<std::int64_t>(traffic_.requests.size());
    r.after = optional_integer(c.after, -1, index - 1, -1);
    add_prefix(c, r);
    add_blocks(c, r);
    r.arrival = arrival(c, r.after >= 0);
    if (c.cancel_after != CsvReader::none && !csv_.field(c.cancel_after).empty()) {
      r.cancel_after = time(c.cancel_after, true);
    }
    traffic_.requests.push_back(r);
  }

  std::int32_t number_of_model(const std::string& name) {
    const auto [known, is_new] =
        numbers_.try_emplace(name, static_cast<std::int32_t>(traffic_.models.size()));
    if (is_new) traffic_.models.push_back(name);
    return known->second;
  }

  void add_prefix(const TraceColumns& c, Request& r) {
    if (c.prefix_group == CsvReader::none) return;
    r.prefix_group = optional_integer(c.prefix_group, -1, kMaxId, -1);
    r.prefix_tokens = optional_integer(c.prefix_tokens, 0, kMaxTokensPerRequest, 0);
    if (r.prefix_tokens > r.prompt_tokens) {
      csv_.refuse(fmt::format("prefix_tokens ({}) is above prompt_tokens ({})", r.prefix_tokens,
                              r.prompt_tokens));
    }
    if (r.prefix_group < 0 && r.prefix_tokens > 0) {
      csv_.refuse(fmt::format("prefix_tokens ({}) without a prefix_group", r.prefix_tokens));
    }
  }

  void add_blocks(const TraceColumns& c, Request& r) {
    if (c.block_ids == CsvReader::none) return;
    const std::int64_t tokens =
        optional_integer(c.block_id_tokens, 1, kMaxTokensPerRequest, traffic_.block_id_tokens);
    if (traffic_.requests.empty()) {
      traffic_.block_id_tokens = tokens;
    } else if (tokens != traffic_.block_id_tokens) {
      csv_.refuse(
          fmt::format("block_id_tokens is {}, above it was {}", tokens, traffic_.block_id_tokens));
    }
    r.first_block_id = static_cast<std::int64_t>(traffic_.block_ids.size());
    read_ids(csv_.field(c.block_ids));
    r.num_block_ids = static_cast<std::int64_t>(traffic_.block_ids.size()) - r.first_block_id;
    if (r.num_block_ids == 0) r.first_block_id = 0;
    if (r.num_block_ids > ceil_div(r.prompt_tokens, tokens)) {
      csv_.refuse(fmt::format("{} block_ids of {} tokens for a prompt of {}", r.num_block_ids,
                              tokens, r.prompt_tokens));
    }
    if (r.num_block_ids > 0 && (r.prefix_group >= 0 || r.stream >= 0)) {
      csv_.refuse("block_ids beside prefix_group or session; give one");
    }
  }

  void read_ids(std::string_view text) {
    const char *at = text.data(), *const end = at + text.size();
    while (at != end) {
      std::int64_t id = 0;
      const auto [next, error] = std::from_chars(at, end, id);
      if (error != std::errc() || id < 0 || id > kMaxId || (next != end && *next != ' ')) {
        csv_.refuse(fmt::format("block_ids is {}, whole numbers with one blank between are needed",
                                quote(text)));
      }
      traffic_.block_ids.push_back(id);
      at = next == end ? end : next + 1;
    }
  }

  Ticks arrival(const TraceColumns& c, bool waits) {
    if (csv_.field(c.arrival).empty()) {
      csv_.refuse(fmt::format(
          "{} says nothing; each request has its arrival, and a turn that follows an answer says "
          "that in column after (`tessera man serving`)",
          csv_.name_of(c.arrival)));
    }
    const Ticks at = c.clock == TraceColumns::Clock::stamps
                         ? stamp(c.arrival)
                         : time(c.arrival, c.clock == TraceColumns::Clock::seconds);
    if (waits) return at;
    if (at < latest_ && !sort_) {
      csv_.refuse(
          fmt::format("{} is {}, before the one above it; sort the file, or give sort = "
                      "true",
                      csv_.name_of(c.arrival), quote(csv_.field(c.arrival))));
    }
    latest_ = std::max(latest_, at);
    const std::string_view text = csv_.field(c.arrival);
    all_whole_ = all_whole_ && text.find_first_not_of("0123456789") == std::string_view::npos;
    first_ = std::min(first_, at);
    ++num_timed_;
    return at;
  }

  /// Whole numbers that would be far apart in seconds, or less than 1 ms apart in milliseconds, may
  /// be of another unit: named, and refused where it is all but certain.
  void look_at_unit(const TraceColumns& c) {
    if (num_timed_ < 3 || latest_ == first_ || c.is_burst_gpt) return;
    const double gap_s = to_seconds(latest_ - first_) / static_cast<double>(num_timed_ - 1);
    const std::string name = csv_.name_of(c.arrival);
    if (c.clock == TraceColumns::Clock::milliseconds) {
      if (all_whole_ || gap_s >= kLeastGap_s) return;
      traffic_.notes.push_back(
          fmt::format("{} taken as milliseconds makes {:.3g} requests a second; if it counts "
                      "seconds, call the column arrival_s",
                      name, 1 / gap_s));
      return;
    }
    if (!all_whole_ || gap_s < kLongGap_s) return;
    const std::string text = fmt::format(
        "{} has whole numbers, {:.3g} apart on average, which as seconds is one request "
        "in {:.3g} s; if they are milliseconds, call the column timestamp_ms",
        name, gap_s, gap_s);
    if (gap_s >= kLongestGap_s) {
      tessera::refuse(csv_.path(), "{}; if they are seconds, write them with a point (120.0)",
                      text);
    }
    traffic_.notes.push_back(text);
  }

  /// @param seconds else milliseconds
  Ticks time(std::size_t column, bool seconds) const {
    const std::string_view text = csv_.field(column);
    if (const auto exact = exact_ticks(text, seconds ? 12 : 9)) return *exact;
    const double most = seconds ? kLongestRun_s : 1e3 * kLongestRun_s;
    const double value = csv_.number(column, 0, most);
    return static_cast<Ticks>(std::llround(value * (seconds ? 1e12 : 1e9)));
  }

  /// Ticks since the first row's.
  Ticks stamp(std::size_t column) {
    const TimeStamp stamp = arrival_stamp(csv_, column);
    if (traffic_.requests.empty()) first_s_ = stamp.whole_s;
    const std::int64_t whole_s = stamp.whole_s - first_s_;
    if (std::abs(static_cast<double>(whole_s)) > kLongestRun_s / 2) {
      csv_.refuse(fmt::format("{} is {}, more than {} s from the first", csv_.name_of(column),
                              quote(csv_.field(column)), kLongestRun_s / 2));
    }
    return whole_s * kTicksPerSecond + static_cast<Ticks>(std::llround(stamp.fraction_s * 1e12));
  }

  void from_first() {
    Ticks first = kNever;
    for (const Request& r : traffic_.requests) {
      if (r.after < 0) first = std::min(first, r.arrival);
    }
    for (Request& r : traffic_.requests) {
      if (r.after < 0) r.arrival -= first;
    }
  }

  CsvReader csv_;
  bool sort_;
  Traffic traffic_;
  std::unordered_map<std::string, std::int32_t> numbers_;  ///< of models, by name
  Ticks first_ = kNever;
  Ticks latest_ = std::numeric_limits<Ticks>::min();
  std::int64_t num_timed_ = 0, num_unanswered_ = 0;
  bool all_whole_ = true;  ///< arrivals without a point
  std::int64_t first_s_ = 0;
};

}  // namespace

TraceFile::TraceFile(const std::string& file) : path(file), table(read_request_table(file)) {
  CsvReader csv(table.text, path, table.first_line);
  csv.read_header();
  has_rates = csv.column("t_s") != CsvReader::none && csv.column("rate_per_s") != CsvReader::none;
}

Traffic read_trace(const TraceFile& file, bool sort) { return TraceReader(file, sort).read(); }

Traffic read_trace(const std::string& path, bool sort) {
  const TraceFile file(path);
  if (file.has_rates) {
    refuse(path, "rates over time (t_s, rate_per_s), where a trace of requests is needed");
  }
  return read_trace(file, sort);
}

}  // namespace tessera::serving
