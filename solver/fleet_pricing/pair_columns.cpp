#include "pair_columns.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "tessera/solver/deploy/priced_configurations.h"

namespace tessera::solver {
namespace {

/// Devices of each type that the pair takes.
std::map<std::string, std::int64_t> devices_of(const PoolPair& pair) {
  std::map<std::string, std::int64_t> devices;
  for (const DeploymentPart& part : pair.parts()) {
    devices[part.engine->type->name] += part.count * part.engine->gpus();
  }
  return devices;
}

bool is_better(const PoolPair& a, const PoolPair& b) {
  if (a.estimate_per_s != b.estimate_per_s) return a.estimate_per_s > b.estimate_per_s;
  return a.name() < b.name();
}

double number(std::int64_t value) { return static_cast<double>(value); }

/// Prompts that an engine reads at most.
double most_read_per_s(const ServingSearch& search, const PricedConfiguration& engine) {
  MeanLengths lengths = search.lengths();
  if (lengths.shares_prompts) return std::numeric_limits<double>::infinity();
  lengths.output_tokens = 1;
  return mixed_rate_per_s(engine.one->deployment.replicas.front(), lengths,
                          {engine.max_num_seqs, engine.max_num_batched_tokens,
                           std::numeric_limits<double>::infinity()});
}

/// Answers that an engine writes at most, whose prompts come from elsewhere.
double most_written_per_s(const ServingSearch& search, const PricedConfiguration& engine,
                          double tpot_limit_s) {
  const serving::Replica& replica = engine.one->deployment.replicas.front();
  MeanLengths lengths = search.lengths();
  const double context =
      lengths.decode_context_tokens.value_or(lengths.prompt_tokens + lengths.output_tokens / 2);
  StepLimits limits{engine.max_num_seqs, engine.max_num_batched_tokens, tpot_limit_s};
  if (!lengths.shares_prompts) {
    const auto held =
        static_cast<std::int64_t>(std::ceil(number(replica.kv_tokens()) / std::max(1.0, context)));
    limits.max_num_seqs = std::min(limits.max_num_seqs, std::max<std::int64_t>(1, held));
  }
  // Prompts count nothing, as those that are found in a prefix cache.
  lengths.shares_prompts = true;
  return mixed_rate_per_s(replica, lengths, limits);
}

std::shared_ptr<const serving::MaxRate> sustained_by(ServingSearch& search, const PoolPair& pair,
                                                     double least_per_s) {
  const std::vector<DeploymentPart> parts = pair.parts();
  return search.sustained(parts, {.guess_per_s = std::max(pair.estimate_per_s, least_per_s),
                                  .least_per_s = least_per_s,
                                  .residence_s = residence_of(search, pair),
                                  .num_engines = num_simulated(parts)});
}

}  // namespace

std::vector<PoolPair> pairs_of(const ServingSearch& search, const std::vector<BestOfType>& types) {
  const auto objective = largest_rate();
  std::map<std::map<std::string, std::int64_t>, PoolPair> best;
  for (const JoinedPools& pools : joined_pools(search, types)) {
    search.poll();
    for (PoolPair& pair : pairs_in_balance(search, *objective, pools)) {
      const auto [at, is_new] = best.try_emplace(devices_of(pair), pair);
      if (!is_new && is_better(pair, at->second)) at->second = std::move(pair);
    }
  }
  std::vector<PoolPair> list;
  for (auto& [devices, pair] : best) list.push_back(std::move(pair));
  return list;
}

double bound_of(const ServingSearch& search, const PoolPair& pair, double tpot_limit_s) {
  const double read = number(pair.x) * most_read_per_s(search, *pair.prefill);
  const double written = number(pair.y) * most_written_per_s(search, *pair.decode, tpot_limit_s);
  return kFiniteRun * std::min(read, written);
}

void simulate_pair(ServingSearch& search, EnginePair& pair, ServedClass& served) {
  search.refusals.clear();
  pair.found = sustained_by(search, pair.pools, 0);
  if (pair.found == nullptr) {
    served.rate_per_s = 0;
    if (!search.refusals.empty()) served.limited_by = search.refusals.back().reason;
    search.refusals.clear();
    return;
  }
  const auto prefill = with_fewer_tokens(search, *pair.pools.prefill, serving::Role::prefill);
  if (prefill != nullptr) {
    PoolPair other = pair.pools;
    other.prefill = prefill;
    if (auto found = sustained_by(search, other, kWorthIt * pair.found->rate_per_s)) {
      pair.pools = std::move(other);
      pair.found = std::move(found);
    }
  }
  search.refusals.clear();
  served.rate_per_s = std::min(pair.found->rate_per_s, served.bound_per_s);
  served.limited_by = pair.found->limited_by;
}

}  // namespace tessera::solver
