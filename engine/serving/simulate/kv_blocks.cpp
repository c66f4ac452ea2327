#include <algorithm>

#include "tessera/core/units.h"
#include "tessera/serving/deployment.h"

namespace tessera::serving {

void fill_kv_blocks(Replica& replica, const Traffic& traffic,
                    const std::function<bool(std::size_t request)>& takes) {
  constexpr std::int64_t kMostNamedBlocks = 1 << 22;
  if (replica.kv_blocks > 0) return;
  std::int64_t all = 0, largest = 0;
  for (std::size_t i = 0; i < traffic.requests.size(); ++i) {
    if (!takes(i)) continue;
    const Request& r = traffic.requests[i];
    const std::int64_t most = std::max(
        r.prompt_tokens + std::max(r.output_tokens, r.max_tokens),
        replica.engine.kv_allocation == KvAllocation::maximum ? replica.engine.max_model_len : 0);
    const std::int64_t blocks = ceil_div(most, replica.engine.block_size) + 1;
    all += blocks;
    largest = std::max(largest, blocks);
  }
  replica.kv_blocks = all + 1;
  if (replica.engine.enable_prefix_caching) {
    replica.kv_blocks = std::max(largest, std::min(all + 1, kMostNamedBlocks));
  }
}

void fill_kv_blocks(Deployment& deployment, const Traffic& traffic) {
  for (Replica& replica : deployment.replicas) {
    fill_kv_blocks(replica, traffic, [](std::size_t) { return true; });
  }
}

}  // namespace tessera::serving
