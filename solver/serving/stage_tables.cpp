#include "stage_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tessera/core/device.h"
#include "tessera/core/units.h"
#include "tessera/cost/latency.h"
#include "tessera/cost/tensor_parallel.h"
#include "tessera/solver/problem/serving_latency.h"

namespace tessera::solver {

/// Of one layer of a kind, in seconds.
struct LayerPrices {
  std::vector<double> decode_rows_s, rows_s;  ///< [knot] without attention
  Surface decode, mixed, chunks;              ///< attention
};

/// Of the ends of a pipeline, in seconds.
struct EndPrices {
  std::vector<double> decode_rows_s, rows_s;  ///< [knot] of the embedding
  std::vector<double> head_s;                 ///< [knot]
};

struct StepPrices::State {
  std::mutex mutex;
  std::map<std::string, LayerPrices> layers;  ///< entries stay where they are
  std::map<std::string, EndPrices> ends;
};

StepPrices::StepPrices() : state_(std::make_unique<State>()) {}
StepPrices::~StepPrices() = default;

namespace {

using cost::LayerWork;
using cost::Phase;

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
Knots context_knots(const ServingProblem& serving, std::int64_t first, std::int64_t ratio,
                    std::int64_t most) {
  Knots knots = {0, most};
  for (std::int64_t at = first; at < most; at *= ratio) knots.push_back(at);
  for (const LayerShape& layer : serving.model.layer_classes) {
    const std::int64_t seen = layer.attention_window.value_or(0) - 1;
    if (seen > 0 && seen < most) knots.push_back(seen);
  }
  sort_out(knots);
  return knots;
}

std::vector<double> products_s(const cost::LatencyModel& model, const LayerShape& layer,
                               std::int32_t bitwidth, std::int32_t kv_bitwidth, Phase phase,
                               const Knots& rows) {
  std::vector<double> seconds;
  for (const std::int64_t size : rows) {
    const auto count = static_cast<double>(size);
    const LayerWork work =
        phase == Phase::decode ? LayerWork{phase, count, 1, 0} : LayerWork{phase, 1, count, 0};
    const double whole = model.layer_s(layer, bitwidth, kv_bitwidth, work);
    seconds.push_back(std::max(0.0, whole - model.attention_s(layer, bitwidth, kv_bitwidth, work)));
  }
  return seconds;
}

Surface attention_s(const Knots& rows, const Knots& columns,
                    const std::function<double(double row, double column)>& seconds) {
  Surface surface{rows, columns, {}};
  for (const std::int64_t row : rows) {
    for (const std::int64_t column : columns) {
      surface.seconds.push_back(seconds(static_cast<double>(row), static_cast<double>(column)));
    }
  }
  return surface;
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
Surface by_head(const Surface& decode, const std::vector<double>& one_token_s,
                const LayerShape& member, const Device& device, bool grouped) {
  const auto heads = static_cast<double>(member.num_heads);
  const double group = grouped ? heads / static_cast<double>(member.num_kv_heads) : 1;
  const double multiprocessors = multiprocessors_of(device);
  Surface surface = decode;
  for (std::size_t i = 0; i < surface.seconds.size(); ++i) {
    const auto requests = static_cast<double>(surface.rows[i / surface.columns.size()]);
    const double waves = std::max(1.0, requests * heads / multiprocessors);
    const double reads = std::clamp(group * requests / multiprocessors, 1.0, std::max(1.0, group));
    surface.seconds[i] =
        std::max(one_token_s[i % surface.columns.size()] * waves, decode.seconds[i] * reads);
  }
  return surface;
}

/// What a layer is priced on.
struct Place {
  const cost::LatencyModel& model;
  const cost::KernelSet& kernels;
  const Device& device;
  std::int64_t degree = 1;
};

LayerPrices price_layer(const Place& place, const LayerShape& layer, std::int32_t bitwidth,
                        std::int32_t kv_bitwidth, const StepSizes& sizes) {
  const cost::LatencyModel& model = place.model;
  const auto attention = [&](const LayerWork& work) {
    return model.attention_s(layer, bitwidth, kv_bitwidth, work);
  };
  LayerPrices prices;
  prices.decode_rows_s =
      products_s(model, layer, bitwidth, kv_bitwidth, Phase::decode, sizes.decode_rows);
  prices.rows_s = products_s(model, layer, bitwidth, kv_bitwidth, Phase::prefill, sizes.rows);
  prices.decode = attention_s(sizes.sequences, sizes.contexts, [&](double n, double context) {
    return attention({Phase::decode, n, 1, context});
  });
  prices.chunks = attention_s(sizes.tokens, sizes.chunk_contexts, [&](double n, double context) {
    return attention({Phase::prefill, 1, n, context});
  });
  if (layer.latent_width || !attends_by_head(place.kernels, place.device)) {
    prices.mixed = prices.decode;
    return prices;
  }
  const Surface one_token = attention_s({1}, sizes.contexts, [&](double n, double context) {
    return attention({Phase::prefill, n, 1, context});
  });
  prices.mixed = by_head(prices.decode, one_token.seconds, cost::shard(layer, place.degree),
                         place.device, !place.kernels.reads_kv_per_query_head(layer, place.device));
  return prices;
}

EndPrices price_ends(const cost::LatencyModel& model, const ModelShape& shape,
                     const StepSizes& sizes) {
  const auto each = [](const Knots& knots, const std::function<double(double)>& seconds) {
    std::vector<double> result;
    for (const std::int64_t size : knots) result.push_back(seconds(static_cast<double>(size)));
    return result;
  };
  const auto embedding = [&](double rows) { return model.embedding_s(shape, rows); };
  return {each(sizes.decode_rows, embedding), each(sizes.rows, embedding),
          each(sizes.sampled, [&](double rows) { return model.lm_head_s(shape, rows); })};
}

void add_times(std::vector<double>& sum, const std::vector<double>& seconds, double times) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += times * seconds[i];
}

/// Prices on one group of devices, each looked up or made.
class GroupPrices {
 public:
  GroupPrices(const StepPricing& pricing, const std::vector<std::size_t>& members)
      : pricing_(pricing), members_(members), state_(pricing.prices.state()) {
    const ServingProblem& serving = pricing.serving;
    const Device& device = serving.cluster.devices[members.front()].device;
    const Link link = slowest_link(serving.cluster, members, members);
    name_ = fmt::format("{} {}x{} {} {:.17g} {:.17g} {} {}, {}", serving.model.name, members.size(),
                        device.name, link.kind, link.bytes_per_s, link.latency_s,
                        serving.kernel_set.name, serving.profiles.size(), pricing.sizes.name);
  }

  const LayerPrices& layer(const StageOfPlan::Kind& kind) {
    const std::string name = fmt::format("{}, layer {} {} {}", name_, kind.layer_class,
                                         kind.bitwidth, pricing_.kv_bitwidth);
    const std::lock_guard lock(state_.mutex);
    const auto known = state_.layers.find(name);
    if (known != state_.layers.end()) return known->second;
    const auto& classes = pricing_.serving.model.layer_classes;
    const LayerShape& shape = classes[static_cast<std::size_t>(kind.layer_class)];
    return state_.layers
        .emplace(name,
                 price_layer(place(), shape, kind.bitwidth, pricing_.kv_bitwidth, pricing_.sizes))
        .first->second;
  }

  const EndPrices& ends() {
    const std::lock_guard lock(state_.mutex);
    const auto known = state_.ends.find(name_);
    if (known != state_.ends.end()) return known->second;
    return state_.ends.emplace(name_, price_ends(model(), pricing_.serving.model, pricing_.sizes))
        .first->second;
  }

 private:
  Place place() {
    const ServingProblem& serving = pricing_.serving;
    return {model(), serving.kernel_set, serving.cluster.devices[members_.front()].device,
            static_cast<std::int64_t>(members_.size())};
  }
  const cost::LatencyModel& model() {
    if (!model_) model_ = latency_model_of(pricing_.serving, members_);
    return *model_;
  }

  const StepPricing& pricing_;
  const std::vector<std::size_t>& members_;
  StepPrices::State& state_;
  std::string name_;
  std::unique_ptr<cost::LatencyModel> model_;
};

}  // namespace

StepSizes::StepSizes(const serving::EngineOptions& engine, const ServingProblem& serving) {
  const std::int64_t context = longest_context(serving.model, engine.max_model_len);
  const std::int64_t seats = std::max<std::int64_t>(1, engine.max_num_seqs);
  const std::int64_t budget = std::max<std::int64_t>(1, engine.max_num_batched_tokens);
  const std::int64_t verified = 1 + (engine.speculative ? engine.speculative->num_tokens : 0);
  const std::int64_t most_decoded = seats * verified;
  name = fmt::format("{} {} {} {}", seats, verified, budget, context);
  // vLLM captures no more than this, and with drafts multiples of a request's rows
  // (vllm/config/vllm.py).
  const std::int64_t most_captured = std::min(budget, 2 * most_decoded);
  for (const std::int32_t size : serving.kernel_set.graph_batch_sizes) {
    const std::int64_t captured = ceil_div(std::int64_t{size}, verified) * verified;
    if (captured > most_captured) break;
    if (graph_sizes.empty() || captured > graph_sizes.back()) graph_sizes.push_back(captured);
  }
  decode_rows = row_knots(graph_sizes, most_decoded, graph_sizes);
  // Without a token budget a step has the prompts of all seats.
  rows = row_knots(graph_sizes, std::max(budget, context), {budget});
  sampled = decode_rows;
  sequences = half_octaves(seats);
  contexts = context_knots(serving, kFirstContext, 2, context);
  tokens = half_octaves(std::min(budget, context));
  if (tokens.back() < context) tokens.push_back(context);
  chunk_contexts = context_knots(serving, kFirstChunkContext, 4, context);
}

std::int64_t StepSizes::padded(std::int64_t tokens_of_step) const {
  const auto at = std::lower_bound(graph_sizes.begin(), graph_sizes.end(), tokens_of_step);
  return at == graph_sizes.end() ? tokens_of_step : *at;
}

StageTables tables_of(const StepPricing& pricing, const std::vector<std::size_t>& members,
                      const std::map<StageOfPlan::Kind, std::int64_t>& layers, bool has_embedding,
                      bool has_head) {
  const StepSizes& sizes = pricing.sizes;
  GroupPrices group(pricing, members);
  std::vector<double> decode_rows_s(sizes.decode_rows.size(), 0), rows_s(sizes.rows.size(), 0);
  Surface decode, mixed, chunks;
  for (const auto& [kind, number] : layers) {
    const LayerPrices& prices = group.layer(kind);
    const auto times = static_cast<double>(number);
    add_times(decode_rows_s, prices.decode_rows_s, times);
    add_times(rows_s, prices.rows_s, times);
    decode.add(prices.decode, times);
    mixed.add(prices.mixed, times);
    chunks.add(prices.chunks, times);
  }
  StageTables tables;
  if (has_embedding) {
    add_times(decode_rows_s, group.ends().decode_rows_s, 1);
    add_times(rows_s, group.ends().rows_s, 1);
  }
  if (has_head) tables.head = TickTable(sizes.sampled, group.ends().head_s);
  tables.decode_rows = TickTable(sizes.decode_rows, decode_rows_s);
  tables.rows = TickTable(sizes.rows, rows_s);
  tables.decode = DecodeTable(decode);
  tables.mixed = DecodeTable(mixed);
  tables.chunks = ChunkTable(chunks);
  return tables;
}

}  // namespace tessera::solver
