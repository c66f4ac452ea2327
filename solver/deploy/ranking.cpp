#include "ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "tessera/core/units.h"

namespace tessera::solver {
namespace {

/// The rate that a deployment is ranked by: of what was simulated whole the one that was too much
/// for it, as others only have what their parts promise.
double rank_rate(const FoundDeployment& found) {
  if (found.scope != Scope::whole || !found.found->fails_at_per_s) return found.rate_per_s();
  return *found.found->fails_at_per_s * static_cast<double>(found.times);
}

/// What nobody starts for a little more, and what no measured run vouches for: pools, with a link
/// and a proxy, and engines over unlike devices.
bool is_elaborate(const FoundDeployment& found) {
  return is_disaggregated(found) || has_unlike(found.parts);
}

/// Better first, by the objective; of equals what is not elaborate; then by the other measures,
/// so that the order is the same every time.
struct Before {
  ServingGoal goal;

  std::array<double, 4> keys(const FoundDeployment& found) const {
    const double rate = -rank_rate(found), gpus = static_cast<double>(found.gpus());
    double first = gpus;
    if (goal == ServingGoal::rate) first = rate;
    if (goal == ServingGoal::cost) first = found.usd_per_h().value_or(kUnpriced);
    return {first, is_elaborate(found) ? 1.0 : 0.0, gpus, rate};
  }
  bool operator()(const FoundDeployment& a, const FoundDeployment& b) const {
    const auto left = keys(a), right = keys(b);
    return left != right ? left < right : layout_of(a.parts) < layout_of(b.parts);
  }
};

/// Simulated whole, from the rate that it promises. Where it misses the rate that is wanted, one
/// engine more; absent where that is no answer.
std::optional<FoundDeployment> confirmed(ServingSearch& search,
                                         const DeploymentObjective& objective,
                                         const FoundDeployment& promised) {
  const std::optional<double> wanted = objective.wanted_per_s();
  const auto found =
      search.sustained(promised.parts, {.guess_per_s = wanted.value_or(promised.rate_per_s()),
                                        .least_per_s = wanted.value_or(0),
                                        .residence_s = promised.found->served->summary.e2e_s.mean,
                                        .num_engines = num_engines(promised.parts)});
  if (found) return FoundDeployment{promised.parts, found};
  const DeploymentPart& part = promised.parts.front();
  if (!wanted || promised.parts.size() > 1 || part.count >= part.engine->capacity) {
    return std::nullopt;
  }
  const std::int64_t count = part.count + 1;
  return FoundDeployment{{{part.engine, count}}, part.engine->found, count, Scope::one_engine};
}

constexpr double kPooled = 1.25;  ///< times what each does alone, what several often do together

/// The first that is not known well enough: the first of all, and behind an elaborate one the first
/// that is not, so that it may be compared; then, of rates, what has more engines than the first
/// that is not, and may pass it, as several together do more than so many times one alone.
std::vector<FoundDeployment>::iterator unsure(ServingGoal goal,
                                              std::vector<FoundDeployment>& found) {
  if (found.front().scope != Scope::whole) return found.begin();
  const auto plain = std::find_if_not(found.begin(), found.end(), is_elaborate);
  if (plain == found.end() || plain->scope != Scope::whole) return plain;
  if (goal != ServingGoal::rate) return found.end();
  return std::find_if(plain, found.end(), [&](const FoundDeployment& each) {
    return each.scope == Scope::one_engine && num_engines(each.parts) > num_engines(plain->parts) &&
           kPooled * each.rate_per_s() > plain->rate_per_s();
  });
}

constexpr double kWorthMore = 1.30;  ///< times as good, what elaborate deployments have to be

/// How much there is to start and to look after, the first of these that differs first.
struct Complexity {
  bool is_elaborate = false, is_cramped = false;
  std::int64_t kinds = 0;  ///< of engines
  std::int64_t types = 0;  ///< of devices
  std::int64_t gpus = 0;
  std::int64_t widest = 0;  ///< devices of an engine, at most
  std::int32_t bits_lost = 0, kv_bits_lost = 0;

  auto operator<=>(const Complexity&) const = default;
};

Complexity complexity_of(const FoundDeployment& found) {
  Complexity result{
      .is_elaborate = is_elaborate(found), .kinds = std::ssize(found.parts), .gpus = found.gpus()};
  std::set<std::string> types;
  for (const DeploymentPart& part : found.parts) {
    types.insert(part.engine->type->types.begin(), part.engine->type->types.end());
    result.widest = std::max(result.widest, part.engine->gpus());
    result.is_cramped = result.is_cramped || part.engine->is_cramped;
    result.bits_lost = std::max(result.bits_lost, 16 - part.engine->bitwidth);
    result.kv_bits_lost = std::max(result.kv_bits_lost, 16 - part.engine->kv_bitwidth);
  }
  result.types = std::ssize(types);
  return result;
}

/// What of a deployment counts for the goal, the more the better.
double merit(ServingGoal goal, const FoundDeployment& found) {
  if (goal == ServingGoal::rate) return found.rate_per_s();
  if (goal == ServingGoal::cost) return 1 / found.usd_per_h().value_or(kUnpriced);
  return 1 / static_cast<double>(found.gpus());
}

/// How much of a deployment without pools there is room for on devices that another uses, by type
/// (ratio, at most 1).
double share_on(const std::map<std::string, std::int64_t>& devices, const FoundDeployment& found) {
  double share = 1;
  for (const auto& [engine, count, role, unused] : found.parts) {
    const auto own = devices.find(engine->type->name);
    const std::int64_t room = own == devices.end() ? 0 : own->second / engine->gpus();
    share = std::min(share, static_cast<double>(room) / static_cast<double>(count));
  }
  return share;
}

std::map<std::string, std::int64_t> devices_of(const ServingSearch& search,
                                               const FoundDeployment& found) {
  std::map<std::string, std::int64_t> counts;
  const auto placed = search.place(found.parts);
  if (!placed) return counts;
  for (const std::vector<std::size_t>& devices : *placed) {
    for (const std::size_t i : devices) ++counts[search.request().cluster->devices[i].device.name];
  }
  return counts;
}

/// Whether a deployment may stand first. An elaborate one has to be kWorthMore times as good as
/// what is not: of a rate, on the devices that it uses itself, so that others beside them, which
/// make the rest better, do not take away what it is worth.
bool is_worth_it(const ServingSearch& search, const std::vector<FoundDeployment>& found,
                 const FoundDeployment& each) {
  if (!is_elaborate(each)) return true;
  const ServingGoal goal = search.request().objective;
  const bool by_rate = goal == ServingGoal::rate;
  const auto devices = by_rate ? devices_of(search, each) : std::map<std::string, std::int64_t>{};
  const double own = merit(goal, each);
  return std::none_of(found.begin(), found.end(), [&](const FoundDeployment& other) {
    if (is_elaborate(other)) return false;
    const double share = by_rate ? share_on(devices, other) : 1;
    return own < kWorthMore * share * merit(goal, other);
  });
}

/// The simplest of those that may stand first and are within kWorthIt of the best of them, and
/// within kWorthMore of the best of all. So nothing that is listed is better by more, and as the
/// best of both does not fall with another device, what is chosen falls by no more.
/// @param found not empty, in order
std::vector<FoundDeployment>::iterator simplest(const ServingSearch& search,
                                                std::vector<FoundDeployment>& found) {
  const ServingGoal goal = search.request().objective;
  std::vector<std::vector<FoundDeployment>::iterator> worthy;
  double least = 0;
  for (auto at = found.begin(); at != found.end(); ++at) {
    const bool is_worthy = is_worth_it(search, found, *at);
    if (is_worthy) worthy.push_back(at);
    least = std::max(least, merit(goal, *at) / (is_worthy ? kWorthIt : kWorthMore));
  }
  auto chosen = found.end();
  for (const auto at : worthy) {
    if (merit(goal, *at) < least) continue;
    if (chosen == found.end() || complexity_of(*at) < complexity_of(*chosen)) chosen = at;
  }
  return chosen;
}

/// Why the one is simpler than the other.
const char* burden_of(const FoundDeployment& other, const FoundDeployment& chosen) {
  if (is_disaggregated(other) && !is_disaggregated(chosen)) {
    return "a second pool, its link and a proxy";
  }
  if (has_unlike(other.parts) && !has_unlike(chosen.parts)) return "an engine over unlike devices";
  const Complexity more = complexity_of(other), less = complexity_of(chosen);
  if (more.is_cramped != less.is_cramped) return "a KV cache that takes no long request";
  if (more.kinds != less.kinds) return "another kind of engine";
  if (more.types != less.types) return "another type of device";
  if (more.gpus != less.gpus) return "more devices";
  return more.widest != less.widest ? "wider groups" : "fewer bits";
}

/// Of engines that are alike but for their bits these: " at 8 bits", " with a KV cache of 8 bits".
std::string bits_apart(const FoundDeployment& other, const FoundDeployment& chosen) {
  if (layout_of(other.parts) != layout_of(chosen.parts)) return {};
  const PricedConfiguration &own = *other.parts.front().engine,
                            &first = *chosen.parts.front().engine;
  if (own.bitwidth != first.bitwidth) return fmt::format(" at {} bits", own.bitwidth);
  if (own.kv_bitwidth == first.kv_bitwidth) return {};
  return fmt::format(" with a KV cache of {} bits", own.kv_bitwidth);
}

/// "2 x L4 + 1 x T4 would serve 5.1 req/s, 2 % more, for 1.40 USD/h more: not worth another kind
/// of engine"
std::string given_up(const FoundDeployment& other, const FoundDeployment& chosen) {
  std::string words = fmt::format("{}{} would serve {:.4g} req/s", layout_of(other.parts),
                                  bits_apart(other, chosen), other.rate_per_s());
  words += ", " + gain_words(other.rate_per_s() / chosen.rate_per_s());
  const auto more = other.usd_per_h(), less = chosen.usd_per_h();
  constexpr double kLeastUsd = 0.005;  // that two digits show
  if (more && less && *more - *less >= kLeastUsd) {
    words += fmt::format(", for {:.2f} USD/h more", *more - *less);
  }
  words += fmt::format(": not worth {}", burden_of(other, chosen));
  if (!is_elaborate(other) || is_elaborate(chosen)) return words;
  return words + fmt::format(" below {:.0f} % more", 100 * (kWorthMore - 1));
}

}  // namespace

std::string gain_words(double ratio) {
  constexpr double kAsFactor = 3;
  if (ratio >= kAsFactor) return fmt::format("{:.3g} times as many", ratio);
  const double percent = std::fabs(100 * (ratio - 1));
  if (percent < 0.5) return "as many";
  const bool is_round = percent >= 10 && (ratio > 1 || percent <= 99);
  return fmt::format("{} % {}",
                     is_round ? fmt::format("{:.0f}", percent)
                              : fmt::format("{:.{}g}", percent, percent < 10 ? 2 : 3),
                     ratio > 1 ? "more" : "less");
}

bool is_disaggregated(const FoundDeployment& found) {
  return found.parts.front().role != serving::Role::mixed;
}

std::vector<FoundDeployment> ranked(ServingSearch& search, const DeploymentObjective& objective,
                                    std::vector<FoundDeployment> found) {
  const Before before{search.request().objective};
  std::sort(found.begin(), found.end(), before);
  while (!found.empty()) {
    const auto at = unsure(search.request().objective, found);
    if (at == found.end()) break;
    if (auto whole = confirmed(search, objective, *at)) {
      *at = std::move(*whole);
    } else {
      found.erase(at);
    }
    std::sort(found.begin(), found.end(), before);
  }
  return found;
}

std::string prefer_simple(ServingSearch& search, const DeploymentObjective& objective,
                          std::vector<FoundDeployment>& found) {
  const ServingGoal goal = search.request().objective;
  while (!found.empty()) {
    const auto chosen = simplest(search, found);
    if (chosen == found.begin()) return {};
    if (chosen->scope == Scope::whole) {
      const std::string words = given_up(found.front(), *chosen);
      std::rotate(found.begin(), chosen, chosen + 1);
      return words;
    }
    if (auto whole = confirmed(search, objective, *chosen)) {
      *chosen = std::move(*whole);
    } else {
      found.erase(chosen);
    }
    std::sort(found.begin(), found.end(), Before{goal});
  }
  return {};
}

std::optional<FoundDeployment> best_homogeneous(const ServingSearch& search,
                                                const std::vector<FoundDeployment>& found) {
  const auto is_alone = [](const FoundDeployment& each) { return complexity_of(each).types == 1; };
  if (!found.empty() && is_alone(found.front())) return found.front();
  const ServingGoal goal = search.request().objective;
  std::vector<FoundDeployment> alone;
  std::copy_if(found.begin(), found.end(), std::back_inserter(alone), is_alone);
  std::optional<FoundDeployment> best;
  for (const FoundDeployment& each : alone) {
    if (!is_worth_it(search, alone, each)) continue;
    if (!best || merit(goal, each) > merit(goal, *best)) best = each;
  }
  return best;
}

double gain_over(ServingGoal goal, const FoundDeployment& found, const FoundDeployment& other) {
  return merit(goal, found) / merit(goal, other);
}

std::optional<double> shared_over_pools(const std::vector<FoundDeployment>& found) {
  const auto rate_per_gpu = [&](bool disaggregated) -> std::optional<double> {
    for (const FoundDeployment& each : found) {
      if (is_disaggregated(each) != disaggregated) continue;
      return each.rate_per_s() / static_cast<double>(each.gpus());
    }
    return std::nullopt;
  };
  const auto shared = rate_per_gpu(false), pools = rate_per_gpu(true);
  if (!shared || !pools) return std::nullopt;
  return *shared / *pools;
}

}  // namespace tessera::solver
