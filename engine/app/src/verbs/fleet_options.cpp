#include "tessera/core/record_options.h"
#include "tessera/solver/fleet/fleet.h"
#include "verbs.h"

namespace tessera::app {

const OptionTable& fleet_options() {
  static const OptionTable options = [] {
    OptionTable t{
        "tessera fleet",
        "Which replicas of which models run on which nodes, for what money, and how far from "
        "the best that may be. FILE.lua describes nodes and named models (tessera man "
        "fleets); FILE.json, of format tessera-fleet-1, lists kinds of replicas with "
        "their rates",
        "",
        {}};
    take_flags(t, options_of<solver::FleetOptions>());
    t.options.push_back(as_text("save", "Writes the fleet to this file, for ts.load_plan"));
    t.options.push_back(report_flag());
    t.options.push_back(as_text(
        "from",
        "Starts from the fleet that this file holds; of named models it is what runs (current)"));
    return t;
  }();
  return options;
}

}  // namespace tessera::app
