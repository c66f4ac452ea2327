#pragma once

#include <string>
#include <vector>

#include "generate.h"
#include "tessera/core/request_columns.h"
#include "tessera/core/request_table.h"
#include "tessera/serving/traffic_options.h"

namespace tessera::serving {

/// Where the parts of a request stand in a row; CsvReader::none: nowhere.
struct TraceColumns : RequestColumns {
  explicit TraceColumns(const CsvReader& csv);

  std::size_t model, max_tokens, priority, slo_class, prefix_group, prefix_tokens, session, after,
      cancel_after, block_ids, block_id_tokens;
  std::vector<std::string> left_out;  ///< columns that nothing is known of
};

/// The exact tick of a decimal number of units of 10^-`digits` ticks: digits = 12 for seconds, 9
/// for milliseconds. Nothing for other texts, negative numbers, and times beyond kLongestRun_s.
std::optional<Ticks> exact_ticks(std::string_view text, int digits);

/// The text of a file that is a trace or rates over time.
struct TraceFile {
  explicit TraceFile(const std::string& path);

  std::string path;
  RequestTable table;
  bool has_rates = false;  ///< columns t_s and rate_per_s
};

Traffic read_trace(const TraceFile& file, bool sort);
/// The rates of a category within the window, from 0 on.
RateFunction read_rates(const TraceFile& file, const TrafficOptions& options,
                        const std::string& path);

/// Another rate by intervals, as the options ask.
void take_by_intervals(const TrafficOptions& options, const std::string& path, Traffic& traffic);

/// Window, thinning, the first so many, another rate: what the options ask of a trace.
void replay(const TrafficOptions& options, const std::string& path, Traffic& traffic);

/// "trace.csv" of a path.
std::string file_name(const std::string& path);

}  // namespace tessera::serving
