#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/core/cluster.h"
#include "tessera/core/model_shape.h"
#include "tessera/cost/latency.h"
#include "tessera/cost/memory.h"

/// Attention over a part of the KV cache that a stage's device does not hold: by another device
/// over a link (FlexLLM's attention offload), or by the processors of the host (FlexGen, section
/// 4.2, "computation delegation").
namespace tessera::cost {

struct PricingContext;

/// KV heads of every layer of a stage that another device keeps and attends to: the last ones.
struct AttentionElsewhere {
  std::size_t device = 0;  ///< into the cluster's devices
  double ratio = 1;        ///< of a layer's KV heads, in (0, 1]

  friend auto operator<=>(const AttentionElsewhere&, const AttentionElsewhere&) = default;
};

using tessera::kv_heads_elsewhere;

/// The layer with so many of its KV heads, and the query heads that share them.
LayerShape with_kv_heads(const LayerShape& layer, std::int64_t num_kv_heads);

/// The layer with the heads that stay, and with those that are elsewhere.
LayerShape kept_of(const LayerShape& layer, double ratio);
LayerShape moved_of(const LayerShape& layer, double ratio);

/// Why no head of the model can be elsewhere; absent: they can.
std::optional<std::string> why_no_attention_elsewhere(const ModelShape& model);

/// Seconds from when queries leave the stage's device until the outputs are back.
class Attender {
 public:
  virtual ~Attender() = default;
  /// @param layer with the heads that are there, and no others
  virtual double attention_s(const LayerShape& layer, const LayerWork& work) const = 0;
  /// Of those, what the link takes.
  virtual double link_s(const LayerShape& layer, const LayerWork& work) const = 0;
  /// As LatencyModel::is_monotone.
  virtual bool is_monotone() const = 0;
};

/// Another device of the cluster: Q, K and V go there, the outputs come back, and in between it
/// attends as its own price says. @param context borrowed, for as long as it lives
std::unique_ptr<Attender> make_device_attender(const PricingContext& context, std::size_t from,
                                               std::size_t to, std::int32_t kv_bitwidth);

/// The host's processors, at so many bytes of the cache a second; no link's time is counted.
std::unique_ptr<Attender> make_host_attender(const MemoryQuery& query, double cache_bytes_per_s);

}  // namespace tessera::cost
