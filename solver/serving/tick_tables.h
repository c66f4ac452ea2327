#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tessera/serving/step_cost.h"
#include "tessera/serving/ticks.h"

namespace tessera::solver {

/// Whole numbers, ascending and distinct, at least one.
using Knots = std::vector<std::int64_t>;

/// 1 and on by `ratio` up to `most`, which is among them; each at least one above the last.
Knots geometric_knots(std::int64_t most, double ratio);

/// Whole ticks at knots, straight between them and on beyond the last; below the first as there.
class TickTable {
 public:
  TickTable() = default;
  /// @param seconds [knot]
  TickTable(Knots knots, const std::vector<double>& seconds);

  serving::Ticks at(std::int64_t x) const;

 private:
  Knots knots_;
  std::vector<serving::Ticks> ticks_, slopes_;  ///< [knot]
};

/// Seconds on a grid of two counts.
struct Surface {
  Knots rows, columns;
  std::vector<double> seconds;  ///< [row][column]

  double at(std::size_t row, std::size_t column) const {
    return seconds[row * columns.size() + column];
  }
};

/// Attention of decoding requests by their number (rows) and their mean context (columns, the first
/// of them 0). For a number of requests a line in the sum of their contexts between two columns,
/// and beyond the last.
class DecodeTable {
 public:
  DecodeTable() = default;
  explicit DecodeTable(Surface surface);

  /// Zero for no requests.
  serving::DecodeLine line(std::int64_t num_requests, std::int64_t context_tokens) const;
  serving::Ticks at(std::int64_t num_requests, std::int64_t context_tokens) const {
    return line(num_requests, context_tokens).ticks;
  }

 private:
  Surface surface_;  ///< never falls along a row
};

/// Attention of one prompt's chunk by its tokens (rows) and the tokens before them (columns, the
/// first of them 0), without what a call takes to start.
class ChunkTable {
 public:
  ChunkTable() = default;
  explicit ChunkTable(Surface surface);

  serving::Ticks start() const { return start_; }
  serving::Ticks at(const serving::PromptChunk& chunk) const;

 private:
  Surface surface_;
  serving::Ticks start_ = 0;
};

}  // namespace tessera::solver
