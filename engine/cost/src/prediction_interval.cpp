#include "tessera/cost/prediction_interval.h"

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/file_cache.h"
#include "tessera/core/record_json.h"

namespace tessera::cost {
namespace {

constexpr const char* kFolder = "intervals";
constexpr const char* kName = "served";

/// Whether a run is of a class, which says less.
bool is_of(const RunClass& run, const RunClass& of) {
  return (of.kernel_set.empty() || of.kernel_set == run.kernel_set) &&
         (of.runtime.empty() || of.runtime == run.runtime) &&
         (!of.measured_chip || of.measured_chip == run.measured_chip) &&
         (of.bitwidth == 0 || of.bitwidth == run.bitwidth);
}

}  // namespace

std::vector<PredictionInterval> intervals_of(const RunClass& run, const DataFolders& folders) {
  static FileCache<ServedIntervals> known;
  const std::string path = folders.find(kFolder, kName);
  if (path.empty()) return {};
  const auto file = known.get(path, [&](const std::string& content) {
    return from_json<ServedIntervals>(parse_json(content, path), path);
  });
  std::vector<PredictionInterval> found;
  for (const PredictionInterval& interval : file->intervals) {
    if (is_of(run, interval.of) && find_interval(found, interval.metric) == nullptr) {
      found.push_back(interval);
    }
  }
  return found;
}

const PredictionInterval* find_interval(const std::vector<PredictionInterval>& intervals,
                                        ServedMetric metric) {
  const auto found =
      std::find_if(intervals.begin(), intervals.end(),
                   [&](const PredictionInterval& each) { return each.metric == metric; });
  return found == intervals.end() ? nullptr : &*found;
}

}  // namespace tessera::cost

namespace tessera {

void Fields<cost::PredictionInterval>::check(const cost::PredictionInterval& interval,
                                             const FieldPath& path) {
  if (interval.low_ratio <= interval.high_ratio) return;
  refuse(ErrorCode::out_of_range, path("low_ratio"), "{} is above high_ratio, {}",
         interval.low_ratio, interval.high_ratio);
}

}  // namespace tessera
