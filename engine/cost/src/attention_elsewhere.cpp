#include "tessera/cost/attention_elsewhere.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "counts.h"
#include "tessera/cost/collectives.h"
#include "tessera/cost/stage_price.h"

namespace tessera::cost {
namespace {

class DeviceAttender final : public Attender {
 public:
  DeviceAttender(const PricingContext& context, std::size_t from, std::size_t to,
                 std::int32_t kv_bitwidth)
      : context_(context),
        from_(from),
        to_(to),
        link_(slowest_link(context.cluster, {from}, {to})),
        model_(latency_model_of(context, {to})),
        kv_bitwidth_(kv_bitwidth) {}

  double attention_s(const LayerShape& layer, const LayerWork& work) const override {
    return link_s(layer, work) + model_->attention_s(layer, kBits, kv_bitwidth_, work);
  }

  double link_s(const LayerShape& layer, const LayerWork& work) const override {
    const double rows = work.batch_size * work.tokens;
    const double query = rows * count(layer.num_heads) * count(layer.head_dim);
    const double key = rows * count(layer.num_kv_heads) * count(layer.head_dim);
    return sent_s(from_, query + 2 * key) + sent_s(to_, query);
  }

  bool is_monotone() const override { return model_->is_monotone(); }

 private:
  static constexpr std::int32_t kBits = 16;  ///< no weights take part

  double sent_s(std::size_t sender, double numbers) const {
    return transfer_s(numbers * activation_bytes(context_.memory), link_,
                      profile_of(context_, context_.device(sender)).get()) +
           context_.kernel_set.hop_s;
  }

  const PricingContext& context_;
  std::size_t from_, to_;
  Link link_;
  std::unique_ptr<LatencyModel> model_;
  std::int32_t kv_bitwidth_;
};

class HostAttender final : public Attender {
 public:
  HostAttender(const MemoryQuery& query, double cache_bytes_per_s)
      : query_(query), cache_bytes_per_s_(cache_bytes_per_s) {}

  double attention_s(const LayerShape& layer, const LayerWork& work) const override {
    return layer_kv_bytes(layer, work.batch_size, work.context_tokens, query_) / cache_bytes_per_s_;
  }
  double link_s(const LayerShape&, const LayerWork&) const override { return 0; }
  bool is_monotone() const override { return true; }

 private:
  MemoryQuery query_;
  double cache_bytes_per_s_;
};

}  // namespace

LayerShape with_kv_heads(const LayerShape& layer, std::int64_t num_kv_heads) {
  LayerShape part = layer;
  if (!layer.attends()) return part;
  part.num_heads = layer.num_heads / layer.num_kv_heads * num_kv_heads;
  part.num_kv_heads = num_kv_heads;
  return part;
}

LayerShape kept_of(const LayerShape& layer, double ratio) {
  const std::int64_t moved = kv_heads_elsewhere(layer, ratio);
  return moved == 0 ? layer : with_kv_heads(layer, layer.num_kv_heads - moved);
}

LayerShape moved_of(const LayerShape& layer, double ratio) {
  return with_kv_heads(layer, kv_heads_elsewhere(layer, ratio));
}

std::optional<std::string> why_no_attention_elsewhere(const ModelShape& model) {
  for (const LayerShape& layer : model.layer_classes) {
    if (!layer.attends() || layer.state) {
      return fmt::format("{} has layers that keep a state, which stays on their stage", model.name);
    }
    if (!layer.latent_width) continue;
    return fmt::format("{} has latent attention: its heads share one cache", model.name);
  }
  return std::nullopt;
}

std::unique_ptr<Attender> make_device_attender(const PricingContext& context, std::size_t from,
                                               std::size_t to, std::int32_t kv_bitwidth) {
  return std::make_unique<DeviceAttender>(context, from, to, kv_bitwidth);
}

std::unique_ptr<Attender> make_host_attender(const MemoryQuery& query, double cache_bytes_per_s) {
  return std::make_unique<HostAttender>(query, cache_bytes_per_s);
}

}  // namespace tessera::cost
