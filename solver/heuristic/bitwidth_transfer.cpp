#include <array>

#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/moves/plan_search.h"

namespace tessera::solver {
namespace {

/// Gains below this are rounding.
constexpr double kLeastGain = 1e-12;

// Algorithm 2 of LLM-PQ, with "<" where it prints ">": the objective must fall. Of all pioneers and
// rules the best is taken, and ties go to the first.
class BitwidthTransfer final : public Heuristic {
 public:
  HeuristicCard card() const override {
    return {
        "bitwidth_transfer",
        "The slowest stage sheds layers to others, by exchange or conversion of bitwidths, while "
        "that helps",
        "LLM-PQ Algorithm 2, SplitQuant IV-D"};
  }

  void improve(PlanSearch& search) const override {
    MoveQuery query;
    query.kinds = 1u << static_cast<int>(MoveKind::rule);
    std::array<Move, 256> block;
    while (!search.expired()) {
      query.from_stage = search.slowest_stage();
      search.start(query);
      Move best;
      best.objective_delta = -kLeastGain;
      bool found = false;
      while (const std::size_t n = search.next(block.data(), block.size())) {
        for (std::size_t i = 0; i < n; ++i) {
          if (!block[i].fits || block[i].objective_delta >= best.objective_delta) continue;
          best = block[i];
          found = true;
        }
      }
      if (!found) return;
      search.apply(best);
    }
  }
};

}  // namespace

std::unique_ptr<Heuristic> make_bitwidth_transfer() { return std::make_unique<BitwidthTransfer>(); }

}  // namespace tessera::solver
