// Why there is no placement: what would have to be left out, or added, for one.

#include <fmt/format.h>

#include <algorithm>

#include "search.h"
#include "tessera/core/text.h"
#include "tessera/solver/mip/cbc.h"

namespace tessera::solver {
namespace {

using Cause = FleetLack::Kind;

class Inquiry {
 public:
  Inquiry(const FleetInstance& instance, SearchClock& clock)
      : instance_(instance), clock_(clock), space_(instance) {}

  FleetLack run() {
    if (!space_.unservable.empty()) return no_column();
    if (auto lack = budget()) return *lack;
    if (auto lack = constraint()) return *lack;
    if (auto lack = reserve()) return *lack;
    return devices();
  }

 private:
  /// A part of the question, within a few seconds.
  FleetAnswer solve(const FleetInstance& variant) const {
    constexpr double kMost_s = 5;
    FleetOptions options;
    options.gap = 0.01;
    options.time_limit_s = std::clamp(clock_.left_s() / 3, 0.05, kMost_s);
    options.should_stop = [this] { return clock_.should_stop() && clock_.interrupted(); };
    SearchClock clock(options.time_limit_s, options.should_stop);
    return FleetSearch(variant, options, clock).run({});
  }

  std::vector<std::string> all_models() const {
    std::vector<std::string> names;
    for (std::size_t m = 0; m < space_.wanted.size(); ++m) {
      if (!space_.wanted[m].empty()) names.push_back(instance_.models[m].name);
    }
    return names;
  }

  static std::string named(const std::vector<std::string>& names) {
    std::string text = names.size() == 1 ? "model " : "models ";
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
      text += quote(names[i]);
    }
    return text;
  }

  FleetLack no_column() const {
    FleetLack lack;
    lack.kind = Cause::column;
    for (const std::size_t m : space_.unservable) lack.models.push_back(instance_.models[m].name);
    const std::size_t m = space_.unservable.front();
    const std::vector<std::size_t>& kinds = space_.of_model[m];
    std::string why = "no kind of replica fits on any node, or serves a request";
    for (std::size_t b = 0; b < space_.wanted[m].size() && !kinds.empty(); ++b) {
      const bool served = std::any_of(kinds.begin(), kinds.end(),
                                      [&](std::size_t k) { return space_.kinds[k].rate[b] > 0; });
      if (!served) {
        why = fmt::format("no kind of replica that fits serves requests of class {}",
                          space_.wanted[m][b]);
        break;
      }
    }
    lack.message = named(lack.models) + ": " + why;
    return lack;
  }

  std::optional<FleetLack> budget() const {
    if (!instance_.max_usd_per_h) return std::nullopt;
    FleetInstance free = instance_;
    free.max_usd_per_h.reset();
    free.objective = FleetObjective::cost;
    const FleetAnswer answer = solve(free);
    if (!answer.objective) return std::nullopt;
    FleetLack lack{Cause::budget, all_models(), *instance_.max_usd_per_h, *answer.objective, {}};
    lack.message = fmt::format(
        "the budget is {} USD/h; a fleet for {} USD/h was found, and none costs less than {}",
        *instance_.max_usd_per_h, *answer.objective, answer.bound.value_or(0));
    return lack;
  }

  std::optional<FleetLack> constraint() const {
    if (instance_.constraints.empty()) return std::nullopt;
    FleetInstance free = instance_;
    free.constraints.clear();
    if (!solve(free).objective) return std::nullopt;
    FleetLack lack;
    lack.kind = Cause::constraint;
    for (std::size_t i = 0; i < instance_.constraints.size(); ++i) {
      free.constraints = instance_.constraints;
      free.constraints.erase(free.constraints.begin() + static_cast<std::ptrdiff_t>(i));
      if (!solve(free).objective) continue;
      lack.models = {instance_.models[instance_.constraints[i].model].name};
      lack.message =
          fmt::format("constraint {}, on {}, cannot be kept; without it there is a fleet", i,
                      named(lack.models));
      return lack;
    }
    for (const FleetConstraint& rule : instance_.constraints) {
      lack.models.push_back(instance_.models[rule.model].name);
    }
    lack.message = "no single constraint is in the way; without all of them there is a fleet";
    return lack;
  }

  std::optional<FleetLack> reserve() const {
    if (instance_.reserve_nodes == 0) return std::nullopt;
    FleetInstance free = instance_;
    free.reserve_nodes = 0;
    if (!solve(free).objective) return std::nullopt;
    FleetLack lack;
    lack.kind = Cause::reserve;
    const auto [models, multiple] = short_of(instance_);
    lack.models = models;
    lack.have = multiple;
    lack.message = fmt::format(
        "the nodes serve {} while all are there, but no more than {:.4g} times the demand when {} "
        "lost: {}",
        named(models), multiple,
        instance_.reserve_nodes == 1 ? std::string("a node is")
                                     : fmt::format("{} nodes are", instance_.reserve_nodes),
        remedy(lack));
    return lack;
  }

  FleetLack devices() const {
    FleetLack lack;
    const auto [models, multiple] = short_of(instance_);
    lack.models = models;
    lack.have = multiple;
    const std::string together =
        models.size() > 1 && models.size() == all_models().size() ? " together" : "";
    lack.message = fmt::format("the nodes serve no more than {:.4g} times the demand of {}{}: {}",
                               multiple, named(models), together, remedy(lack));
    return lack;
  }

  /// The models that not even all nodes serve, and how much they serve of the worst; else all.
  std::pair<std::vector<std::string>, double> short_of(const FleetInstance& whole) const {
    FleetInstance variant = whole;
    variant.objective = FleetObjective::rate;
    variant.constraints.clear();
    variant.max_usd_per_h.reset();
    for (FleetModel& model : variant.models) model.weight = 1;
    std::vector<std::string> models;
    double least = 1;
    for (std::size_t m = 0; m < whole.models.size(); ++m) {
      if (space_.wanted[m].empty()) continue;
      FleetInstance alone = variant;
      for (std::size_t other = 0; other < alone.models.size(); ++other) {
        if (other != m) alone.models[other].demand.assign(alone.models[other].demand.size(), 0);
      }
      const FleetAnswer answer = solve(alone);
      const double most = answer.bound.value_or(1);
      if (most >= 1) continue;
      models.push_back(whole.models[m].name);
      least = std::min(least, std::max(0.0, most));
    }
    if (!models.empty()) return {models, least};
    return {all_models(), std::clamp(solve(variant).bound.value_or(1), 0.0, 1.0) + 0.0};
  }

  /// The fewest nodes more that may do, as far as the programme of the nodes together says.
  std::string remedy(FleetLack& lack) const {
    ProgrammeOptions options;
    options.more_nodes = true;
    const FleetProgramme programme(space_, options);
    MipLimits limits;
    limits.time_limit_s = std::clamp(clock_.left_s() / 3, 0.05, 5.0);
    limits.relative_gap = 0.01;
    limits.should_stop = [this] { return clock_.should_stop(); };
    const MipResult result = solve_mip(programme.model(), limits);
    if (result.finished && !result.x) return "no number of such nodes would do";
    const double least = std::max(1.0, std::ceil(result.bound - 1e-6));
    lack.least = least;
    std::string text =
        fmt::format("at least {} more {} needed", least, least == 1 ? "node is" : "nodes are");
    if (!result.x) return text;
    std::string which;
    const std::vector<double> more = programme.nodes_added(*result.x);
    for (std::size_t c = 0; c < more.size(); ++c) {
      if (more[c] < 0.5) continue;
      which +=
          fmt::format("{}{:.0f} x {}", which.empty() ? "" : ", ", more[c], space_.classes[c].name);
    }
    return which.empty() ? text : fmt::format("{}, for instance {}", text, which);
  }

  const FleetInstance& instance_;
  SearchClock& clock_;
  FleetSpace space_;
};

}  // namespace

FleetLack explain_lack(const FleetInstance& instance, SearchClock& clock) {
  FleetInstance still = instance;  // what runs is in nobody's way
  still.around.clear();
  return Inquiry(still, clock).run();
}

}  // namespace tessera::solver
