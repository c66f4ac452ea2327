#include "tessera/cost/read_samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "rows.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/text.h"

namespace tessera::cost {
namespace {

constexpr std::uint64_t kLargestFile = 1ull << 30;

struct Format {
  std::string_view name;
  const char* marks;  ///< what its header has
  void (*read)(readers::Rows&);
  bool (*is)(const CsvReader& first_row);
};

bool has(const CsvReader& csv, std::initializer_list<std::string_view> names) {
  return std::all_of(names.begin(), names.end(),
                     [&](std::string_view name) { return csv.column(name) != CsvReader::none; });
}

bool is_vidur(const CsvReader& csv) {
  return std::any_of(csv.header().begin(), csv.header().end(),
                     [](const std::string& name) { return name.rfind("time_stats.", 0) == 0; });
}

bool is_llmpq(const CsvReader& csv) {
  return has(csv, {"gpu", "latency_ms"}) || has(csv, {"shard", "lat_avg"});
}

bool is_helix(const CsvReader& csv) {
  return csv.header().size() == 2 && to_number(csv.header()[0]) && to_number(csv.header()[1]);
}

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {"tessera", "latency_s", readers::read_tessera,
       [](const CsvReader& csv) { return has(csv, {"latency_s"}); }},
      {"aiconfigurator", "latency, and framework and op_name or the sizes of its tables",
       readers::read_aiconfigurator, readers::is_aiconfigurator},
      {"vidur", "time_stats.*.median", readers::read_vidur, is_vidur},
      {"helix", "two numbers and no header", readers::read_helix, is_helix},
      {"llmpq", "gpu and latency_ms, or shard and lat_avg", readers::read_llmpq, is_llmpq}};
  return all;
}

const Format& format_of(std::string_view text, const std::string& path,
                        const ReadOptions& options) {
  if (!options.format.empty()) {
    for (const Format& format : formats()) {
      if (format.name == options.format) return format;
    }
    const auto known = sample_formats();
    throw Error(ErrorCode::invalid_argument,
                "unknown format " + quote(options.format) +
                    did_you_mean(options.format, {known.begin(), known.end()}),
                "format");
  }
  CsvReader csv(text, path);
  // Numbers in two columns may be equal, as in Helix's first row; names may not.
  if (!csv.next()) refuse(path, "empty");
  if (csv.fields().size() == 2 && to_number(csv.field(0)) && to_number(csv.field(1))) {
    return formats()[3];
  }
  CsvReader named(text, path);
  named.read_header();
  std::string wanted;
  for (const Format& format : formats()) {
    if (format.is(named)) return format;
    wanted += fmt::format("{}{} ({})", wanted.empty() ? "" : "; ", format.name, format.marks);
  }
  refuse(path, "its header is of no known format: {}; the formats are {}",
         quote(join(named.header(), ", "), 200), wanted);
}

}  // namespace

std::string SampleFile::warning(const std::string& path) const {
  std::string text;
  for (const SkippedRows& rows : skipped) {
    text += fmt::format("{}{} {} with {} ({}line {})", text.empty() ? "" : ", ", rows.count,
                        rows.count == 1 ? "row" : "rows", rows.reason,
                        rows.count == 1 ? "" : "the first on ", rows.first_line);
  }
  return text.empty() ? text : fmt::format("{}: left out {}", path, text);
}

std::int64_t SampleFile::num_skipped() const {
  std::int64_t count = 0;
  for (const SkippedRows& rows : skipped) count += rows.count;
  return count;
}

std::vector<std::string_view> sample_formats() {
  std::vector<std::string_view> names;
  for (const Format& format : formats()) names.push_back(format.name);
  return names;
}

SampleFile parse_samples(std::string_view text, const std::string& path,
                         const ReadOptions& options) {
  const Format& format = format_of(text, path, options);
  CsvReader csv(text, path);
  if (format.read != readers::read_helix) csv.read_header();
  readers::Rows rows(csv, options);
  format.read(rows);
  SampleFile file = rows.finish(std::string(format.name));
  if (!file.samples.empty()) return file;
  const std::string warning = file.warning(path);
  throw Error(ErrorCode::invalid_argument,
              warning.empty() ? path + ": no rows" : warning + ", and no row is left", path);
}

SampleFile read_samples(const std::string& path, const ReadOptions& options) {
  return parse_samples(read_file(path, kLargestFile), path, options);
}

}  // namespace tessera::cost
