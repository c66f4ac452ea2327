#include "tessera/solver/planning/planners.h"

#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/ilp/ilp_planner.h"

namespace tessera::solver {
namespace {

std::unique_ptr<Heuristic> make_transfer() { return make_bitwidth_transfer(); }
std::unique_ptr<Heuristic> make_printed_transfer() {
  return make_bitwidth_transfer(TransferRules::printed);
}
std::unique_ptr<Planner> make_transfer_planner() { return make_heuristic_planner(make_transfer()); }
std::unique_ptr<Planner> make_printed_transfer_planner() {
  return make_heuristic_planner(make_printed_transfer(), StartSet::all);
}

// Each says itself what it is.
template <class Kind>
Registry<Kind> registry(const char* what,
                        std::initializer_list<std::unique_ptr<Kind> (*)()> makers) {
  std::vector<typename Registry<Kind>::Entry> entries;
  for (const auto make : makers) entries.push_back({make()->card(), make});
  return {what, entries};
}

}  // namespace

const Registry<Planner>& planners() {
  static const auto all = registry<Planner>(
      "planner", {make_exact_planner, make_ilp_planner, make_adabits_planner, make_transfer_planner,
                  make_printed_transfer_planner, make_threshold_planner});
  return all;
}

const Registry<Heuristic>& heuristics() {
  static const auto all = registry<Heuristic>("heuristic", {make_transfer, make_printed_transfer});
  return all;
}

}  // namespace tessera::solver
