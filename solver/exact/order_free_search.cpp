#include "order_free_search.h"

#include <algorithm>
#include <cmath>

#include "branching.h"
#include "relaxed_orders.h"

namespace tessera::solver::exact {
namespace {

constexpr std::size_t kRootRounds = 300, kRounds = 80;
/// With one of Tp and Td known, a gap in the other that is not worth splitting: a share of what the
/// bound lacks to the cutoff.
constexpr double kLittleGap = 0.01;

}  // namespace

OrderFreeSearch::OrderFreeSearch(const SearchSpace& space, const ConfigTable& table,
                                 const std::vector<FluidBound>& fluid, double cutoff,
                                 ThreadPool& workers)
    : space_(space), table_(table), fluid_(fluid), cutoff_(cutoff), workers_(workers) {}

void OrderFreeSearch::add_pair(std::size_t pair, const Box& box) {
  Node root;
  root.root = options_.size();
  root.pair = pair;
  root.box = box;
  root.prices = fluid_prices(space_, space_.pairs()[pair], fluid_[pair]);
  root.bound = fluid_[pair].bound() - 1e-12 * std::fabs(fluid_[pair].bound());
  options_.push_back(all_options(space_, space_.pairs()[pair], table_, box, fluid_[pair], cutoff_));
  push(std::move(root));
}

// Lowest bound first; the older of equals.
bool OrderFreeSearch::later(const Node& a, const Node& b) {
  if (a.bound != b.bound) return a.bound > b.bound;
  return a.number > b.number;
}

void OrderFreeSearch::push(Node node) {
  node.number = num_nodes_++;
  open_.push_back(std::move(node));
  std::push_heap(open_.begin(), open_.end(), later);
}

OrderFreeSearch::Node OrderFreeSearch::pop() {
  std::pop_heap(open_.begin(), open_.end(), later);
  Node node = std::move(open_.back());
  open_.pop_back();
  return node;
}

void OrderFreeSearch::run(std::size_t max_boxes, double cutoff,
                          const std::function<bool()>& should_stop) {
  while (!open_.empty() && open_.front().bound < cutoff && num_solved_ < max_boxes &&
         !should_stop()) {
    std::vector<Node> round;
    while (!open_.empty() && round.size() < kRound) round.push_back(pop());
    in_hand_ = round.front().bound;
    std::vector<Outcome> outcomes(round.size());
    workers_.run(round.size(), [&](std::size_t, std::size_t i) {
      outcomes[i] = solve(round[i], cutoff, should_stop);
    });
    for (Outcome& outcome : outcomes) {
      for (Node& child : outcome.children) push(std::move(child));
      closed_ = std::min(closed_, outcome.closed_at);
    }
    num_solved_ += round.size();
    in_hand_ = kInfinity;
  }
}

OrderFreeSearch::Outcome OrderFreeSearch::solve(Node node, double cutoff,
                                                const std::function<bool()>& should_stop) {
  Outcome outcome;
  const Pair& pair = space_.pairs()[node.pair];
  const OptionSet options = narrowed(options_[node.root], node.box);
  if (!tighten_bounds(space_, pair, options, node.box)) return outcome;
  const bool is_root = node.number < options_.size();
  const RelaxEffort effort{is_root ? kRootRounds : kRounds, cutoff, should_stop};
  const double scale = std::max(std::fabs(fluid_[node.pair].bound()), 1e-9);
  RelaxedBound relaxed =
      relax_orders(space_, table_, pair, node.box, options, node.prices, scale, effort);
  node.bound = std::max(node.bound, relaxed.value);
  if (node.bound >= cutoff) return outcome;
  const Thin thin = thin_sides(pair, node.box);
  outcome.closed_at = node.bound;
  if (thin.prefill && thin.decode) return outcome;
  const Weights weights = weights_of(space_, pair, relaxed.at.multipliers, node.box);
  const Branch branch =
      choose_branch(pair, node.box, relaxed.at.multipliers, weights, relaxed.path);
  const double gap = branch.by_prefill ? branch.prefill_gap : branch.decode_gap;
  if ((thin.prefill || thin.decode) && gap <= kLittleGap * (cutoff - node.bound)) return outcome;
  outcome.closed_at = kInfinity;
  node.prices = std::move(relaxed.at);
  for (const Box& half : {lower_half(node.box, branch), upper_half(node.box, branch)}) {
    outcome.children.push_back(node);
    outcome.children.back().box = half;
  }
  return outcome;
}

double OrderFreeSearch::bound() const {
  const double open = open_.empty() ? kInfinity : open_.front().bound;
  return std::min({open, in_hand_, closed_});
}

}  // namespace tessera::solver::exact
