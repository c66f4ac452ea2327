#include "tick_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tessera::solver {
namespace {

using serving::Ticks;

Ticks nearest(double seconds) {
  const double ticks = seconds * static_cast<double>(serving::kTicksPerSecond);
  return std::llround(std::clamp(ticks, 0.0, 1e18));
}

/// The segment that a number is in, the first one below it and the last one beyond it.
std::size_t segment_of(const Knots& knots, std::int64_t x) {
  if (knots.size() < 2) return 0;
  const auto above = std::upper_bound(knots.begin() + 1, knots.end() - 1, x);
  return static_cast<std::size_t>(above - knots.begin()) - 1;
}

/// Where it is in its segment: 0 at the lower knot, 1 at the upper, more beyond the last.
double place_in(const Knots& knots, std::size_t segment, std::int64_t x) {
  if (knots.size() < 2) return 0;
  const std::int64_t low = knots[segment], high = knots[segment + 1];
  return std::max(0.0, static_cast<double>(x - low) / static_cast<double>(high - low));
}

}  // namespace

Knots geometric_knots(std::int64_t most, double ratio) {
  Knots knots = {1};
  while (knots.back() < most) {
    const auto next = std::llround(static_cast<double>(knots.back()) * ratio);
    knots.push_back(std::clamp<std::int64_t>(next, knots.back() + 1, most));
  }
  return knots;
}

TickTable::TickTable(Knots knots, const std::vector<double>& seconds) : knots_(std::move(knots)) {
  for (const double s : seconds) ticks_.push_back(nearest(s));
  for (std::size_t i = 0; i + 1 < knots_.size(); ++i) {
    slopes_.push_back((ticks_[i + 1] - ticks_[i]) / (knots_[i + 1] - knots_[i]));
  }
  slopes_.resize(std::max<std::size_t>(1, slopes_.size()), 0);
}

Ticks TickTable::at(std::int64_t x) const {
  if (ticks_.empty()) return 0;
  const std::size_t i = segment_of(knots_, x);
  // Beyond the last knot a falling segment would end below zero.
  return std::max<Ticks>(0, ticks_[i] + slopes_[i] * std::max<std::int64_t>(0, x - knots_[i]));
}

DecodeTable::DecodeTable(Surface surface) : surface_(std::move(surface)) {
  const std::size_t width = surface_.columns.size();
  for (std::size_t i = 1; i < surface_.seconds.size(); ++i) {
    double& seconds = surface_.seconds[i];
    if (i % width != 0) seconds = std::max(seconds, surface_.seconds[i - 1]);
  }
}

serving::DecodeLine DecodeTable::line(std::int64_t num_requests,
                                      std::int64_t context_tokens) const {
  constexpr std::int64_t kNoEnd = std::numeric_limits<std::int64_t>::max();
  if (num_requests <= 0 || surface_.seconds.empty()) return {0, 0, kNoEnd};
  const std::size_t row = segment_of(surface_.rows, num_requests);
  const double upper = place_in(surface_.rows, row, num_requests);
  const std::size_t above = std::min(row + 1, surface_.rows.size() - 1);
  const auto ticks = [&](std::size_t column) {
    return nearest((1 - upper) * surface_.at(row, column) + upper * surface_.at(above, column));
  };
  const Knots& columns = surface_.columns;
  const std::size_t j = segment_of(columns, context_tokens / num_requests);
  if (columns.size() < 2) return {ticks(j), 0, kNoEnd};
  const std::int64_t low = num_requests * columns[j], high = num_requests * columns[j + 1];
  // Rounded down, so that the line ends at or below where the next one starts.
  const Ticks first = ticks(j), slope = std::max<Ticks>(0, ticks(j + 1) - first) / (high - low);
  const bool is_last = j + 2 == columns.size();
  return {first + slope * (context_tokens - low), slope, is_last ? kNoEnd : high - 1};
}

ChunkTable::ChunkTable(Surface surface) : surface_(std::move(surface)) {
  if (surface_.seconds.empty()) return;
  const double start_s = surface_.seconds.front();
  start_ = nearest(start_s);
  for (double& seconds : surface_.seconds) seconds = std::max(0.0, seconds - start_s);
}

Ticks ChunkTable::at(const serving::PromptChunk& chunk) const {
  if (surface_.seconds.empty()) return 0;
  const std::size_t i = segment_of(surface_.rows, chunk.tokens);
  const std::size_t j = segment_of(surface_.columns, chunk.context_tokens);
  const double upper = place_in(surface_.rows, i, chunk.tokens);
  const double right = place_in(surface_.columns, j, chunk.context_tokens);
  const std::size_t above = std::min(i + 1, surface_.rows.size() - 1);
  const std::size_t after = std::min(j + 1, surface_.columns.size() - 1);
  const auto along = [&](std::size_t row) {
    return (1 - right) * surface_.at(row, j) + right * surface_.at(row, after);
  };
  return nearest((1 - upper) * along(i) + upper * along(above));
}

}  // namespace tessera::solver
