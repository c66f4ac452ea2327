#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "decoder_cache.h"
#include "description.h"
#include "layer.h"
#include "step.h"
#include "tessera/lm/backend.h"
#include "tessera/lm/language_model.h"

namespace tessera::lm {

/// A decoder by its description.
class Decoder final : public LanguageModel, public std::enable_shared_from_this<Decoder> {
 public:
  /// What models that differ in the form of layers share.
  struct Shared;
  /// Reads the tokenizer beside a model when somebody asks for it.
  using TokensLoader = std::function<std::shared_ptr<const Tokens>(const std::string& path)>;
  /// @throws Error naming what of the file or the request cannot be
  static std::shared_ptr<const Decoder> load(const LoadRequest& request,
                                             std::shared_ptr<const Backend> backend,
                                             TokensLoader load_tokens = {});

  Decoder(std::shared_ptr<const Shared> shared, LoadRequest request, std::vector<Layer> layers);
  ~Decoder() override;

  const ModelShape& shape() const override;
  const LoadRequest& request() const override { return request_; }
  const Tokens& tokens() const override;
  std::int64_t weight_bytes() const override;
  MemoryUse memory_use() const override;
  std::string describe_layer(std::int64_t layer_index) const override;
  int num_threads() const override;
  std::unique_ptr<KvCache> make_cache(std::int64_t num_blocks,
                                      std::int64_t block_size) const override;
  void step(std::span<const SequenceStep> batch, KvCache& cache,
            std::span<float> logits) const override;
  void embed(std::span<const SequenceStep> batch, std::span<float> hidden) const override;
  void run_layers(std::int64_t first, std::int64_t last, std::span<const SequenceStep> batch,
                  KvCache& cache, std::span<float> hidden) const override;
  void head(std::span<const float> hidden, std::span<float> logits) const override;
  std::shared_ptr<const LanguageModel> with_layer(std::int64_t layer_index,
                                                  const LayerForm& form) const override;
  void observe(std::span<const SequenceStep> batch, KvCache& cache,
               const Observer& see) const override;

 private:
  /// A step on its way through the layers.
  struct Pass;

  void embed_tokens(const Step& step, Rows2d hidden) const;
  void run(std::int64_t first, std::int64_t last, Pass& pass) const;
  void run_layer(std::int64_t index, Pass& pass) const;
  void begin_streams(Pass& pass) const;
  void end_streams(Pass& pass) const;
  void run_layer_in_streams(std::int64_t index, Pass& pass) const;
  static void copy(Rows2d from, Rows2d to, const Pass& pass);
  static void scale(float factor, Rows2d x, const Pass& pass);
  static void scale_rows(std::span<const float> factors, Rows2d x, const Pass& pass);
  void scale_parts(Rows2d read, const Pass& pass) const;
  void norm_heads(std::int64_t index, Rows2d queries, Rows2d keys, Pass& pass) const;
  Rows2d split_gates(std::int64_t index, Rows2d both, Pass& pass) const;
  void turn(std::int64_t index, std::int64_t num_heads, std::int64_t head_dim, Rows2d heads,
            const Pass& pass) const;
  void temper(std::int64_t index, Rows2d queries, const Pass& pass) const;
  void mix(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const;
  void mix_by_state(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const;
  static Rows2d copy_of(Rows2d keys, Pass& pass);
  void attend(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const;
  void attend_to_latents(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const;
  void feed_forward(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const;
  void run_network(const Network& network, const NetworkBias& bias, Rows2d in, Rows2d out,
                   const char* prefix, std::int64_t index, Pass& pass) const;
  void run_experts(std::int64_t index, Rows2d routed_by, Rows2d in, Rows2d out, Pass& pass) const;
  void run_experts_beside_network(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const;
  void run_shared_expert(std::int64_t index, Rows2d in, Rows2d out, Pass& pass) const;
  Memory token_rows(std::span<const std::int32_t> tokens, const weights::TensorInfo& table) const;
  void make_layer_inputs(Pass& pass) const;
  void make_layer_input(std::int64_t index, Rows2d in, Pass& pass) const;
  void sum_over_ranks(Rows2d out, const Pass& pass) const;
  void make_logits(Rows2d hidden, std::span<float> logits) const;
  void need_layers(std::int64_t first, std::int64_t last) const;
  void need_embedding() const;
  void need_head() const;
  void need_all() const;
  void check_hidden(std::size_t size, std::int64_t tokens) const;
  const DecoderCache& own(KvCache& cache) const;

  std::shared_ptr<const Shared> shared_;
  LoadRequest request_;
  std::vector<Layer> layers_;  ///< [num_layers], empty outside of the part that was loaded
};

}  // namespace tessera::lm
