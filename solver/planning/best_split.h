#pragma once

#include <cstdint>
#include <vector>

#include "splits.h"

namespace tessera::solver {

/// Of all ways of splitting devices into parts, of any number, the one whose parts are worth most
/// together: a dynamic programme over what is left of the devices.
///
/// A part of alike devices may take any number of them. Parts that mix devices take them in lumps
/// where there would be too many otherwise: of 16 x 16 x 16 x 16 devices by fours.
class BestSplit {
 public:
  /// @param all devices that there are
  /// @param may_leave_out false: every device belongs to a part
  BestSplit(const Counts& all, bool may_leave_out);

  /// Parts that a split may have, each once.
  const std::vector<Counts>& parts() const { return parts_; }
  /// Whether mixed parts are all there; false: only those in lumps.
  bool is_complete() const { return complete_; }

  /// @param worth [part] requests that each serves at most; a part worth 0 is in no split
  /// @returns indices into parts(), of fewest parts among splits worth as much; empty: none
  std::vector<std::size_t> best(const std::vector<std::int64_t>& worth) const;

 private:
  /// The best way for some of the alike devices, in parts of their own.
  struct Row {
    std::vector<std::int64_t> score;  ///< [number of devices]
    std::vector<std::size_t> taken;   ///< [number of devices] by the last part; 0: left out
  };
  Row best_of_alike(std::size_t k, const std::vector<std::int64_t>& worth) const;
  void add_parts();

  Counts all_, lump_, lumps_;
  bool may_leave_out_, complete_ = true;
  std::vector<Counts> parts_;
  std::vector<std::vector<std::size_t>> of_alike_;  ///< [alike][number - 1] index of the part
  struct Mixed {
    std::size_t part = 0;
    std::size_t step = 0;  ///< between states with it and without it
    Counts lumps;
  };
  std::vector<Mixed> mixed_;
};

}  // namespace tessera::solver
