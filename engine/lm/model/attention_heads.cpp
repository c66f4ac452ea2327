#include "attention_heads.h"

#include "decoder_cache.h"
#include "description.h"
#include "share.h"
#include "step.h"
#include "tessera/core/error.h"
#include "tessera/weights/weights.h"

namespace tessera::lm {
namespace {

Description described(const LoadRequest& request) {
  const auto weights = weights::Weights::open(request.path);
  Description description = describe(*weights, weights::model_of(*weights));
  description.ropes.clear();  // queries and keys come rotated
  if (description.sinks) {
    refuse(ErrorCode::unsupported, "attention_elsewhere",
           "heads of {} have sinks, which are not sent", description.shape.family);
  }
  return description;
}

LoadRequest checked(LoadRequest request, const ModelShape& shape) {
  if (request.last_layer < 0) request.last_layer = shape.num_layers;
  check_share(request, shape);
  if (request.attention_elsewhere == 0)
    refuse(ErrorCode::out_of_range, "attention_elsewhere", "no head of {} is elsewhere",
           shape.name);
  return request;
}

class DecoderHeads final : public AttentionHeads {
 public:
  DecoderHeads(const LoadRequest& request, std::int64_t num_blocks, std::int64_t block_size,
               std::shared_ptr<const Backend> backend)
      : description_(described(request)),
        request_(checked(request, description_.shape)),
        backend_(std::move(backend)),
        cache_(description_, request_, num_blocks, block_size, backend_, KvHeads::elsewhere) {
    if (description_.alibi_slopes.empty()) return;
    alibi_slopes_ =
        backend_->upload(description_.alibi_slopes.data(), description_.shape.num_heads * 4);
  }

  std::int64_t hidden_size() const override { return description_.shape.hidden_size; }
  std::int64_t cache_bytes() const override { return cache_.bytes(); }
  void touch() override { cache_.touch({}); }

  void begin(std::span<const SequenceStep> batch) override {
    step_ = make_step(batch, description_, cache_.num_blocks(), cache_.block_size(), *backend_);
  }

  std::vector<float> attend(std::int64_t layer_index, std::vector<float> rows) override {
    if (layer_index < request_.first_layer || layer_index >= request_.last_layer) {
      refuse(ErrorCode::out_of_range, "layers", "layer {} of [{}, {})", layer_index,
             request_.first_layer, request_.last_layer);
    }
    const LayerShape& layer = description_.shape.layer(layer_index);
    const kernels::KvBlocks& blocks = cache_.layer(layer_index);
    const std::int64_t group = layer.num_heads / layer.num_kv_heads;
    const std::int64_t heads = blocks.num_kv_heads * group;
    const std::int64_t query = heads * layer.head_dim, key = blocks.num_kv_heads * layer.head_dim;
    const std::int64_t width = query + 2 * key;
    if (std::ssize(rows) != step_.num_tokens * width) {
      refuse(ErrorCode::out_of_range, "rows", "{} numbers for {} tokens of {}", rows.size(),
             step_.num_tokens, width);
    }
    if (heads == 0) return {};
    const Memory memory = backend_->upload(rows.data(), std::ssize(rows) * 4);
    const Rows2d all{static_cast<float*>(memory.get()), step_.num_tokens, width, width};
    backend_->store_kv(all.part(query, key), all.part(query + key, key), step_.tables, blocks);
    const auto* slopes = static_cast<const float*>(alibi_slopes_.get());
    if (slopes != nullptr) slopes += layer.num_heads - heads;
    const Memory made = backend_->allocate(step_.num_tokens * query * 4);
    backend_->attention(all.part(0, query), step_.tables,
                        attention_form(description_, layer_index, heads, {.alibi_slopes = slopes}),
                        blocks, {static_cast<float*>(made.get()), step_.num_tokens, query, query});
    std::vector<float> out(static_cast<std::size_t>(step_.num_tokens * query));
    backend_->download(made.get(), std::ssize(out) * 4, out.data());
    return out;
  }

 private:
  const Description description_;
  const LoadRequest request_;
  const std::shared_ptr<const Backend> backend_;
  DecoderCache cache_;
  Memory alibi_slopes_;  ///< of all heads
  Step step_;
};

}  // namespace

std::unique_ptr<AttentionHeads> make_attention_heads(const LoadRequest& request,
                                                     std::int64_t num_blocks,
                                                     std::int64_t block_size,
                                                     std::shared_ptr<const Backend> backend) {
  return std::make_unique<DecoderHeads>(request, num_blocks, block_size, std::move(backend));
}

}  // namespace tessera::lm
