#include <algorithm>
#include <limits>

#include "tessera/core/rng.h"
#include "tessera/serving/router.h"

namespace tessera::serving {
namespace {

using Loads = std::vector<ReplicaLoad>;

/// The position with the least score; of equals the first from `start` on, in a ring.
template <class Score>
std::size_t least(const Loads& loads, Score&& score, std::size_t start = 0) {
  std::size_t best = start % loads.size();
  for (std::size_t i = 1; i < loads.size(); ++i) {
    const std::size_t position = (start + i) % loads.size();
    if (score(loads[position]) < score(loads[best])) best = position;
  }
  return best;
}

std::int64_t num_requests(const ReplicaLoad& load) { return load.num_waiting + load.num_running; }

/// Requests there with one more, of a share of one.
double requests_with(const ReplicaLoad& load) {
  return static_cast<double>(num_requests(load) + 1) / load.share;
}

bool have_equal_shares(const Loads& loads) {
  const auto unlike = [](const ReplicaLoad& a, const ReplicaLoad& b) { return a.share != b.share; };
  return std::adjacent_find(loads.begin(), loads.end(), unlike) == loads.end();
}

struct RoundRobin final : Router {
  bool sends_in_turn() const override { return true; }
  std::size_t choose(const Loads& loads, const RoutedRequest&) override {
    if (have_equal_shares(loads)) return next++ % loads.size();
    if (sent.size() != loads.size()) sent.assign(loads.size(), 0);
    const auto turns_with = [&](const ReplicaLoad& load) {
      return (sent[static_cast<std::size_t>(&load - loads.data())] + 1) / load.share;
    };
    const std::size_t chosen = least(loads, turns_with);
    ++sent[chosen];
    return chosen;
  }
  std::size_t next = 0;
  std::vector<double> sent;  // where shares differ, by position
};

struct Random final : Router {
  explicit Random(const RouterOptions& options) : rng(static_cast<std::uint64_t>(options.seed)) {}
  bool sends_in_turn() const override { return true; }
  std::size_t choose(const Loads& loads, const RoutedRequest&) override {
    if (have_equal_shares(loads)) {
      return static_cast<std::size_t>(rng.integer(0, std::ssize(loads) - 1));
    }
    double all = 0;
    for (const ReplicaLoad& load : loads) all += load.share;
    double left = rng.uniform() * all;
    std::size_t chosen = 0;
    while (chosen + 1 < loads.size() && left >= loads[chosen].share) left -= loads[chosen++].share;
    return chosen;
  }
  Rng rng;
};

struct LeastRequests final : Router {
  std::size_t choose(const Loads& loads, const RoutedRequest&) override {
    return least(loads, requests_with);
  }
};

struct LeastTokens final : Router {
  std::size_t choose(const Loads& loads, const RoutedRequest& request) override {
    return least(loads, [&](const ReplicaLoad& load) {
      const std::int64_t tokens = load.pending_tokens + load.num_running + request.prompt_tokens;
      return static_cast<double>(tokens) / load.share;
    });
  }
};

struct PowerOfTwo final : Router {
  explicit PowerOfTwo(const RouterOptions& options)
      : rng(static_cast<std::uint64_t>(options.seed)) {}
  std::size_t choose(const Loads& loads, const RoutedRequest&) override {
    const std::int64_t last = std::ssize(loads) - 1;
    if (last == 0) return 0;
    const auto a = static_cast<std::size_t>(rng.integer(0, last));
    auto b = static_cast<std::size_t>(rng.integer(0, last - 1));
    if (b >= a) ++b;
    return requests_with(loads[b]) < requests_with(loads[a]) ? b : a;
  }
  Rng rng;
};

// vLLM, v1/engine/core_client.py: four times the queue, and the start goes round.
struct VllmBalancer final : Router {
  std::size_t choose(const Loads& loads, const RoutedRequest&) override {
    return least(
        loads, [](const ReplicaLoad& load) { return 4 * load.num_waiting + load.num_running; },
        start++);
  }
  std::size_t start = 0;
};

// SGLang's cache-aware router: balance first where loads differ much, else the best match, else
// the least loaded.
struct PrefixAware final : Router {
  explicit PrefixAware(const RouterOptions& given) : options(given) {}
  bool looks_for_prefixes() const override { return true; }
  std::size_t choose(const Loads& loads, const RoutedRequest& request) override {
    const std::size_t idle = least(loads, requests_with);
    std::int64_t most = 0;
    for (const ReplicaLoad& load : loads) most = std::max(most, num_requests(load));
    const std::int64_t fewest = num_requests(loads[idle]);
    if (most - fewest > options.most_difference &&
        static_cast<double>(most) > options.most_ratio * static_cast<double>(fewest)) {
      return idle;
    }
    std::size_t best = idle;
    std::int64_t match = request.cached_tokens(idle);
    for (std::size_t i = 0; i < loads.size(); ++i) {
      const std::int64_t found = request.cached_tokens(i);
      if (found > match) match = found, best = i;
    }
    const double share = static_cast<double>(match) / static_cast<double>(request.prompt_tokens);
    return share > options.match_ratio ? best : idle;
  }
  RouterOptions options;
};

// Dynamo's KV router at temperature 0: prompt tokens still to compute there, the new one's without
// what is cached, and what decodes hold.
struct KvAware final : Router {
  bool looks_for_prefixes() const override { return true; }
  bool looks_at_blocks() const override { return true; }
  std::size_t choose(const Loads& loads, const RoutedRequest& request) override {
    std::size_t best = 0;
    double least_cost = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < loads.size(); ++i) {
      const std::int64_t prefill =
          loads[i].pending_tokens + request.prompt_tokens - request.cached_tokens(i);
      const double blocks = static_cast<double>(prefill) / static_cast<double>(loads[i].block_size);
      const double cost = blocks + static_cast<double>(loads[i].used_blocks);
      if (cost < least_cost) least_cost = cost, best = i;
    }
    return best;
  }
};

struct SharedQueue final : Router {
  bool is_shared_queue() const override { return true; }
  std::size_t choose(const Loads& loads, const RoutedRequest&) override {
    return least(loads, num_requests);
  }
};

template <class Kind>
std::unique_ptr<Router> make(const RouterOptions& options) {
  if constexpr (std::is_constructible_v<Kind, const RouterOptions&>) {
    return std::make_unique<Kind>(options);
  } else {
    return std::make_unique<Kind>();
  }
}

}  // namespace

const Registry<Router, const RouterOptions&>& routers() {
  static const Registry<Router, const RouterOptions&> all(
      "router",
      {{{"round_robin", "Replicas in turn, by their shares", ""}, make<RoundRobin>},
       {{"random", "Any replica, by their shares", ""}, make<Random>},
       {{"least_requests", "Fewest requests waiting and running, of a replica's share",
         "microsoft/vidur; with shares nginx's least_conn"},
        make<LeastRequests>},
       {{"least_tokens", "Fewest prompt tokens to compute of its share, a decode counting one",
         "Mutinifni/splitwise-sim"},
        make<LeastTokens>},
       {{"power_of_two", "The less loaded of two drawn at random", "Mitzenmacher, 2001"},
        make<PowerOfTwo>},
       {{"prefix_aware", "Longest cached prefix, unless loads differ much", "SGLang's router"},
        make<PrefixAware>},
       {{"kv_aware", "Least work after cached prefixes", "ai-dynamo/dynamo, lib/kv-router"},
        make<KvAware>},
       {{"vllm_dp", "Least of four times the queue plus running, the start going round",
         "vLLM, v1/engine/core_client.py"},
        make<VllmBalancer>},
       {{"shared_queue", "One queue in front of all; a replica takes from it when a seat is free",
         "M/M/c"},
        make<SharedQueue>}});
  return all;
}

}  // namespace tessera::serving
