#include "tessera/cost/price_cache.h"

#include "tessera/cost/collectives.h"

namespace tessera::cost {

GroupKey group_key(const PricingContext& context, const std::vector<std::size_t>& members,
                   std::int32_t kv_bitwidth, const Correction& correction) {
  const Link link = slowest_link(context.cluster, members, members);
  return {context.model.name,
          context.device(members.front()).name,
          context.kernel_set.name,
          context.profiles.size(),
          members.size(),
          link.kind,
          link.bytes_per_s,
          link.latency_s,
          kv_bitwidth,
          correction};
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
