#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/solver/deploy/serving_search.h"

/// What a search looks for, over the same configurations, bounds and simulations.
namespace tessera::solver {

/// What of a deployment was simulated.
enum class Scope {
  whole,
  one_engine,  ///< one of many, alone
  half         ///< with half the requests, by the smallest set in the ratio of the pools
};

/// Engines together, with the rate that they sustain.
struct FoundDeployment {
  std::vector<DeploymentPart> parts;
  std::shared_ptr<const serving::MaxRate> found;
  std::int64_t times = 1;  ///< what was simulated makes so much of it
  Scope scope = Scope::whole;

  double rate_per_s() const { return found->rate_per_s * static_cast<double>(times); }
  std::int64_t gpus() const;
  std::optional<double> usd_per_h() const;  ///< absent where a device has no price
};

/// The configurations of a type of device that are worth putting together.
struct BestOfType {
  std::vector<PricedPtr> best;  ///< simulated alone, the best first
  std::vector<PricedPtr> all;   ///< that may be in a pool, simulated or not
};

/// The best engines of the types, to stand behind one address: one list for each bitwidth, as a
/// request gets the same model whoever answers it; of any where the request allows engines of
/// unlike bitwidths. Of each type the best, or the best of so many shapes.
std::vector<std::vector<PricedPtr>> alike_engines(const ServingSearch& search,
                                                  const std::vector<BestOfType>& types,
                                                  std::size_t most_shapes = 1);

/// What a goal counts where a device has no price.
inline constexpr double kUnpriced = std::numeric_limits<double>::infinity();

/// A goal. Rates are per second; costs are in whatever the goal counts.
class DeploymentObjective {
 public:
  virtual ~DeploymentObjective() = default;

  /// The rate that is wanted; absent: the largest.
  virtual std::optional<double> wanted_per_s() const { return std::nullopt; }
  /// What so many engines cost.
  virtual double cost(const Configuration& configuration, std::int64_t count) const = 0;

  /// Whether a configuration may still be better than the best of its type, by its bound and its
  /// estimate.
  virtual bool may_win(const PricedConfiguration& configuration,
                       const PricedConfiguration& best) const = 0;
  /// What one engine of it has to sustain so as to matter beside the best of its type.
  virtual double bar_per_s(const PricedConfiguration& configuration,
                           const PricedConfiguration& best) const = 0;

  /// Deployments of equal engines, and of the best of all types beside each other.
  virtual std::vector<FoundDeployment> shared_phases(
      ServingSearch& search, const std::vector<BestOfType>& types) const = 0;
  /// Deployments of prefill and decode pools, beside those of `shared_phases`.
  virtual std::vector<FoundDeployment> pools(ServingSearch& search,
                                             const std::vector<BestOfType>& types,
                                             const std::vector<FoundDeployment>& shared) const = 0;
};

std::unique_ptr<DeploymentObjective> largest_rate();
/// The fewest devices, or the least money, for a rate.
std::unique_ptr<DeploymentObjective> smallest_set(double rate_per_s, bool by_price);

}  // namespace tessera::solver

template <>
inline constexpr auto tessera::kEnumNames<tessera::solver::Scope> =
    tessera::enum_names<tessera::solver::Scope>({{tessera::solver::Scope::whole, "whole"},
                                                 {tessera::solver::Scope::one_engine, "one engine"},
                                                 {tessera::solver::Scope::half, "half"}});
