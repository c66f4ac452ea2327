// Fleets of given columns, and the checker on a placement that may have nothing to do with them.
#include "tessera/solver/fleet/fleet.h"

#include "target.h"
#include "tessera/core/json.h"
#include "tessera/solver/fleet/check.h"

TESSERA_FUZZ_TARGET(fleet) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const auto fleet = solver::fleet_from_json(parse_json(text, "input"), "input");
    const Json written = solver::fleet_json(fleet);
    fuzz::require(solver::fleet_json(solver::fleet_from_json(written, "written")) == written,
                  "an instance that is written otherwise than it was read");
    solver::FleetPlacement placement;
    for (std::size_t c = 0; c < std::min<std::size_t>(fleet.columns.size(), 50); ++c) {
      placement.push_back({c, {static_cast<std::int64_t>(c)}});
    }
    const auto check = solver::check_fleet(fleet, placement);
    fuzz::require(check.usd_per_h == check.usd_per_h, "a price that is no number");
  });
}
