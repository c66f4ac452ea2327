#include "tessera/cost/device_group.h"

#include <algorithm>

#include "tessera/core/device_group.h"

namespace tessera::cost {

MemoryAccount empty_account(const PricingContext& context, const std::vector<std::size_t>& members,
                            const MemoryQuery& query, std::optional<double> utilisation,
                            std::int64_t num_layers) {
  std::optional<MemoryAccount> least;
  for (const std::size_t i : one_of_each_type(context.cluster, members)) {
    const MemoryAccount own =
        empty_account(context.device(i), query, static_cast<std::int64_t>(members.size()),
                      utilisation, num_layers);
    if (!least || own.left_bytes() < least->left_bytes()) least = own;
  }
  return *least;
}

bool has_kernel(const PricingContext& context, const std::vector<std::size_t>& members,
                std::int32_t bitwidth) {
  return std::all_of(members.begin(), members.end(), [&](std::size_t i) {
    return context.kernel_set.find(context.device(i), bitwidth) != nullptr;
  });
}

bool reads_kv(const PricingContext& context, const std::vector<std::size_t>& members,
              std::int32_t kv_bitwidth) {
  return std::all_of(members.begin(), members.end(), [&](std::size_t i) {
    return context.kernel_set.reads_kv(context.device(i), kv_bitwidth);
  });
}

}  // namespace tessera::cost
