#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/core/registry.h"
#include "tessera/core/units.h"
#include "tessera/serving/ticks.h"

namespace tessera::serving {

/// What a router sees of a replica. Signals may be old; what it sent itself since then it knows.
struct ReplicaLoad {
  std::int64_t num_waiting = 0, num_running = 0;
  std::int64_t pending_tokens = 0;  ///< prompt tokens not computed yet, and one per decode
  std::int64_t used_blocks = 0;     ///< only for a router that looks at blocks
  std::int64_t kv_blocks = 1, block_size = 16;
  std::int64_t num_seats = 1;
  double share = 1;  ///< what it should have of the requests under way, against the others
};

/// What it sees of a request.
struct RoutedRequest {
  std::int64_t request = 0, prompt_tokens = 1, max_tokens = 1;
  std::int32_t priority = 0, slo_class = 0;
  /// Prompt tokens that a replica (by its position among the candidates) has in its prefix cache.
  std::function<std::int64_t(std::size_t)> cached_tokens;
};

struct RouterOptions {
  std::string name = "round_robin";
  double signal_age_s = 0;  ///< loads are read so far apart
  std::int64_t seed = 0;    ///< of random choices
  /// prefix_aware: the best match counts from this share of the prompt on, and only while the loads
  /// of replicas differ by less than both of these.
  double match_ratio = 0.5;
  std::int64_t most_difference = 32;
  double most_ratio = 1.5;
};

/// Chooses the replica of a request.
class Router {
 public:
  virtual ~Router() = default;
  /// @param loads of the candidates, one at least. @return a position among them
  virtual std::size_t choose(const std::vector<ReplicaLoad>& loads,
                             const RoutedRequest& request) = 0;
  /// Whether it asks for cached_tokens.
  virtual bool looks_for_prefixes() const { return false; }
  /// Whether it looks at used_blocks, which during a stretch are counted request by request.
  virtual bool looks_at_blocks() const { return false; }
  /// Shares are of the requests that arrive: it does not look at those that are under way.
  virtual bool sends_in_turn() const { return false; }
  /// Requests wait in front until a replica has a free seat.
  virtual bool is_shared_queue() const { return false; }
};

/// The routers of the engine.
const Registry<Router, const RouterOptions&>& routers();
/// The one that the options name. @throws Error{not_found} with the nearest names.
inline std::unique_ptr<Router> make_router(const RouterOptions& options) {
  return routers().make(options.name, options);
}

}  // namespace tessera::serving

template <>
struct tessera::Fields<tessera::serving::RouterOptions> {
  using R = tessera::serving::RouterOptions;
  static constexpr auto list = std::tuple{
      field<&R::name>({.name = "name",
                       .doc = "round_robin, random, least_requests, least_tokens, power_of_two, "
                              "prefix_aware, kv_aware, vllm_dp, shared_queue, or one that a script "
                              "registered; see tessera help routers",
                       .as_option = AsOption::defaulted}),
      field<&R::signal_age_s>({.name = "signal_age_s",
                               .doc = "Loads are read so far apart; between, it knows what it sent",
                               .unit = "s",
                               .min = 0,
                               .max = 1e6,
                               .as_option = AsOption::defaulted}),
      field<&R::seed>({.name = "seed",
                       .doc = "Of random choices",
                       .min = 0,
                       .max = kMaxExactInteger,
                       .as_option = AsOption::defaulted}),
      field<&R::match_ratio>(
          {.name = "match_ratio",
           .doc = "prefix_aware: share of the prompt from which on the best match counts",
           .min = 0,
           .max = 1,
           .as_option = AsOption::defaulted}),
      field<&R::most_difference>(
          {.name = "most_difference",
           .doc = "prefix_aware: the idlest replica is taken where the busiest has more requests "
                  "beyond it than this, and",
           .unit = "requests",
           .min = 0,
           .max = 1e9,
           .as_option = AsOption::defaulted}),
      field<&R::most_ratio>({.name = "most_ratio",
                             .doc = "prefix_aware: more than this many times as many",
                             .min = 1,
                             .max = 1e9,
                             .as_option = AsOption::defaulted})};
};
