#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/csv.h"
#include "tessera/cost/read_samples.h"

namespace tessera::cost::readers {

/// What every format reads its rows from and hands its samples to.
class Rows {
 public:
  Rows(CsvReader& reader, const ReadOptions& read_options) : csv(reader), options(read_options) {}

  CsvReader& csv;
  const ReadOptions& options;

  /// Leaves out the current row.
  void skip(const std::string& reason);
  /// The field as a size, 0 or at least 1. A row with a size of zero has nothing to measure: it is
  /// counted as skipped the first time one is met, and `empty_row` holds until the next row.
  double size(std::size_t column);
  /// The field in seconds. @throws Error unless it is positive.
  double latency_s(std::size_t column, double unit_s);
  /// Keeps the sample unless the row is empty.
  void add(const OpQuery& query, double latency_s, const std::string& device,
           const std::string& kernel_set, const std::string& source);
  bool next();
  bool empty_row() const { return empty_row_; }

  /// The option, or nvidia-smi's name in ours. @throws Error for a name that we do not know.
  std::string device(std::string_view driver_name) const;
  /// The option where it is given.
  const std::string& kernel_set(const std::string& of_format) const {
    return options.kernel_set.empty() ? of_format : options.kernel_set;
  }

  /// Repeats become one sample. @throws Error where they contradict each other.
  SampleFile finish(std::string format);

 private:
  std::vector<Sample> samples_;
  std::vector<std::size_t> lines_;  ///< [sample]
  std::vector<SkippedRows> skipped_;
  bool empty_row_ = false;
};

/// A device by the short name that folders and files have ("a100", "t4x2"), `known` first.
struct ShortName {
  const char* word;
  const char* device;
};
/// The longest of `known` that a component of the path begins with, and how many devices ("x2").
struct NamedDevice {
  std::string device;
  int count = 1;
};
std::optional<NamedDevice> device_in_path(const std::string& path,
                                          const std::vector<ShortName>& known);

void read_tessera(Rows& rows);
void read_aiconfigurator(Rows& rows);
/// Its tables, also those without the columns that have one value only.
bool is_aiconfigurator(const CsvReader& csv);
void read_vidur(Rows& rows);
void read_helix(Rows& rows);
void read_llmpq(Rows& rows);

}  // namespace tessera::cost::readers
