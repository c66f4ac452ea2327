// Bitwidth transfer, LLM-PQ's Algorithm 2, as printed and extended. Both take the best of all
// pioneers and rules while the objective falls (line 11 prints ">" where it must fall), ties to the
// first; and both go through the orders and micro-batch sizes of Algorithm 1, which is Starts.
//
// As printed, and how what the print leaves open is read:
// - C = GetC(BITS), rules (b_st, b_pi, nums), with (4, 8, 2) as the one example: "one 8-bit layer
//   from the pioneer with 2 * 4-bit layers from the straggler". Read: every b_st < b_pi, and nums =
//   floor(b_pi / b_st), as many as the pioneer's layer weighs. A rule with b_st = b_pi would
//   exchange layers that are alike.
// - ExchangePairs: layers change places with the bitwidths that they have, and the boundaries
//   between the two stages move with them.
// - "Find optimal layers": of the two stages and those between, who has which of the bitwidths is
//   assigned anew, by the least sum of omega.
// - valid(c, st, pi): both have the layers, and the plan that comes of it fits.
// - sort(K): by what a second more on a stage costs the objective, both phases together; the print
//   has one time for each stage.
// - "for pi in K[:-2]": all but the two slowest, although the text says "other stages". A pipeline
//   of two stages has no pioneer then, and keeps adabits' plan.
//   (On LLM-PQ's clusters 3 to 6, 10 and 11 neither that nor a rule (b, b, 1) that lets a layer go
//   over would change the plan.)
// - adabits minimises omega, which many plans tie in: ours spreads layers evenly among those.
//
// Extended (ours): all stages but the straggler are pioneers, and the rules are all of
// MoveKind::rule: sets of several layers weighed by the bytes that they hold, KV cache and all;
// layers that simply go over; layers of the pioneer that take a lower bitwidth to make room.

#include <array>
#include <vector>

#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/moves/plan_search.h"

namespace tessera::solver {
namespace {

/// Gains below this are rounding.
constexpr double kLeastGain = 1e-12;

/// nums straggler layers for one of the pioneer's, which has the higher bitwidth; the pioneer is
/// none of the two slowest.
bool is_printed(const Move& move, const std::vector<std::size_t>& slowest) {
  return static_cast<std::size_t>(move.to_stage) != slowest[1] &&
         move.from_bitwidth < move.to_bitwidth && move.pioneer_layers == 1 &&
         move.pioneer_bitwidth == move.to_bitwidth &&
         move.num_layers == move.to_bitwidth / move.from_bitwidth;
}

class BitwidthTransfer final : public Heuristic {
 public:
  explicit BitwidthTransfer(TransferRules rules) : printed_(rules == TransferRules::printed) {}

  Card card() const override {
    if (printed_) {
      return {
          "bitwidth_transfer_paper",
          "LLM-PQ's Algorithm 2 as printed: one pioneer layer against the straggler layers that "
          "weigh as much; every order and pair of micro-batch sizes",
          "LLM-PQ Algorithms 1 and 2"};
    }
    return {"bitwidth_transfer",
            "The slowest stage sheds layers to others, by exchange or conversion of bitwidths, "
            "while that helps: LLM-PQ's Algorithm 2 with more rules",
            "after LLM-PQ Algorithm 2, SplitQuant IV-D"};
  }

  void improve(PlanSearch& search) const override {
    MoveQuery query;
    query.kinds = 1u << static_cast<int>(MoveKind::rule);
    std::array<Move, 256> block;
    while (!search.expired()) {
      const std::vector<std::size_t> slowest = search.stages_slowest_first();
      query.from_stage = slowest.front();
      search.start(query);
      Move best;
      best.objective_delta = -kLeastGain;
      bool found = false;
      while (const std::size_t n = search.next(block.data(), block.size())) {
        for (std::size_t i = 0; i < n; ++i) {
          if (!block[i].fits || block[i].objective_delta >= best.objective_delta) continue;
          if (printed_ && !is_printed(block[i], slowest)) continue;
          best = block[i];
          found = true;
        }
      }
      if (!found) return;
      search.apply(best);
    }
  }

 private:
  bool printed_;
};

}  // namespace

std::unique_ptr<Heuristic> make_bitwidth_transfer(TransferRules rules) {
  return std::make_unique<BitwidthTransfer>(rules);
}

}  // namespace tessera::solver
