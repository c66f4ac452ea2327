#include <algorithm>

#include "tessera/core/units.h"
#include "tessera/serving/deployment.h"

namespace tessera::serving {

void fill_kv_blocks(Deployment& deployment, const Traffic& traffic) {
  constexpr std::int64_t kMostNamedBlocks = 1 << 22;
  for (Replica& replica : deployment.replicas) {
    if (replica.kv_blocks > 0) continue;
    std::int64_t all = 0, largest = 0;
    for (const Request& r : traffic.requests) {
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
}

}  // namespace tessera::serving
