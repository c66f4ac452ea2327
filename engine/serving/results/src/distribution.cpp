#include "tessera/serving/distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "intervals.h"
#include "tessera/core/error.h"
#include "tessera/core/statistics.h"

namespace tessera::serving {

Distribution distribution_of(std::vector<double> values) {
  Distribution d;
  d.n = static_cast<std::int64_t>(values.size());
  if (values.empty()) return d;
  const BatchMean batches = mean_of(batches_of(values));
  double squares = 0;
  for (const double value : values) squares += (value - batches.mean) * (value - batches.mean);
  set_mean(d, batches, squares / static_cast<double>(d.n), static_cast<double>(d.n));
  std::sort(values.begin(), values.end());
  d.min = values.front();
  d.max = values.back();
  for (const Percentile& percentile : kPercentiles) {
    d.*percentile.value = quantile(values, percentile.q);
    const RankInterval ranks = data_ranks(d.n, d.effective_n, percentile.q);
    if (ranks.low) d.*percentile.low = values[static_cast<std::size_t>(*ranks.low)];
    if (ranks.high) d.*percentile.high = values[static_cast<std::size_t>(*ranks.high)];
  }
  return d;
}

namespace {

constexpr int kDigitBits = 12;

/// The same gaps with a slope of at least 0.
GapRun ascending(GapRun run) {
  if (run.slope < 0) {
    run.ticks += run.slope * (run.count - 1);
    run.slope = -run.slope;
  }
  return run;
}

/// Gaps that share their leading digits, and how many have each next one.
struct Bucket {
  std::uint64_t prefix = 0;
  std::vector<std::int64_t> counts = std::vector<std::int64_t>(1u << kDigitBits);
};

/// The gap without its last `bits` bits, which may be all.
std::uint64_t leading(std::uint64_t gap, int bits) { return bits < 64 ? gap >> bits : 0; }

/// Adds what of a run lies in the bucket: a bin at a time, not a gap at a time.
void count_run(const GapRun& run, int shift, Bucket& bucket) {
  const int bits = shift + kDigitBits;
  const std::uint64_t low = bits < 64 ? bucket.prefix << bits : 0;
  const std::uint64_t high = bits < 64 ? (bucket.prefix + 1) << bits : ~std::uint64_t{0};
  const auto start = static_cast<std::uint64_t>(run.ticks);
  const auto slope = static_cast<std::uint64_t>(run.slope);
  std::uint64_t j = 0, end = static_cast<std::uint64_t>(run.count);
  if (slope > 0) {
    if (start < low) j = (low - start + slope - 1) / slope;
    end = std::min(end, (high - 1 - start) / slope + 1);
  }
  while (j < end) {
    const std::uint64_t gap = start + j * slope, bin = gap >> shift;
    std::uint64_t same = end - j;
    if (slope > 0) same = std::min(same, (((bin + 1) << shift) - gap - 1) / slope + 1);
    bucket.counts[bin & ((1u << kDigitBits) - 1)] += static_cast<std::int64_t>(same) * run.weight;
    j += same;
  }
}

/// Counts one digit of the gaps in all buckets, whose prefixes ascend.
void count_digit(const std::vector<GapRun>& gaps, int shift, std::vector<Bucket>& buckets) {
  for (const GapRun& given : gaps) {
    if (given.count < 1 || given.weight < 1) continue;
    const GapRun run = ascending(given);
    const auto lowest = static_cast<std::uint64_t>(run.ticks);
    const auto highest = static_cast<std::uint64_t>(run.ticks + run.slope * (run.count - 1));
    const std::uint64_t first = leading(lowest, shift + kDigitBits);
    const std::uint64_t last = leading(highest, shift + kDigitBits);
    auto bucket =
        std::lower_bound(buckets.begin(), buckets.end(), first,
                         [](const Bucket& b, std::uint64_t prefix) { return b.prefix < prefix; });
    for (; bucket != buckets.end() && bucket->prefix <= last; ++bucket) {
      count_run(run, shift, *bucket);
    }
  }
}

Ticks largest(const std::vector<GapRun>& gaps) {
  Ticks most = 0;
  for (const GapRun& run : gaps) {
    if (run.count < 1 || run.weight < 1) continue;
    most = std::max({most, run.ticks, run.ticks + run.slope * (run.count - 1)});
  }
  return most;
}

}  // namespace

std::vector<Ticks> ranked_gaps(const std::vector<GapRun>& gaps,
                               const std::vector<std::int64_t>& ranks) {
  // Radix selection of all ranks at once: a pass over the runs per 12 bits.
  struct Wanted {
    std::uint64_t prefix = 0;
    std::int64_t rank = 0;
  };
  std::vector<Wanted> wanted;
  for (const std::int64_t rank : ranks) wanted.push_back({0, rank});
  const int bits = std::bit_width(static_cast<std::uint64_t>(largest(gaps)));
  for (int digit = (bits + kDigitBits - 1) / kDigitBits - 1; digit >= 0; --digit) {
    std::map<std::uint64_t, std::size_t> index;
    for (const Wanted& w : wanted) index.emplace(w.prefix, 0);
    std::vector<Bucket> buckets(index.size());
    std::size_t next = 0;
    for (auto& [prefix, place] : index) {
      place = next++;
      buckets[place].prefix = prefix;
    }
    count_digit(gaps, digit * kDigitBits, buckets);
    for (Wanted& w : wanted) {
      const auto& counts = buckets[index.at(w.prefix)].counts;
      std::uint64_t bin = 0;
      while (bin + 1 < counts.size() && w.rank >= counts[bin]) w.rank -= counts[bin++];
      w.prefix = (w.prefix << kDigitBits) | bin;
    }
  }
  std::vector<Ticks> result;
  for (const Wanted& w : wanted) result.push_back(static_cast<Ticks>(w.prefix));
  return result;
}

namespace {

struct GapSums {
  std::int64_t n = 0;
  double weight_squares = 0;  ///< over steps
  WideTicks sum = 0;
};

/// Time of a run, summed over its gaps. In whole ticks, so that it does not matter how steps were
/// gathered in runs.
WideTicks run_sum(const GapRun& run) {
  const WideTicks count = run.count;
  return run.weight * (count * run.ticks + run.slope * (count * (count - 1) / 2));
}

double wide_seconds(WideTicks ticks) { return static_cast<double>(ticks) * 1e-12; }

GapSums sums_of(const std::vector<GapRun>& gaps) {
  GapSums sums;
  for (const GapRun& run : gaps) {
    if (run.count < 1 || run.weight < 1) continue;
    if (ascending(run).ticks < 0) {
      throw Error(ErrorCode::internal, "a gap between tokens is below zero");
    }
    const auto count = static_cast<double>(run.count), weight = static_cast<double>(run.weight);
    if (static_cast<double>(sums.n) + count * weight > 4e18) {
      throw Error(ErrorCode::internal, "there are more than 2^62 gaps between tokens");
    }
    sums.n += run.count * run.weight;
    sums.weight_squares += count * weight * weight;
    sums.sum += run_sum(run);
  }
  return sums;
}

/// Sum over the gaps of their squared distance from the mean.
double squares_of(const std::vector<GapRun>& gaps, double mean_s) {
  double squares = 0;
  for (const GapRun& run : gaps) {
    if (run.count < 1 || run.weight < 1) continue;
    const auto n = static_cast<double>(run.count);
    const double a = to_seconds(run.ticks) - mean_s, s = to_seconds(run.slope);
    squares += static_cast<double>(run.weight) *
               (n * a * a + a * s * n * (n - 1) + s * s * (n - 1) * n * (2 * n - 1) / 6);
  }
  return squares;
}

/// Batches of about equally many gaps, in the log's order, cut between steps.
std::vector<SampleBatch> batches_of(const std::vector<GapRun>& gaps, std::int64_t n) {
  std::vector<SampleBatch> batches(kBatches);
  std::vector<WideTicks> sums(kBatches, 0);
  const double per_batch = static_cast<double>(n) / kBatches;
  double before = 0;
  for (const GapRun& run : gaps) {
    if (run.count < 1 || run.weight < 1) continue;
    const auto weight = static_cast<double>(run.weight);
    const auto batch_of = [&](std::int64_t step) {
      const double place = (before + weight * (static_cast<double>(step) + 0.5)) / per_batch;
      return std::min(static_cast<std::size_t>(place), kBatches - 1);
    };
    for (std::int64_t first = 0; first < run.count;) {
      const std::size_t batch = batch_of(first);
      // Steps up to where the next batch begins, which rounding may miss by one.
      const double room = static_cast<double>(batch + 1) * per_batch - before;
      auto end = static_cast<std::int64_t>(std::min(room / weight, static_cast<double>(run.count)));
      end = std::clamp(batch + 1 == kBatches ? run.count : end, first + 1, run.count);
      while (end < run.count && batch_of(end) == batch) ++end;
      while (end > first + 1 && batch_of(end - 1) != batch) --end;
      batches[batch].weight += weight * static_cast<double>(end - first);
      sums[batch] += run_sum({run.ticks + run.slope * first, run.slope, end - first, run.weight});
      first = end;
    }
    before += weight * static_cast<double>(run.count);
  }
  for (std::size_t i = 0; i < kBatches; ++i) batches[i].sum = wide_seconds(sums[i]);
  return batches;
}

}  // namespace

Distribution distribution_of(const std::vector<GapRun>& gaps) {
  Distribution d;
  const GapSums sums = sums_of(gaps);
  d.n = sums.n;
  if (d.n == 0) return d;
  const auto n = static_cast<double>(d.n);
  const double mean = wide_seconds(sums.sum) / n;
  BatchMean batches = mean_of(batches_of(gaps, d.n));
  batches.mean = mean;
  set_mean(d, batches, std::max(0.0, squares_of(gaps, mean)) / n, n * n / sums.weight_squares);

  std::vector<std::int64_t> ranks = {0, d.n - 1};
  for (const Percentile& percentile : kPercentiles) {
    const auto low = static_cast<std::int64_t>(percentile.q * (n - 1));
    const RankInterval interval = data_ranks(d.n, d.effective_n, percentile.q);
    for (const std::int64_t rank :
         {low, std::min(low + 1, d.n - 1), interval.low.value_or(0), interval.high.value_or(0)}) {
      ranks.push_back(rank);
    }
  }
  const std::vector<Ticks> at = ranked_gaps(gaps, ranks);
  d.min = to_seconds(at[0]);
  d.max = to_seconds(at[1]);
  std::size_t next = 2;
  for (const Percentile& percentile : kPercentiles) {
    const double place = percentile.q * (n - 1);
    const double share = place - std::floor(place);
    d.*percentile.value = to_seconds(at[next]) + share * to_seconds(at[next + 1] - at[next]);
    const RankInterval interval = data_ranks(d.n, d.effective_n, percentile.q);
    if (interval.low) d.*percentile.low = to_seconds(at[next + 2]);
    if (interval.high) d.*percentile.high = to_seconds(at[next + 3]);
    next += 4;
  }
  return d;
}

}  // namespace tessera::serving
