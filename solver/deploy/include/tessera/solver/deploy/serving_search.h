#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/files.h"
#include "tessera/core/record.h"
#include "tessera/serving/max_rate.h"
#include "tessera/solver/deploy/assemble.h"
#include "tessera/solver/deploy/bounds.h"
#include "tessera/solver/deploy/configuration.h"
#include "tessera/solver/deploy/search_traffic.h"
#include "tessera/solver/deploy/serving_request.h"

namespace tessera::solver {

/// A configuration with what its step prices say, and where it was simulated, what it sustains.
struct PricedConfiguration : Configuration {
  std::int64_t capacity = 0;  ///< engines that its type has room for
  std::string checkpoint;     ///< that the runtime serves; empty where that does not matter
  std::shared_ptr<const AssembledDeployment> one;  ///< an engine of it, alone
  EngineBounds bounds;
  double estimate_per_s = 0;  ///< about what an engine sustains alone
  double residence_s = 0;     ///< about how long a request stays then
  /// With the seats that suit engines that only decode.
  EngineBounds decode_bounds;
  std::int64_t decode_num_seqs = 0;
  std::int64_t most_tokens = 0;  ///< of a step that leave its cache what a server has to take
  bool is_cramped = false;       ///< its cache does not take a long request
  /// Whether a prompt, a token alone keep to the SLO.
  bool may_prefill = false, may_decode = false;

  double rate_per_s = 0;  ///< of one engine, simulated; 0: not yet, or none
  std::shared_ptr<const serving::MaxRate> found;
  /// With the tokens of a step that are usual, where it has fewer; 0: none.
  std::optional<double> usual_rate_per_s;

  /// On all devices of its type.
  double total_per_s() const { return rate_per_s * static_cast<double>(capacity); }
};
using PricedPtr = std::shared_ptr<const PricedConfiguration>;

/// Equal engines of a deployment.
struct DeploymentPart {
  PricedPtr engine;
  std::int64_t count = 1;
  serving::Role role = serving::Role::mixed;
  double share = 1;  ///< of requests, for each engine, against those of other parts
};

/// The same with larger shares for all that have less than the most; absent where none changes.
std::optional<std::vector<DeploymentPart>> with_more_to_the_small(std::vector<DeploymentPart> parts,
                                                                  double factor);

/// Whether one of the engines is over devices of several types.
bool has_unlike(const std::vector<DeploymentPart>& parts);
std::int64_t num_engines(const std::vector<DeploymentPart>& parts);
/// The longest that a request is foreseen to stay in any of them.
double residence_of(const std::vector<DeploymentPart>& parts);
/// "prefill 2 x L4 + decode 1 x L4 TP2"
std::string layout_of(const std::vector<DeploymentPart>& parts);

/// What rules an engine out.
enum class Cause {
  devices,  ///< there are too few of them, or none of a node
  memory,
  kernels,  ///< the runtime, its kernels or a link
  quality,
  latency  ///< the SLO, or the rate that is wanted
};

/// Why something is not among what was found.
struct Refusal {
  std::string engine;
  Cause cause = Cause::devices;
  std::string reason = {};
  std::optional<double> missing_bytes = {};  ///< of a device, for one block of a KV cache
  bool nobody_asked = false;                 ///< a KV cache of fewer bits than 16 by default
};

/// A line for each cause, with what came nearest: of memory the engine that lacks the fewest bytes,
/// of others the first that was met.
std::string refusal_lines(const std::vector<Refusal>& refusals);

/// Rates are known to so much of themselves: between the one that held and the one that was too
/// much.
inline constexpr double kKnownTo = 0.07;

/// A rate that is looked for by simulation.
struct RateQuery {
  double guess_per_s = 0;
  double least_per_s = 0;                  ///< what does not hold it does not matter
  std::optional<double> residence_s = {};  ///< how long requests are foreseen to stay
  std::int64_t num_engines = 1;            ///< engines' worth of requests, where they are sized
  double tolerance = kKnownTo;
  std::optional<std::int64_t> max_runs = {};
};

/// Times a rate, what is worth a change or a run, and what somebody would have to look after.
inline constexpr double kBetterBy = 1.02, kWorthIt = 1.10;

/// Times as good alone, what another engine may pass beside those of other types.
inline constexpr double kAboutAsGood = 1.25;

/// What all parts of a search share: the request, its traffic, prices, and what was refused.
class ServingSearch {
 public:
  /// @throws Error{invalid_argument} as SearchTraffic; `path` names the request
  ServingSearch(const ServingRequest& request, const DataFolders& folders, std::string path);

  const ServingRequest& request() const { return request_; }
  const DataFolders& folders() const { return folders_; }
  const DeviceTypes& types() const { return types_; }
  const std::shared_ptr<SearchTraffic>& traffic() const { return traffic_; }
  const MeanLengths& lengths() const { return traffic_->lengths(); }
  double ttft_limit_s() const { return ttft_limit_s_; }
  double tpot_limit_s() const { return tpot_limit_s_; }

  /// Devices for each of the parts; absent where there are too few.
  std::optional<std::vector<std::vector<std::size_t>>> place(
      const std::vector<DeploymentPart>& parts) const;
  /// Unlike engines with what the router should give each: what it sustains alone, by the rate
  /// where the router sends in turn, else by the requests that are under way then. Whole numbers,
  /// 100 the largest. @param parts simulated alone
  std::vector<DeploymentPart> shared_out(std::vector<DeploymentPart> parts) const;
  /// The parts on their devices, or null and why in `why_not` (no reason: too few devices).
  std::shared_ptr<const AssembledDeployment> deploy(const std::vector<DeploymentPart>& parts,
                                                    Refusal& why_not);
  /// What the deployment sustains under the search's traffic, or a longer run of it where requests
  /// that stay would come for too short a time to show what piles up.
  serving::MaxRate max_rate(const AssembledDeployment& deployment, RateQuery query);
  /// The same of parts; null where they keep to the SLO at no rate that is wanted, or cannot be
  /// deployed, which is among the refusals then, but for too few devices.
  std::shared_ptr<const serving::MaxRate> sustained(const std::vector<DeploymentPart>& parts,
                                                    const RateQuery& query);

  /// Lets the request's `poll` end what takes long without a simulation.
  void poll() const {
    if (request_.poll) request_.poll(0);
  }
  void refuse(std::string engine, Cause cause, std::string reason) {
    refusals.push_back({std::move(engine), cause, std::move(reason)});
  }

  std::vector<Refusal> refusals;
  bool obstructed = false;     ///< the runtime ruled out what could be priced
  std::int64_t simulated = 0;  ///< engines and deployments, each at several rates
  std::int64_t bounded = 0;    ///< ruled out by their bounds

 private:
  PoolOptions pool_of(const Configuration& configuration, std::int64_t count, serving::Role role,
                      const std::vector<std::size_t>& devices) const;
  std::optional<serving::KvTransfer> transfer_over(
      const std::vector<std::vector<std::size_t>>& placed) const;
  DeploymentOptions options_of(const std::vector<DeploymentPart>& parts,
                               const std::vector<std::vector<std::size_t>>& placed) const;

  const ServingRequest& request_;
  const DataFolders& folders_;
  DeviceTypes types_;
  std::shared_ptr<SearchTraffic> traffic_;
  double ttft_limit_s_ = 0, tpot_limit_s_ = 0;
  bool sends_in_turn_ = false;
  std::shared_ptr<cost::PriceCache> prices_ = std::make_shared<cost::PriceCache>();
  std::map<std::string, std::shared_ptr<const AssembledDeployment>> deployed_;
};

}  // namespace tessera::solver

template <>
inline constexpr auto tessera::kEnumNames<tessera::solver::Cause> =
    tessera::enum_names<tessera::solver::Cause>({{tessera::solver::Cause::devices, "devices"},
                                                 {tessera::solver::Cause::memory, "memory"},
                                                 {tessera::solver::Cause::kernels, "kernels"},
                                                 {tessera::solver::Cause::quality, "quality"},
                                                 {tessera::solver::Cause::latency, "latency"}});

template <>
struct tessera::Fields<tessera::solver::Refusal> {
  using R = tessera::solver::Refusal;
  static constexpr auto list = std::tuple{
      field<&R::engine>({.name = "engine", .doc = "What was looked at"}),
      field<&R::cause>({.name = "cause", .doc = "Kind of the reason"}),
      field<&R::reason>({.name = "reason", .doc = "What rules it out"}),
      field<&R::missing_bytes>({.name = "missing_bytes", .doc = "On a device", .unit = "bytes"})};
};
