#include "rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>
#include <tuple>

#include "tessera/core/error.h"
#include "tessera/core/statistics.h"
#include "tessera/core/text.h"

namespace tessera::cost::readers {
namespace {

constexpr double kLargestSize = 1e15;
constexpr double kShortestLatency_s = 1e-12, kLongestLatency_s = 86400;
// Repeats of one measurement in the tables that we know differ by up to 27 %.
constexpr double kContradiction = 2;

auto key_of(const Sample& s) {
  const OpQuery& q = s.query;
  return std::tie(q.op, q.phase, q.bitwidth, q.m, q.n, q.k, q.batch_size, q.tokens,
                  q.context_tokens, q.num_heads, q.num_kv_heads, q.head_dim, q.window, q.bytes,
                  q.num_devices, q.dtype, q.kv_dtype, q.model, q.name, s.device, s.kernel_set,
                  s.source);
}

template <class T>
std::size_t hash_of(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<std::size_t>(value);
  } else {
    return std::hash<T>{}(value);
  }
}

std::size_t hash_key(const Sample& sample) {
  std::size_t hash = 0;
  std::apply(
      [&](const auto&... field) {
        ((hash ^= hash_of(field) + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2)), ...);
      },
      key_of(sample));
  return hash;
}

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
  std::string device = device_of_driver_name(driver_name);
  if (!device.empty()) return device;
  csv.refuse(fmt::format("the device {} is none that is known by this name; give device = \"...\"",
                         quote(driver_name)));
}

// By hash first: comparing the keys of a million rows would take as long as reading them.
SampleFile Rows::finish(std::string format) {
  std::vector<std::size_t> hashes;
  for (const Sample& sample : samples_) hashes.push_back(hash_key(sample));
  std::vector<std::size_t> order(samples_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return hashes[a] != hashes[b] ? hashes[a] < hashes[b] : a < b;
  });
  std::vector<bool> repeat(samples_.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t first = order[i];
    if (repeat[first]) continue;
    std::vector<double> values = {samples_[first].latency_s};
    for (std::size_t j = i + 1; j < order.size() && hashes[order[j]] == hashes[first]; ++j) {
      const std::size_t other = order[j];
      if (key_of(samples_[other]) != key_of(samples_[first])) continue;
      const auto [low, high] = std::minmax(samples_[first].latency_s, samples_[other].latency_s);
      if (high > kContradiction * low) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}, line {}: {} s for {}, line {} says {} s; repeats may differ "
                                "by a factor of {}, so one of them is wrong",
                                csv.path(), lines_[other], samples_[other].latency_s,
                                describe(samples_[first].query), lines_[first],
                                samples_[first].latency_s, kContradiction),
                    csv.path());
      }
      values.push_back(samples_[other].latency_s);
      repeat[other] = true;
    }
    // `values` begins with what the file says, so the median may replace it.
    if (values.size() > 1) samples_[first].latency_s = median(std::move(values));
  }
  SampleFile file{std::move(format), {}, std::move(skipped_), 0};
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (repeat[i]) {
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
