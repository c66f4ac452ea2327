#include "tessera/cost/price_cache.h"

#include "tessera/core/device_group.h"
#include "tessera/cost/collectives.h"

namespace tessera::cost {

GroupKey group_key(const PricingContext& context, const std::vector<std::size_t>& members,
                   std::int32_t kv_bitwidth, const Correction& correction,
                   const std::optional<AttentionElsewhere>& attention) {
  const Link link = slowest_link(context.cluster, members, members);
  GroupKey key = {context.model.name,
                  group_type(context.cluster, members),
                  context.kernel_set.name,
                  context.kernel_set.tuned_experts,
                  measured_factor(context, members, Phase::prefill),
                  measured_factor(context, members, Phase::decode),
                  context.profiles.size(),
                  members.size(),
                  link.kind,
                  link.bytes_per_s,
                  link.latency_s,
                  kv_bitwidth,
                  correction,
                  context.split};
  if (attention) {
    const Link over = slowest_link(context.cluster, members, {attention->device});
    key.attention_device = context.device(attention->device).name;
    key.attention_link = over.kind;
    key.attention_ratio = attention->ratio;
    key.attention_bytes_per_s = over.bytes_per_s;
    key.attention_latency_s = over.latency_s;
  }
  return key;
}

std::size_t PriceKeyHash::operator()(const PriceKey& key) const {
  std::uint64_t hash = key.group;
  const auto mix = [&](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
  };
  mix(static_cast<std::int64_t>(key.part) * 2 + static_cast<std::int64_t>(key.phase));
  mix(std::int64_t{key.layer.layer_class} * 64 + key.layer.bitwidth);
  for (const std::int64_t size : key.sizes) mix(size);
  return hash;
}

std::size_t PriceCache::number_of(const GroupKey& group) {
  const std::lock_guard lock(mutex_);
  return groups_.try_emplace(group, groups_.size()).first->second;
}

const std::vector<double>& PriceCache::get(const PriceKey& key,
                                           const std::function<std::vector<double>()>& make) {
  const std::lock_guard lock(mutex_);
  const auto known = prices_.find(key);
  if (known != prices_.end()) return known->second;
  return prices_.emplace(key, make()).first->second;
}

}  // namespace tessera::cost
