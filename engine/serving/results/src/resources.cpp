#include <algorithm>

#include "parts.h"

namespace tessera::serving {
namespace {

/// A ratio of sums; absent where nothing was counted.
struct Ratio {
  double part = 0, whole = 0;

  void add(double more, double of) {
    part += more;
    whole += of;
  }
  std::optional<double> value() const {
    return whole > 0 ? std::optional(part / whole) : std::nullopt;
  }
};

double share(Ticks part, Ticks whole) {
  return whole > 0 ? to_seconds(part) / to_seconds(whole) : 0;
}

ReplicaSummary replica_summary(const ReplicaRecord& replica, Ticks end) {
  ReplicaSummary summary;
  summary.name = replica.name;
  summary.num_steps = replica.num_steps;
  summary.num_requests = replica.num_requests;
  summary.num_preemptions = replica.num_preemptions;
  summary.utilisation_ratio = share(replica.busy, end);
  for (const Ticks busy : replica.stage_busy) {
    summary.stage_utilisation_ratios.push_back(share(busy, end));
  }
  if (replica.kv_blocks > 0) {
    const auto blocks = static_cast<double>(replica.kv_blocks);
    summary.kv_blocks = replica.kv_blocks;
    if (end > 0) summary.kv_usage_ratio = replica.block_ticks / (blocks * static_cast<double>(end));
    summary.kv_peak_usage_ratio = static_cast<double>(replica.most_blocks_used) / blocks;
  }
  if (replica.prefix_queries > 0) {
    summary.prefix_hit_ratio =
        static_cast<double>(replica.prefix_hits) / static_cast<double>(replica.prefix_queries);
  }
  return summary;
}

void add_memory(Summary& summary, const Log& log, std::int64_t block_size) {
  Ratio usage, hits, holding, unusable;
  for (const ReplicaRecord& r : log.replicas) {
    const auto blocks = static_cast<double>(r.kv_blocks);
    usage.add(r.kv_blocks > 0 ? r.block_ticks : 0, blocks * static_cast<double>(log.end));
    hits.add(static_cast<double>(r.prefix_hits), static_cast<double>(r.prefix_queries));
    holding.add(r.slot_ticks, r.reserved_slot_ticks);
    unusable.add(r.unusable_slot_ticks, r.refused_ticks * blocks * static_cast<double>(block_size));
    summary.cached_tokens += r.prefix_hits;
    if (r.kv_blocks > 0) {
      summary.kv_peak_usage_ratio = std::max(summary.kv_peak_usage_ratio.value_or(0),
                                             static_cast<double>(r.most_blocks_used) / blocks);
    }
  }
  summary.kv_usage_ratio = usage.value();
  summary.prefix_hit_ratio = hits.value();
  if (holding.value()) summary.internal_fragmentation_ratio = 1 - *holding.value();
  summary.external_fragmentation_ratio = unusable.value();
}

void add_speculation(Summary& summary, const Log& log) {
  Ratio accepted, per_draft;
  for (const ReplicaRecord& r : log.replicas) {
    const auto tokens = static_cast<double>(r.accepted_tokens);
    accepted.add(tokens, static_cast<double>(r.drafted_tokens));
    per_draft.add(tokens, static_cast<double>(r.num_drafts));
  }
  summary.acceptance_ratio = accepted.value();
  if (per_draft.value()) summary.accepted_length = 1 + *per_draft.value();
}

/// Absent unless every replica has a price, or a power: the sum of some would be too little.
void add_money_and_energy(Summary& summary, const Log& log) {
  if (log.replicas.empty()) return;
  const auto all = [&](double ReplicaRecord::*figure) {
    return std::all_of(log.replicas.begin(), log.replicas.end(),
                       [&](const ReplicaRecord& r) { return r.*figure > 0; });
  };
  const double tok_s = summary.throughput_tok_s;
  if (all(&ReplicaRecord::usd_per_h)) {
    double usd_per_h = 0;
    for (const ReplicaRecord& r : log.replicas) usd_per_h += r.usd_per_h;
    summary.usd_per_h = usd_per_h;
    const double usd_per_million_s = usd_per_h / 3600 * 1e6;
    if (tok_s > 0) summary.usd_per_million_tokens = usd_per_million_s / tok_s;
    if (summary.total_tok_s.value_or(0) > 0) {
      summary.usd_per_million_total_tokens = usd_per_million_s / *summary.total_tok_s;
    }
  }
  if (all(&ReplicaRecord::busy_w) && log.end > 0) {
    double watts = 0;
    for (const ReplicaRecord& r : log.replicas) {
      watts += r.idle_w + (r.busy_w - r.idle_w) * share(r.busy, log.end);
    }
    summary.mean_power_w = watts;
    if (tok_s > 0) {
      summary.joule_per_token = watts / tok_s;
      summary.kwh_per_million_tokens = watts / tok_s * 1e6 / 3.6e6;
    }
  }
}

}  // namespace

void add_resources(Summary& summary, const Log& log, std::int64_t block_size) {
  for (const ReplicaRecord& replica : log.replicas) {
    summary.replicas.push_back(replica_summary(replica, log.end));
    summary.preemptions += replica.num_preemptions;
    summary.swaps += replica.num_swaps;
    summary.recomputed_tokens += replica.recomputed_tokens;
    summary.utilisation_ratio +=
        summary.replicas.back().utilisation_ratio / static_cast<double>(log.replicas.size());
  }
  add_memory(summary, log, block_size);
  add_speculation(summary, log);
  add_money_and_energy(summary, log);
}

}  // namespace tessera::serving
