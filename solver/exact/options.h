#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config_table.h"
#include "fluid_bound.h"
#include "multipliers.h"

namespace tessera::solver::exact {

/// A configuration that a kind of device may still run at some place of the pipeline: one arc of
/// the shortest path problem for each first layer.
struct Option {
  std::uint32_t config = 0;
  std::uint16_t low = 0, high = 0;  ///< indices [low, high) into the shape's starts
  double prefill_s = 0, decode_s = 0;
};

/// Options of every place and kind, by configuration; and the nodes (state, layers done) through
/// which plans worth finding may pass.
struct OptionSet {
  ByPlace<std::vector<std::vector<Option>>> at;     ///< [place][kind]
  std::vector<std::uint16_t> first_node, end_node;  ///< [state] layers done in [first, end)

  std::size_t size() const;
};

/// Everything that fits the devices within the box and is neither dominated nor fixed out: by the
/// reduced cost under the fluid's prices it may be part of a plan that costs at most the cutoff
/// (see StageFilter). Nodes are left open.
OptionSet all_options(const SearchSpace& space, const Pair& pair, const ConfigTable& table,
                      const Box& box, const FluidBound& fluid, double cutoff);

/// Copies the options that fit within a smaller box.
OptionSet narrowed(const OptionSet& options, const Box& box);

/// Bound tightening: moves the box's ends to values that some stage or some link can attain.
/// @return false when nothing is left inside.
bool tighten_bounds(const SearchSpace& space, const Pair& pair, const OptionSet& options, Box& box);

}  // namespace tessera::solver::exact
