#include "stage_tables.h"

#include <algorithm>
#include <memory>

#include "tessera/core/device_group.h"
#include "tessera/core/units.h"
#include "tessera/cost/cuda_graphs.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::solver {

namespace {

using cost::LayerWork;
using cost::Phase;
using cost::PricePart;
using cost::StagePrice;
using Seconds = std::vector<double>;

// Products are staircases of tiles, whose steps show up to some thousand rows. Attention is nearly
// straight, and grows with the square of a chunk.
constexpr double kRowsRatio = 1.19;
constexpr std::int64_t kTileRows = 128, kLastTile = 2048;
constexpr std::int64_t kFirstContext = 16, kFirstChunkContext = 128;

void sort_out(Knots& knots) {
  std::sort(knots.begin(), knots.end());
  knots.erase(std::unique(knots.begin(), knots.end()), knots.end());
}

/// 1, 2, 3, 4, 6, 8, 12, ... up to `most`, which is among them.
Knots half_octaves(std::int64_t most) {
  Knots knots = {most};
  for (std::int64_t size = 1; size < most; size *= 2) {
    knots.push_back(size);
    if (size > 1 && size + size / 2 < most) knots.push_back(size + size / 2);
  }
  sort_out(knots);
  return knots;
}

/// Up to `most`: the sizes of graphs, both sides of every tile's edge, then geometric; those of
/// `more` as well.
Knots row_knots(const Knots& graph_sizes, std::int64_t most, const Knots& more) {
  Knots knots = more;
  for (const std::int64_t size : graph_sizes) {
    if (size <= most) knots.push_back(size);
  }
  for (std::int64_t edge = kTileRows; edge < std::min(most, kLastTile); edge += kTileRows) {
    knots.insert(knots.end(), {edge, edge + 1});
  }
  for (const std::int64_t size : geometric_knots(most, kRowsRatio)) {
    if (size <= kTileRows || size > kLastTile) knots.push_back(size);
  }
  knots.push_back(most);
  sort_out(knots);
  return knots;
}

/// 0, `first` and on by `ratio` up to `most`, and the tokens that windows show.
Knots context_knots(const ModelShape& model, std::int64_t first, std::int64_t ratio,
                    std::int64_t most) {
  Knots knots = {0, most};
  for (std::int64_t at = first; at < most; at *= ratio) knots.push_back(at);
  for (const LayerShape& layer : model.layer_classes) {
    for (const std::int64_t seen :
         {layer.attention_window.value_or(0) - 1,
          layer.index_tokens.value_or(0) * layer.tokens_per_entry.value_or(1)}) {
      if (seen > 0 && seen < most) knots.push_back(seen);
    }
  }
  sort_out(knots);
  return knots;
}

LayerWork of_rows(Phase phase, std::int64_t rows) {
  const auto count = static_cast<double>(rows);
  return phase == Phase::decode ? LayerWork{phase, count, 1, 0} : LayerWork{phase, 1, count, 0};
}

Seconds products_s(const StagePrice& price, const LayerShape& layer, std::int32_t bitwidth,
                   Phase phase, const Knots& rows) {
  Seconds seconds;
  for (const std::int64_t size : rows) {
    const LayerWork work = of_rows(phase, size);
    const double whole = price.layer_s(layer, bitwidth, work);
    seconds.push_back(std::max(0.0, whole - price.attention_s(layer, bitwidth, work)));
  }
  return seconds;
}

Seconds experts_s(const StagePrice& price, const LayerShape& layer, std::int32_t bitwidth,
                  const Knots& rows) {
  Seconds seconds;
  for (const std::int64_t size : rows) {
    seconds.push_back(price.experts_s(layer, bitwidth, of_rows(Phase::prefill, size)));
  }
  return seconds;
}

/// @param seconds of a row and a column
template <typename Price>
Seconds on_grid(const Knots& rows, const Knots& columns, const Price& seconds) {
  Seconds grid;
  for (const std::int64_t row : rows) {
    for (const std::int64_t column : columns) {
      grid.push_back(seconds(static_cast<double>(row), static_cast<double>(column)));
    }
  }
  return grid;
}

template <typename Price>
Seconds at_knots(const Knots& knots, const Price& seconds) {
  Seconds result;
  for (const std::int64_t size : knots) result.push_back(seconds(static_cast<double>(size)));
  return result;
}

/// Whether attention of requests that have several tokens each is FlashAttention 2, on Ampere and
/// Ada. It packs the query heads of a group, and splits long contexts, only where every request has
/// one token (csrc/flash_attn/flash_api.cpp, mha_varlen_fwd: seqlenq_ngroups_swapped).
bool attends_by_head(const cost::KernelSet& kernels, const Device& device) {
  return kernels.runtime == "vllm" && device.compute_capability >= 8 &&
         device.compute_capability < 9;
}

/// Decoding beside prompts or with drafts there. Each query head of a request reads its context on
/// one multiprocessor, as the chunk of one token does; those of a group that do not run together
/// read it from memory anew. Of 8,448 mixed batches of Llama-3.1-8B on an RTX 4090
/// (casys-kaist/LLMServingSim) the median of predicted over measured is 0.97, and the geometric
/// mean of the errors 16 %; with decodes priced as in steps of their own these are 0.63 and 64 %.
Seconds by_head(const StepSizes& sizes, const Seconds& decode_s, const Seconds& one_token_s,
                const LayerShape& member, std::int64_t num_parts, const Device& device,
                bool grouped) {
  const auto heads = static_cast<double>(member.num_heads);
  const double group = grouped ? heads / static_cast<double>(member.num_kv_heads) : 1;
  const double multiprocessors = multiprocessors_of(device);
  Seconds seconds = decode_s;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const auto requests =
        static_cast<double>(ceil_div(sizes.sequences[i / sizes.contexts.size()], num_parts));
    const double waves = std::max(1.0, requests * heads / multiprocessors);
    const double reads = std::clamp(group * requests / multiprocessors, 1.0, std::max(1.0, group));
    seconds[i] = std::max(one_token_s[i % sizes.contexts.size()] * waves, decode_s[i] * reads);
  }
  return seconds;
}

/// Of one layer of a kind.
struct LayerPrices {
  const Seconds &decode_rows_s, &rows_s;         ///< [knot] without attention
  const Seconds* shared_rows_s;                  ///< of rows_s the experts; null: not apart
  const Seconds &decode_s, &mixed_s, &chunks_s;  ///< attention, [row][column]
};

void add_times(Seconds& sum, const Seconds& seconds, double times) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += times * seconds[i];
}

/// Prices on one group of devices, each looked up or made.
class GroupPrices {
 public:
  GroupPrices(const StepPricing& pricing, const std::vector<std::size_t>& members)
      : pricing_(pricing),
        sizes_(pricing.sizes),
        members_(members),
        group_(pricing.known.number_of(
            cost::group_key(pricing.context, members, pricing.kv_bitwidth, pricing.correction))) {}

  LayerPrices layer(const cost::LayerKind& kind) {
    const LayerShape& shape =
        pricing_.context.model.layer_classes[static_cast<std::size_t>(kind.layer_class)];
    const auto attention = [&](const LayerWork& work) {
      return price().attention_s(shape, kind.bitwidth, work);
    };
    const auto products = [&](Phase phase, const Knots& rows) -> const Seconds& {
      return get(PricePart::products, phase, kind,
                 [&] { return products_s(price(), shape, kind.bitwidth, phase, rows); });
    };
    const Seconds& decode_s = get(PricePart::attention, Phase::decode, kind, [&] {
      return on_grid(sizes_.sequences, sizes_.contexts, [&](double n, double context) {
        return attention({Phase::decode, n, 1, context});
      });
    });
    const Seconds& chunks_s = get(PricePart::attention, Phase::prefill, kind, [&] {
      return on_grid(sizes_.tokens, sizes_.chunk_contexts, [&](double n, double context) {
        return attention({Phase::prefill, 1, n, context});
      });
    });
    const cost::KernelSet& kernels = pricing_.context.kernel_set;
    std::vector<const Device*> by_heads;
    for (const std::size_t i : one_of_each_type(pricing_.context.cluster, members_)) {
      const Device& device = pricing_.context.device(i);
      if (shape.attends() && !shape.latent_width && attends_by_head(kernels, device))
        by_heads.push_back(&device);
    }
    const auto mixed = [&]() -> const Seconds& {
      if (by_heads.empty()) return decode_s;
      return get(PricePart::attention_beside_prompts, Phase::decode, kind, [&] {
        const Seconds one_token_s = at_knots(sizes_.contexts, [&](double context) {
          return attention({Phase::prefill, 1, 1, context});
        });
        Seconds slowest = decode_s;
        for (const Device* device : by_heads) {
          const Seconds own =
              by_head(sizes_, decode_s, one_token_s,
                      cost::shard(shape, std::ssize(members_), pricing_.context.split), num_parts(),
                      *device, kernels.further_head_share(shape, *device) == 0);
          for (std::size_t i = 0; i < own.size(); ++i) slowest[i] = std::max(slowest[i], own[i]);
        }
        return slowest;
      });
    };
    const Seconds* shared_rows_s = nullptr;
    if (num_parts() > 1) {
      shared_rows_s = &get(PricePart::experts, Phase::prefill, kind,
                           [&] { return experts_s(price(), shape, kind.bitwidth, sizes_.rows); });
    }
    return {products(Phase::decode, sizes_.decode_rows),
            products(Phase::prefill, sizes_.rows),
            shared_rows_s,
            decode_s,
            mixed(),
            chunks_s};
  }

  const Seconds& embedding(Phase phase, const Knots& rows) {
    return get(PricePart::embedding, phase, {}, [&] {
      return at_knots(rows, [&](double count) { return price().embedding_s(count); });
    });
  }

  const Seconds& head() {
    return get(PricePart::head, Phase::decode, {}, [&] {
      return at_knots(sizes_.sampled, [&](double count) { return price().head_s(count); });
    });
  }

  std::int64_t num_parts() const { return pricing_.context.split.attention_data_parallel; }

 private:
  template <typename Make>
  const Seconds& get(PricePart part, Phase phase, const cost::LayerKind& kind, const Make& make) {
    return pricing_.known.get({group_, part, phase, kind, sizes_.made_of}, make);
  }
  const StagePrice& price() {
    if (!price_) {
      price_ = cost::make_stage_price(pricing_.context, members_, pricing_.kv_bitwidth,
                                      pricing_.correction);
    }
    return *price_;
  }

  const StepPricing& pricing_;
  const StepSizes& sizes_;
  const std::vector<std::size_t>& members_;
  std::size_t group_;
  std::unique_ptr<StagePrice> price_;
};

StageTables tables_of(const StepPricing& pricing, const std::vector<std::size_t>& members,
                      const cost::LayerCounts& layers, bool has_embedding, bool has_head) {
  const StepSizes& sizes = pricing.sizes;
  GroupPrices group(pricing, members);
  Seconds decode_rows_s(sizes.decode_rows.size(), 0), rows_s(sizes.rows.size(), 0);
  Seconds decode_s(sizes.sequences.size() * sizes.contexts.size(), 0), mixed_s = decode_s;
  Seconds chunks_s(sizes.tokens.size() * sizes.chunk_contexts.size(), 0);
  Seconds shared_rows_s(rows_s.size(), 0);
  for (const auto& [kind, number] : layers) {
    const LayerPrices prices = group.layer(kind);
    const auto times = static_cast<double>(number);
    add_times(decode_rows_s, prices.decode_rows_s, times);
    add_times(rows_s, prices.rows_s, times);
    if (prices.shared_rows_s != nullptr) {
      add_times(rows_s, *prices.shared_rows_s, -times);
      add_times(shared_rows_s, *prices.shared_rows_s, times);
    }
    add_times(decode_s, prices.decode_s, times);
    add_times(mixed_s, prices.mixed_s, times);
    add_times(chunks_s, prices.chunks_s, times);
  }
  StageTables tables;
  tables.num_parts = group.num_parts();
  if (tables.num_parts > 1) {
    for (double& seconds : rows_s) seconds = std::max(0.0, seconds);
    tables.shared_rows = TickTable(sizes.rows, shared_rows_s);
  }
  if (has_embedding) {
    add_times(decode_rows_s, group.embedding(Phase::decode, sizes.decode_rows), 1);
    add_times(rows_s, group.embedding(Phase::prefill, sizes.rows), 1);
  }
  if (has_head) tables.head = TickTable(sizes.sampled, group.head());
  tables.decode_rows = TickTable(sizes.decode_rows, decode_rows_s);
  tables.rows = TickTable(sizes.rows, rows_s);
  tables.decode = DecodeTable({sizes.sequences, sizes.contexts, std::move(decode_s)});
  tables.mixed = DecodeTable({sizes.sequences, sizes.contexts, std::move(mixed_s)});
  tables.chunks = ChunkTable({sizes.tokens, sizes.chunk_contexts, std::move(chunks_s)});
  return tables;
}

}  // namespace

StepSizes::StepSizes(const serving::EngineOptions& engine, const cost::PricingContext& context) {
  const std::int64_t longest = std::max<std::int64_t>(
      1, engine.max_model_len > 0 ? engine.max_model_len : context.model.max_context_tokens);
  const std::int64_t seats = std::max<std::int64_t>(1, engine.max_num_seqs);
  const std::int64_t budget = std::max<std::int64_t>(1, engine.max_num_batched_tokens);
  const std::int64_t verified = 1 + (engine.speculative ? engine.speculative->num_tokens : 0);
  made_of = {seats, verified, budget, longest};
  graph_sizes = cost::captured_rows(context.kernel_set, budget, seats, verified);
  decode_rows = row_knots(graph_sizes, seats * verified, graph_sizes);
  // Without a token budget a step has the prompts of all seats.
  rows = row_knots(graph_sizes, std::max(budget, longest), {budget});
  sampled = decode_rows;
  sequences = half_octaves(seats);
  contexts = context_knots(context.model, kFirstContext, 2, longest);
  tokens = half_octaves(std::min(budget, longest));
  if (tokens.back() < longest) tokens.push_back(longest);
  chunk_contexts = context_knots(context.model, kFirstChunkContext, 4, longest);
}

StageTables tables_of(const StepPricing& pricing, const cost::Stage& stage) {
  return tables_of(pricing, stage.members, stage.layers, is_first(stage.place),
                   cost::holds_lm_head(stage.place, pricing.context.memory));
}

StageTables draft_tables_of(const StepPricing& pricing, const cost::Stage& stage) {
  const cost::LayerKind kind = stage.layers.empty()
                                   ? cost::LayerKind{pricing.context.model.layer_class.back(), 16}
                                   : stage.layers.rbegin()->first;
  return tables_of(pricing, stage.members, {{kind, 1}}, false, true);
}

}  // namespace tessera::solver
