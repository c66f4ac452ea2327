#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/cost/stage_price.h"

namespace tessera::cost {

/// All that prices on a group of devices depend on besides the work. What has one name is one
/// thing.
struct GroupKey {
  std::string model, device, kernel_set;
  std::optional<bool> tuned_experts;
  double prefill_factor = 1, decode_factor = 1;  ///< KernelSet::measured_factor
  std::size_t num_profiles = 0, degree = 1;
  std::string link;  ///< kind, within the group
  double link_bytes_per_s = 0, link_latency_s = 0;
  std::int32_t kv_bitwidth = 16;
  Correction correction;
  GroupSplit split;
  /// Who attends to heads elsewhere, and over which link; empty: nobody.
  std::string attention_device = {}, attention_link = {};
  double attention_ratio = 0, attention_bytes_per_s = 0, attention_latency_s = 0;

  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

GroupKey group_key(const PricingContext& context, const std::vector<std::size_t>& members,
                   std::int32_t kv_bitwidth, const Correction& correction = {},
                   const std::optional<AttentionElsewhere>& attention = {});

enum class PricePart {
  micro_batch,  ///< means over a phase's units: layers [class][bitwidth], then embedding, then head
  products,     ///< a layer without attention, at sizes of steps
  experts,      ///< of those, where they have the rows of other parts of a group too
  attention,
  attention_beside_prompts,
  embedding,
  head,
};

/// One list of prices.
struct PriceKey {
  std::size_t group = 0;  ///< PriceCache::number_of
  PricePart part = PricePart::micro_batch;
  Phase phase = Phase::prefill;
  LayerKind layer;  ///< of the parts of one layer
  /// That of a micro-batch and its bitwidths, a bit each, or those that the sizes of steps are made
  /// of.
  std::array<std::int64_t, 4> sizes = {};

  friend bool operator==(const PriceKey&, const PriceKey&) = default;
};

struct PriceKeyHash {
  std::size_t operator()(const PriceKey& key) const;
};

/// Prices that many plans have in common: of a group of devices they are the same whatever the rest
/// of the plan is. For plans of one set of profiles; micro-batches are of problems of one prompt
/// and output length. Safe to share among threads.
class PriceCache {
 public:
  std::size_t number_of(const GroupKey& group);

  /// The prices (seconds), made when first asked for. They stay where they are. `make` does not
  /// come back to this cache.
  const std::vector<double>& get(const PriceKey& key,
                                 const std::function<std::vector<double>()>& make);

 private:
  std::mutex mutex_;
  std::map<GroupKey, std::size_t> groups_;
  std::unordered_map<PriceKey, std::vector<double>, PriceKeyHash> prices_;
};

}  // namespace tessera::cost
