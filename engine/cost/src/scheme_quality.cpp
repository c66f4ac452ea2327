#include "tessera/core/error.h"
#include "tessera/core/published_quality.h"
#include "tessera/cost/lone_run.h"

namespace tessera::cost {

std::optional<Quality> scheme_quality(const PricingContext& context, const LoneRunQuery& query,
                                      const DataFolders& folders) {
  const KernelSet kernels = context.kernel_set.of_scheme(query.scheme);
  const std::size_t first =
      query.devices.empty() ? 0 : static_cast<std::size_t>(query.devices.front());
  if (first >= context.cluster.devices.size()) refuse("devices", "there is no device {}", first);
  const KernelRule* rule = kernels.find(context.device(first), query.bitwidth);
  if (rule == nullptr) return std::nullopt;
  // One scale for a whole column loses more, the fewer bits there are; at 8 it makes no difference.
  const bool per_channel = rule->group_size == 0 && query.bitwidth < 8;
  const WeightFormat format = per_channel ? WeightFormat::per_channel : rule->format();
  const QualityLevels levels = published_quality(context.model, {{query.bitwidth, {format}}},
                                                 quantisation_methods().front(), folders);
  return quality_of(levels, levels.at(query.bitwidth), levels.kv_at(query.kv_bitwidth));
}

}  // namespace tessera::cost
