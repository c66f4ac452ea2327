#include "tessera/solver/instance/partition.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/core/units.h"

namespace tessera::solver {
namespace {

/// How often the prefill and the decode time of a stage count.
std::pair<double, double> units_of(const Instance& instance, std::int64_t prefill_micro_batch_size,
                                   std::int64_t decode_micro_batch_size, BalancedPhase phase) {
  if (phase == BalancedPhase::prefill) return {1, 0};
  if (phase == BalancedPhase::decode) return {0, 1};
  // In the steady state a stage is busy for all its prefill units and all its decode units.
  const auto prefills = static_cast<double>(
      instance.num_chunks * ceil_div(instance.batch_size, prefill_micro_batch_size));
  const auto decodes = static_cast<double>(ceil_div(instance.batch_size, decode_micro_batch_size));
  return {prefills, decodes * (instance.output_tokens - 1)};
}

}  // namespace

std::optional<std::vector<std::size_t>> balanced_partition(const Instance& instance,
                                                           const std::vector<std::size_t>& order,
                                                           std::size_t bit,
                                                           std::int64_t prefill_micro_batch_size,
                                                           std::int64_t decode_micro_batch_size,
                                                           BalancedPhase phase) {
  const std::size_t stages = order.size(), layers = instance.num_layers();
  if (stages == 0 || stages > layers) return std::nullopt;
  const PhaseCosts& prefill = instance.prefill(prefill_micro_batch_size);
  const PhaseCosts& decode = instance.decode(decode_micro_batch_size);
  const auto [prefill_units, decode_units] =
      units_of(instance, prefill_micro_batch_size, decode_micro_batch_size, phase);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // best[k][n]: least largest share of the first k stages holding the first n layers.
  std::vector<std::vector<double>> best(stages + 1, std::vector<double>(layers + 1, kNever));
  std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(layers + 1, 0));
  best[0][0] = 0;
  for (std::size_t k = 0; k < stages; ++k) {
    const std::size_t g = order[k];
    if (!instance.allowed_at(g, bit)) return std::nullopt;
    const StagePlace place = place_at(k, stages);
    const double room =
        instance.groups[g].usable_bytes - instance.fixed_bytes(g, place, prefill, decode);
    for (std::size_t start = k; start < layers; ++start) {
      if (best[k][start] == kNever) continue;
      double bytes = 0;
      double share =
          (is_first(place) ? prefill_units * prefill.first_s[g] + decode_units * decode.first_s[g]
                           : 0) +
          (is_last(place) ? prefill_units * prefill.last_s[g] + decode_units * decode.last_s[g]
                          : 0);
      for (std::size_t end = start + 1; end <= layers - (stages - 1 - k); ++end) {
        const std::int32_t cls = instance.layer_class[end - 1];
        bytes += instance.layer_bytes_at(g, cls, bit);
        if (bytes > room * (1 + kMemorySlack)) break;
        share += prefill_units * instance.layer_s(prefill, g, cls, bit) +
                 decode_units * instance.layer_s(decode, g, cls, bit);
        const double largest = std::max(best[k][start], share);
        if (largest < best[k + 1][end]) {
          best[k + 1][end] = largest;
          from[k + 1][end] = start;
        }
      }
    }
  }
  if (best[stages][layers] == kNever) return std::nullopt;
  std::vector<std::size_t> counts(stages);
  for (std::size_t k = stages, end = layers; k > 0; --k) {
    counts[k - 1] = end - from[k][end];
    end = from[k][end];
  }
  return counts;
}

}  // namespace tessera::solver
