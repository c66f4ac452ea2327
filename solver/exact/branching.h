#pragma once

#include "path_search.h"

namespace tessera::solver::exact {

/// What a Lagrangian bound credits for Tp and Td, by its own pipeline.
struct Paid {
  double prefill_s = 0, decode_s = 0;
};
Paid paid_times(const Pair& pair, const Box& box, const Multipliers& at, const Weights& weights,
                const Path& path);

/// Whether a box has ends to move: a time without a price is as good as known.
struct Thin {
  bool prefill = false, decode = false;
};
Thin thin_sides(const Pair& pair, const Box& box);

/// Where to branch, that is, to cut a box in two: between what the bound credits and what its
/// pipeline takes.
struct Branch {
  double prefill_gap = 0, decode_gap = 0;  ///< of the objective, that crediting less leaves open
  bool by_prefill = false;
  double at = 0;  ///< the lower half ends here
};
/// Requires a side that is not thin.
Branch choose_branch(const Pair& pair, const Box& box, const Multipliers& at,
                     const Weights& weights, const Path& path);

/// The halves of a box.
Box lower_half(const Box& box, const Branch& branch);
Box upper_half(const Box& box, const Branch& branch);

}  // namespace tessera::solver::exact
