#include "tessera/solver/instance/instance.h"

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/units.h"

namespace tessera::solver {
namespace {

bool none_exceeds(const std::vector<double>& small, const std::vector<double>& large) {
  return std::equal(small.begin(), small.end(), large.begin(), large.end(),
                    [](double a, double b) { return a <= b; });
}

// Whether every cost at one size is at most the cost at another, so that the other one cannot win
// when both cut the batch into the same number of micro-batches.
bool dominates(const PhaseCosts& small, const PhaseCosts& large) {
  return none_exceeds(small.layer_s, large.layer_s) && none_exceeds(small.first_s, large.first_s) &&
         none_exceeds(small.last_s, large.last_s) && none_exceeds(small.link_s, large.link_s) &&
         none_exceeds(small.activation_bytes, large.activation_bytes);
}

}  // namespace

std::size_t Instance::num_devices() const {
  std::size_t devices = 0;
  for (const DeviceGroup& group : groups) devices += static_cast<std::size_t>(group.count);
  return devices;
}

std::size_t Instance::least_stages() const {
  const std::size_t devices = num_devices();
  if (!allow_empty_stage) return devices;
  return std::min<std::size_t>(devices, allow_single_stage ? 1 : 2);
}

double Instance::fixed_bytes(std::size_t group, StagePlace place, const PhaseCosts& prefill_costs,
                             const PhaseCosts& decode_costs) const {
  return embedding_bytes_at(group, place) +
         std::max(activation_bytes_at(prefill_costs, group, place),
                  activation_bytes_at(decode_costs, group, place));
}

ObjectiveCoefficients objective_coefficients(const Instance& instance, Objective objective,
                                             std::int64_t prefill_micro_batch_size,
                                             std::int64_t decode_micro_batch_size) {
  const auto count = [&](std::int64_t size) {
    return static_cast<double>(ceil_div(instance.batch_size, size));
  };
  const double chunks = static_cast<double>(instance.num_chunks);
  const double prefills = count(prefill_micro_batch_size);
  const double decodes = count(decode_micro_batch_size);
  const double later_tokens = std::max(0.0, instance.output_tokens - 1);
  ObjectiveCoefficients c;
  if (objective == Objective::paper) {
    c.prefill_max = chunks * (prefills - 1);
    c.prefill_sum = chunks;
    c.decode_max = (decodes - 1) * later_tokens;
    c.decode_sum = 1;
  } else {
    c.prefill_max = chunks * prefills - 1;
    c.prefill_sum = 1;
    c.round = later_tokens;
    c.round_micro_batches = decodes;
  }
  return c;
}

std::vector<std::int64_t> useful_micro_batch_sizes(const Instance& instance) {
  // llama.cpp puts all sequences into one step, and its stages take turns.
  if (instance.stage_rule == StageRule::one_node) return {instance.batch_size};
  std::vector<std::int64_t> sizes;
  std::int64_t end = 0;  // of the sizes with the same count
  for (std::int64_t size = 1; size <= instance.batch_size; size = end) {
    const std::int64_t count = ceil_div(instance.batch_size, size);
    end = count > 1 ? ceil_div(instance.batch_size, count - 1) : instance.batch_size + 1;
    const std::size_t smallest = sizes.size();
    sizes.push_back(size);
    if (instance.monotone_costs || instance.batch_size > kMostSizesPriced) continue;
    for (std::int64_t larger = size + 1; larger < end; ++larger) {
      // Both phases share the list: the decode size may not fall below a prefill size that is kept.
      const bool useless =
          std::any_of(sizes.begin() + static_cast<std::ptrdiff_t>(smallest), sizes.end(),
                      [&](std::int64_t kept) {
                        return dominates(instance.prefill(kept), instance.prefill(larger)) &&
                               dominates(instance.decode(kept), instance.decode(larger));
                      });
      if (!useless) sizes.push_back(larger);
    }
  }
  return sizes;
}

}  // namespace tessera::solver
