#include "rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "tessera/core/error.h"
#include "tessera/core/statistics.h"
#include "tessera/core/text.h"

namespace tessera::cost::readers {
namespace {

constexpr double kLargestSize = 1e15;
constexpr double kShortestLatency_s = 1e-12, kLongestLatency_s = 86400;

}  // namespace

bool Rows::next() {
  empty_row_ = false;
  return csv.next();
}

void Rows::skip(const std::string& reason) {
  empty_row_ = true;
  for (SkippedRows& known : skipped_) {
    if (known.reason != reason) continue;
    ++known.count;
    return;
  }
  skipped_.push_back({reason, 1, csv.line()});
}

double Rows::size(std::size_t column) {
  const double value = csv.number(column, 0, kLargestSize);
  if (value > 0 && value < 1) {
    csv.refuse(
        fmt::format("{} is {}, a count of at least 1 is needed", csv.name_of(column), value));
  }
  if (value == 0 && !empty_row_) skip("a size of zero");
  return value;
}

double Rows::latency_s(std::size_t column, double unit_s) {
  if (empty_row_) return 0;
  const std::optional<double> value = to_number(csv.field(column));
  if (value && *value * unit_s >= kShortestLatency_s && *value * unit_s <= kLongestLatency_s) {
    return *value * unit_s;
  }
  csv.refuse(fmt::format("{} is {}, a time above zero and of at most a day is needed",
                         csv.name_of(column), quote(csv.field(column))));
}

void Rows::add(const OpQuery& query, double latency_s, const std::string& device,
               const std::string& kernel_set, const std::string& source) {
  if (empty_row_) return;
  samples_.push_back({query, latency_s, device, kernel_set, source});
  lines_.push_back(csv.line());
}

std::string Rows::device(std::string_view driver_name) const {
  if (!options.device.empty()) return options.device;
  const std::vector<DriverName> known = called(options.driver_names, driver_name);
  if (!known.empty()) return known.front().device;
  csv.refuse(fmt::format("the device {} is none that is known by this name; give device = \"...\"",
                         quote(driver_name)));
}

SampleFile Rows::finish(std::string format) {
  const std::vector<std::size_t> first_of = first_of_repeats(
      samples_, [&](std::size_t i) { return fmt::format("{}, line {}", csv.path(), lines_[i]); });
  std::map<std::size_t, std::vector<double>> repeated;  // [first] all latencies
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (first_of[i] == i) continue;
    std::vector<double>& values = repeated[first_of[i]];
    if (values.empty()) values.push_back(samples_[first_of[i]].latency_s);
    values.push_back(samples_[i].latency_s);
  }
  for (auto& [first, values] : repeated) samples_[first].latency_s = median(std::move(values));
  SampleFile file{std::move(format), {}, std::move(skipped_), 0};
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (first_of[i] != i) {
      ++file.num_repeats;
    } else {
      file.samples.push_back(std::move(samples_[i]));
    }
  }
  return file;
}

std::optional<NamedDevice> device_in_path(const std::string& path,
                                          const std::vector<ShortName>& known) {
  const std::string text = lower(path);
  for (std::size_t end = text.size(); end > 0;) {  // the last component says most
    const std::size_t slash = text.rfind('/', end - 1);
    const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    for (const ShortName& name : known) {
      const std::string_view word(name.word);
      if (part.substr(0, word.size()) != word) continue;
      const std::string_view rest = part.substr(word.size());
      if (rest.empty() || rest[0] == '_' || rest[0] == '-') return NamedDevice{name.device, 1};
      if (rest.size() == 2 && rest[0] == 'x' && rest[1] >= '2' && rest[1] <= '8') {
        return NamedDevice{name.device, rest[1] - '0'};
      }
    }
    end = slash == std::string::npos ? 0 : slash;
  }
  return std::nullopt;
}

}  // namespace tessera::cost::readers
