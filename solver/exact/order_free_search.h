#pragma once

#include <functional>
#include <vector>

#include "cut_model.h"
#include "fluid_bound.h"
#include "options.h"
#include "tessera/core/thread_pool.h"

namespace tessera::solver::exact {

/// Boxes of one round of a search. Fixed, for it decides what is looked at.
inline constexpr std::size_t kRound = 8;

/// Where not every order can be searched: a lower bound on the plans of all orders, by branch and
/// bound over boxes of (Tp, Td) on the relaxation of relax_orders, lowest bound first (best first).
/// Boxes are solved in rounds of fixed size, so the bound does not depend on the number of threads.
class OrderFreeSearch {
 public:
  /// @param table complete for plans below the cutoff; it and the rest must outlive the search
  OrderFreeSearch(const SearchSpace& space, const ConfigTable& table,
                  const std::vector<FluidBound>& fluid, double cutoff, ThreadPool& workers);

  /// Adds the plans of a pair that cost less than the cutoff: they lie in this box.
  void add_pair(std::size_t pair, const Box& box);
  /// Works until `max_boxes` boxes were solved since the beginning, or nothing is left below the
  /// cutoff, which may have fallen.
  void run(std::size_t max_boxes, double cutoff, const std::function<bool()>& should_stop);
  /// No plan below the cutoff costs less; infinite when there is none.
  double bound() const;

 private:
  struct Node {
    std::size_t root = 0;  ///< index into options_
    std::size_t pair = 0;
    Box box;
    PricePoint prices;
    double bound = -kInfinity;
    std::size_t number = 0;  ///< of creation; breaks ties
  };
  struct Outcome {
    std::vector<Node> children;
    double closed_at = kInfinity;  ///< bound of a box that is not worth splitting
  };
  static bool later(const Node& a, const Node& b);
  void push(Node node);
  Node pop();
  Outcome solve(Node node, double cutoff, const std::function<bool()>& should_stop);

  const SearchSpace& space_;
  const ConfigTable& table_;
  const std::vector<FluidBound>& fluid_;  ///< [pair]
  double cutoff_;
  ThreadPool& workers_;
  std::vector<OptionSet> options_;  ///< [root]
  std::vector<Node> open_;          ///< heap
  std::size_t num_nodes_ = 0, num_solved_ = 0;
  double in_hand_ = kInfinity;  ///< least bound of the boxes being solved
  double closed_ = kInfinity;   ///< least bound of the boxes that are not worth splitting
};

}  // namespace tessera::solver::exact
