// Saved plans: reading, then all that scripts do with one that was loaded.
#include "tessera/solver/plan/plan.h"

#include "target.h"
#include "tessera/solver/plan/check_plan.h"
#include "tessera/solver/plan/plan_text.h"

TESSERA_FUZZ_TARGET(plan) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const solver::Plan plan = solver::plan_from_json(parse_json(text, "input"), "input");
    fuzz::require_round_trip(
        plan, [](const Json& json) { return solver::plan_from_json(json, "again"); });
    (void)solver::describe(plan);
    (void)solver::explain(plan);
    (void)solver::check_plan(plan);
  });
}
