#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "trace_reader.h"

namespace tessera::serving {
namespace {

constexpr double kMaxRate_per_s = 1e9;

/// The pieces of a category as they stand in the file, from its first on.
RateFunction whole_function(const TraceFile& file, const std::string& category,
                            const std::string& path) {
  CsvReader csv(file.table.text, file.path, file.table.first_line);
  csv.read_header();
  const std::size_t time = csv.require_column("t_s"), rate = csv.require_column("rate_per_s"),
                    kind = csv.column("category");
  if (kind == CsvReader::none && !category.empty()) {
    refuse(path + ".category", "{} has no column of that name", quote(file.path));
  }
  RateFunction rates;
  std::vector<std::string> categories;
  while (csv.next()) {
    if (kind != CsvReader::none && csv.field(kind) != category) {
      const std::string other(csv.field(kind));
      if (categories.empty() || categories.back() != other) categories.push_back(other);
      continue;
    }
    const double at = csv.number(time, 0, kLongestRun_s);
    if (!rates.start_s.empty() && at <= rates.start_s.back()) {
      csv.refuse(fmt::format("t_s is {}, not after the {} above it", at, rates.start_s.back()));
    }
    rates.start_s.push_back(at);
    rates.rate_per_s.push_back(csv.number(rate, 0, kMaxRate_per_s));
  }
  if (rates.start_s.size() < 2) {
    std::sort(categories.begin(), categories.end());
    categories.erase(std::unique(categories.begin(), categories.end()), categories.end());
    if (kind == CsvReader::none) refuse(file.path, "fewer than two rates over time");
    refuse(path + ".category", "{} has fewer than two rates in {}{}", quote(category),
           quote(file.path), did_you_mean(category, categories));
  }
  // A piece lasts until the next; the last as long as the one before it.
  const std::size_t n = rates.start_s.size();
  rates.end_s = 2 * rates.start_s[n - 1] - rates.start_s[n - 2];
  return rates;
}

}  // namespace

RateFunction read_rates(const TraceFile& file, const TrafficOptions& options,
                        const std::string& path) {
  const RateFunction whole = whole_function(file, options.category, path);
  const double start = std::max(options.start_s.value_or(0), whole.start_s.front());
  const double end =
      options.duration_s ? std::min(start + *options.duration_s, whole.end_s) : whole.end_s;
  if (!(end > start)) {
    refuse(path + ".start_s", "{} is not before the end of the rates ({} s)", start, whole.end_s);
  }
  RateFunction rates;
  for (std::size_t i = 0; i < whole.start_s.size(); ++i) {
    const double until = i + 1 < whole.start_s.size() ? whole.start_s[i + 1] : whole.end_s;
    if (until <= start || whole.start_s[i] >= end) continue;
    rates.start_s.push_back(std::max(whole.start_s[i], start) - start);
    rates.rate_per_s.push_back(whole.rate_per_s[i]);
  }
  rates.end_s = end - start;
  if (!(rates.mean_per_s() > 0)) {
    refuse(path + ".start_s", "no request in the {:.6g} s from {:.6g} s on; choose another window",
           rates.end_s, start);
  }
  return rates;
}

}  // namespace tessera::serving
