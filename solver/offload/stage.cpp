// One stage of the cost model: every byte and second as a term that is linear in the shares.

#include "stage.h"

#include <algorithm>

#include "tessera/cost/stage_price.h"

namespace tessera::solver::offload {
namespace {

class StageBuilder {
 public:
  StageBuilder(const BatchProblem& problem, const Sizes& sizes, std::size_t device,
               StagePlace place)
      : problem_(problem),
        sizes_(sizes),
        device_(problem.device(device)),
        place_(place),
        price_(cost::make_stage_price(problem, {device}, problem.kv_bitwidth)) {}

  void add_layer(const LayerShape& layer, std::int32_t bitwidth) {
    const double bytes = cost::layer_weight_bytes(layer, bitwidth, query());
    weights_ += bytes;
    largest_layer_ = std::max(largest_layer_, bytes);
    if (bitwidth < kComputeBits) {
      for (const LinearShape& linear : layer.linears) {
        decompressed_ = std::max(decompressed_, 2.0 * static_cast<double>(linear.parameters()) /
                                                    static_cast<double>(linear.num_copies));
      }
    }
    cache_ += cost::layer_kv_bytes(layer, problem_.workload, query());
    attended_.push_back(&layer);
    prompt_cache_ += kv_bytes(layer, sizes_.block, sizes_.prompt + 1);
    mean_cache_ += kv_bytes(layer, sizes_.block, sizes_.mean_context);
    token_cache_ += kv_bytes(layer, sizes_.block, 1);
    batch_layer_cache_ =
        std::max(batch_layer_cache_, kv_bytes(layer, sizes_.batch, sizes_.max_context));
    heads_ = std::max(heads_, static_cast<double>(layer.num_heads));
    ++layers_;
    prefill_s_ += sizes_.batches * seconds(layer, cost::Phase::prefill, sizes_.prompt, 0);
    const double alone = seconds(layer, cost::Phase::decode, 1, 0);
    decode_s_ += sizes_.batches * alone;
    attention_s_ +=
        sizes_.batches * (seconds(layer, cost::Phase::decode, 1, sizes_.mean_context) - alone);
  }

  OffloadStage build(std::size_t node_index, double sharers, const PlanOffload& settings) const {
    OffloadStage stage;
    stage.node_index = node_index;
    const Node& node = problem_.cluster.nodes[node_index];
    const double pcie = device_.pcie_bytes_per_s;
    stage.has_disk = node.disk_bytes_per_s.has_value() && *node.disk_bytes_per_s > 0;
    const double disk = stage.has_disk ? *node.disk_bytes_per_s / sharers : 1;  // unused without
    set_prefill(stage, pcie, disk);
    set_decode(stage, pcie, disk, settings.host_attention_bytes_per_s / sharers);
    set_ends(stage);
    set_device_memory(stage);
    set_host_memory(stage);
    return stage;
  }

 private:
  cost::MemoryQuery query() const { return memory_query(problem_); }

  double kv_bytes(const LayerShape& layer, double requests, double tokens) const {
    return cost::layer_kv_bytes(layer, requests, tokens, query());
  }

  double seconds(const LayerShape& layer, cost::Phase phase, double tokens, double context) const {
    return price_->layer_s(layer, kComputeBits, {phase, sizes_.batch, tokens, context});
  }

  double hidden_bytes(double requests, double tokens) const {
    return requests * tokens * sizes_.hidden * kActivationBytes;
  }

  void set_prefill(OffloadStage& stage, double pcie, double disk) const {
    const double h = layers_ * hidden_bytes(sizes_.block, sizes_.prompt);
    auto& [ctog, gtoc, dtoc, ctod, comp] = stage.prefill;
    ctog.slope[wc] = ctog.slope[wd] = weights_ / pcie;
    gtoc.slope[cc] = gtoc.slope[cd] = prompt_cache_ / pcie;
    for (OffloadTerm* term : {&ctog, &gtoc}) term->slope[hc] = term->slope[hd] = h / pcie;
    dtoc.slope[wd] = weights_ / disk;
    ctod.slope[cd] = prompt_cache_ / disk;
    for (OffloadTerm* term : {&dtoc, &ctod}) term->slope[hd] = h / disk;
    comp.constant = prefill_s_;
  }

  void set_decode(OffloadStage& stage, double pcie, double disk, double host_attention) const {
    const double h = layers_ * hidden_bytes(sizes_.block, 1);
    auto& [ctog, gtoc, dtoc, ctod, comp] = stage.decode;
    ctog.slope[wc] = ctog.slope[wd] = weights_ / pcie;
    for (OffloadTerm* term : {&ctog, &gtoc}) term->slope[hc] = term->slope[hd] = h / pcie;
    dtoc.slope[wd] = weights_ / disk;
    dtoc.slope[cd] = mean_cache_ / disk;
    ctod.slope[cd] = token_cache_ / disk;
    for (OffloadTerm* term : {&dtoc, &ctod}) term->slope[hd] = h / disk;
    comp.constant = decode_s_;
    comp.slope[cg] = attention_s_;
    const auto host = cost::make_host_attender(query(), host_attention);
    const cost::LayerWork work{cost::Phase::decode, sizes_.block, 1, sizes_.mean_context};
    for (const LayerShape* layer : attended_) comp.slope[cc] += host->attention_s(*layer, work);
    comp.slope[cd] = comp.slope[cc];
  }

  void set_ends(OffloadStage& stage) const {
    if (is_first(place_)) {
      const auto end_s = [&](double rows) {
        return price_->host_s(sizes_.block, rows) + price_->embedding_s(rows);
      };
      stage.prefill_end_s += end_s(sizes_.block * sizes_.prompt);
      stage.decode_end_s += end_s(sizes_.block);
    }
    if (cost::holds_lm_head(place_, problem_.memory)) {
      const double head = price_->head_s(sizes_.block);
      stage.prefill_end_s += head;
      stage.decode_end_s += head;
    }
  }

  void set_device_memory(OffloadStage& stage) const {
    stage.usable_bytes = cost::empty_account(device_, query()).left_bytes();
    stage.embedding_bytes = cost::embedding_bytes(problem_.model, place_, query());
    // What is not at home here comes through two buffers, one filled while the other is used.
    stage.weights.slope[wg] = weights_;
    stage.weights.slope[wc] = stage.weights.slope[wd] = 2 * largest_layer_;
    stage.kv_cache.slope[cg] = cache_;
    Workload whole_prompts = problem_.workload;
    whole_prompts.chunk_tokens.reset();
    const auto batch = static_cast<std::int64_t>(sizes_.batch);
    const auto set = [&](OffloadTerm& term, double tokens, double activations) {
      term.constant = stage.embedding_bytes + decompressed_ + activations;
      for (std::size_t i = 0; i < kOffloadShares; ++i)
        term.slope[i] = stage.weights.slope[i] + stage.kv_cache.slope[i];
      term.slope[hg] = hidden_bytes(sizes_.block, tokens);
      term.slope[hc] = term.slope[hd] = hidden_bytes(sizes_.batch, tokens);
    };
    set(stage.device_prefill, sizes_.max_prompt,
        cost::prefill_activation_bytes(problem_.model, whole_prompts, batch, place_, query()));
    set(stage.device_decode, 1,
        cost::decode_activation_bytes(problem_.model, whole_prompts, batch, place_, query()));
    stage.device_decode.slope[cg] += batch_layer_cache_;  // the batch's cache of one layer, grown
  }

  void set_host_memory(OffloadStage& stage) const {
    const double block = hidden_bytes(sizes_.block, sizes_.max_prompt);
    const double batch = hidden_bytes(sizes_.batch, sizes_.max_prompt);
    OffloadTerm& prefill = stage.host_prefill;
    prefill.slope[wc] = weights_ + largest_layer_;
    prefill.slope[wd] = largest_layer_;
    prefill.slope[cc] = cache_;
    prefill.slope[hc] = block + batch;
    prefill.slope[hd] = batch;
    OffloadTerm& decode = stage.host_decode;
    decode.slope[wc] = weights_;
    decode.slope[wd] = largest_layer_;
    decode.slope[cc] = cache_ + attention_workspace();
    decode.slope[cd] = 2 * batch_layer_cache_ + attention_workspace();
    decode.slope[hc] = hidden_bytes(sizes_.block, 1);
    decode.slope[hd] = 2 * hidden_bytes(sizes_.batch, 1);
    stage.disk.slope[wd] = weights_;
    stage.disk.slope[cd] = cache_;
    stage.disk.slope[hd] = block;
  }

  /// Scores and outputs of attention on the host, FP16.
  double attention_workspace() const {
    return sizes_.batch * kActivationBytes * (heads_ * sizes_.max_context + sizes_.hidden);
  }

  const BatchProblem& problem_;
  const Sizes& sizes_;
  const Device& device_;
  StagePlace place_;
  std::unique_ptr<cost::StagePrice> price_;
  std::vector<const LayerShape*> attended_;
  double layers_ = 0, heads_ = 0;
  double weights_ = 0, largest_layer_ = 0, decompressed_ = 0;   ///< bytes
  double cache_ = 0;                                            ///< whole batch at full length
  double prompt_cache_ = 0, mean_cache_ = 0, token_cache_ = 0;  ///< of a block
  double batch_layer_cache_ = 0;
  double prefill_s_ = 0, decode_s_ = 0, attention_s_ = 0;
};

}  // namespace

OffloadStage build_stage(const BatchProblem& batch, const Sizes& sizes, std::size_t device,
                         StagePlace place, const std::vector<StoredLayer>& layers, double sharers,
                         const PlanOffload& settings) {
  StageBuilder builder(batch, sizes, device, place);
  for (const StoredLayer& layer : layers) builder.add_layer(*layer.shape, layer.bitwidth);
  return builder.build(batch.cluster.devices[device].node_index, sharers, settings);
}

}  // namespace tessera::solver::offload
