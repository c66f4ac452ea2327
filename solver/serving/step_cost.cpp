#include "tessera/solver/serving/step_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "stage_tables.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/cost/collectives.h"
#include "tessera/cost/cuda_graphs.h"

namespace tessera::solver {
namespace {

using serving::DecodeLine;
using serving::DraftMethod;
using serving::EngineOptions;
using serving::HostMode;
using serving::StepLoad;
using serving::Ticks;

// Assumed: a search of each request's tokens for the last few of them, on the host.
constexpr double kNgramStep_s = 20e-6, kNgramSequence_s = 2e-6;

/// A base and a part per request.
struct PerRequest {
  Ticks base = 0, each = 0;

  PerRequest() = default;
  PerRequest(double base_s, double each_s, const char* path)
      : base(serving::to_ticks(base_s, path)), each(serving::to_ticks(each_s, path)) {}
  Ticks at(std::int64_t requests) const { return base + each * requests; }
};

/// One token for each of so many requests, whose contexts have this sum.
StepLoad decode_load(std::int64_t requests, std::int64_t context_tokens) {
  StepLoad load;
  load.num_requests = load.tokens = load.num_sampled = requests;
  load.num_decodes = load.decode_tokens = requests;
  load.context_tokens = load.decode_context_tokens = context_tokens;
  return load;
}

Ticks sum_over_stages(const serving::StepCost& cost, const StepLoad& load) {
  Ticks sum = 0;
  for (std::size_t k = 0; k < cost.num_stages(); ++k) {
    sum += cost.stage(load, k);
    if (k + 1 < cost.num_stages()) sum += cost.hop(load, k);
  }
  return sum;
}

/// Prompts on a group whose parts have requests of their own: each goes to the part with the least
/// to compute, decodes are spread evenly, and experts, which have the rows of all parts, wait for
/// the last of these.
Ticks prompts_on_parts(const StageTables& tables, const StepLoad& load) {
  const auto parts = static_cast<std::size_t>(tables.num_parts);
  const std::int64_t decodes = ceil_div(load.decode_tokens, tables.num_parts);
  std::vector<std::int64_t> rows(parts, decodes);
  std::vector<Ticks> attention(parts, 0);
  for (const serving::PromptChunk& chunk : load.chunks) {
    const auto least = std::min_element(rows.begin(), rows.end()) - rows.begin();
    rows[static_cast<std::size_t>(least)] += chunk.tokens;
    attention[static_cast<std::size_t>(least)] += tables.chunks.at(chunk);
  }
  Ticks last = 0;
  for (std::size_t k = 0; k < parts; ++k) {
    last = std::max(last, tables.rows.at(std::max<std::int64_t>(1, rows[k])) + attention[k]);
  }
  return last + tables.shared_rows.at(load.tokens);
}

/// What a stage computes in a step, without host and drafts.
Ticks device_ticks(const StageTables& tables, const StepSizes& sizes, const StepLoad& load) {
  if (load.tokens <= 0) return 0;
  const bool on_parts = tables.num_parts > 1 && !load.chunks.empty();
  // What parts of a group have each is padded in the prices.
  const std::int64_t rows =
      tables.num_parts > 1 ? load.tokens : cost::padded_to(sizes.graph_sizes, load.tokens);
  Ticks sum = on_parts              ? prompts_on_parts(tables, load)
              : load.chunks.empty() ? tables.decode_rows.at(rows)
                                    : tables.rows.at(rows);
  if (load.num_sampled > 0) sum += tables.head.at(load.num_sampled);
  // Attention reads the cache once for all of a request's rows; drafts have written more to it.
  const std::int64_t drafts = load.decode_tokens - load.num_decodes;
  const DecodeTable& decodes = load.chunks.empty() && drafts == 0 ? tables.decode : tables.mixed;
  sum += decodes.at(load.num_decodes, load.decode_context_tokens + drafts);
  if (load.num_decodes == 0) sum += tables.chunks.start();
  if (on_parts) return sum;
  for (const serving::PromptChunk& chunk : load.chunks) sum += tables.chunks.at(chunk);
  return sum;
}

/// What tokens are drafted by, after the step.
struct Drafting {
  std::int64_t num_tokens = 0;  ///< 0: nothing is drafted, or the host looks it up
  std::optional<PerRequest> given;
  std::optional<StageTables> layer;  ///< of this model, with its head
  std::shared_ptr<const serving::StepCost> model;

  Ticks ticks(const StepLoad& load, const StepSizes& sizes) const {
    if (num_tokens == 0 || load.num_drafted == 0 || load.num_requests == 0) return 0;
    if (given) return num_tokens * given->at(load.num_drafted);
    const std::int64_t context =
        (load.context_tokens + load.tokens) * load.num_drafted / load.num_requests;
    const StepLoad each = decode_load(load.num_drafted, context);
    return num_tokens * (model ? sum_over_stages(*model, each) : device_ticks(*layer, sizes, each));
  }
};

class TabledStepCost final : public serving::StepCost {
 public:
  TabledStepCost(StepSizes sizes, std::vector<StageTables> stages, std::vector<TickTable> hops,
                 PerRequest host, Ticks host_prompt, PerRequest lookup, Drafting drafting,
                 HostMode mode)
      : sizes_(std::move(sizes)),
        stages_(std::move(stages)),
        hops_(std::move(hops)),
        host_(host),
        host_prompt_(host_prompt),
        lookup_(lookup),
        drafting_(std::move(drafting)),
        mode_(mode) {}

  std::size_t num_stages() const override { return stages_.size(); }

  Ticks stage(const StepLoad& load, std::size_t stage) const override {
    Ticks device = device_ticks(stages_[stage], sizes_, load);
    if (stage + 1 == stages_.size()) device += drafting_.ticks(load, sizes_);
    if (stage > 0) return device;
    Ticks host = host_.at(of_part(load.num_requests)) + (load.chunks.empty() ? 0 : host_prompt_);
    if (load.num_drafted > 0) host += lookup_.at(load.num_drafted);
    return std::max<Ticks>(1, mode_ == HostMode::serial ? host + device : std::max(host, device));
  }

  Ticks hop(const StepLoad& load, std::size_t stage) const override {
    return stage < hops_.size() ? hops_[stage].at(load.tokens) : 0;
  }

  std::optional<DecodeLine> decode_line(std::int64_t num_requests,
                                        std::int64_t context_tokens) const override {
    if (stages_.size() > 1 || num_requests <= 0) return std::nullopt;
    const StageTables& tables = stages_.front();
    const DecodeLine attention = tables.decode.line(num_requests, context_tokens);
    const Ticks rest =
        device_ticks(tables, sizes_, decode_load(num_requests, context_tokens)) - attention.ticks;
    const Ticks host = host_.at(of_part(num_requests)), device = rest + attention.ticks;
    if (mode_ == HostMode::serial) {
      return DecodeLine{std::max<Ticks>(1, host + device), attention.ticks_per_token,
                        attention.last_context_tokens};
    }
    if (device >= host) {
      return DecodeLine{std::max<Ticks>(1, device), attention.ticks_per_token,
                        attention.last_context_tokens};
    }
    // The host is slower until attention has caught up.
    DecodeLine flat{std::max<Ticks>(1, host), 0, attention.last_context_tokens};
    if (attention.ticks_per_token > 0) {
      const std::int64_t more = (host - device) / attention.ticks_per_token;
      flat.last_context_tokens = std::min(flat.last_context_tokens, context_tokens + more);
    }
    return flat;
  }

 private:
  /// Parts of a group have hosts of their own.
  std::int64_t of_part(std::int64_t requests) const {
    return ceil_div(requests, stages_.front().num_parts);
  }

  StepSizes sizes_;
  std::vector<StageTables> stages_;
  std::vector<TickTable> hops_;
  PerRequest host_;
  Ticks host_prompt_;
  PerRequest lookup_;
  Drafting drafting_;
  HostMode mode_;
};

/// Hidden states of the step's tokens, from each stage to the next.
std::vector<TickTable> hops_of(const StepPricing& pricing, const std::vector<cost::Stage>& stages) {
  std::vector<TickTable> hops;
  for (std::size_t k = 0; k + 1 < stages.size(); ++k) {
    const auto price = cost::make_stage_price(pricing.context, stages[k].members,
                                              pricing.kv_bitwidth, pricing.correction);
    const Link link =
        cost::slowest_link(pricing.context.cluster, stages[k].members, stages[k + 1].members);
    std::vector<double> seconds;
    for (const std::int64_t rows : pricing.sizes.rows) {
      seconds.push_back(price->hop_s(static_cast<double>(rows), link));
    }
    hops.emplace_back(pricing.sizes.rows, seconds);
  }
  return hops;
}

Drafting drafting_of(const StepPricing& pricing, const EngineOptions& engine,
                     const cost::Stage& last, const StepCostOptions& options) {
  Drafting drafting;
  if (!engine.speculative) return drafting;
  const serving::Speculation& speculation = *engine.speculative;
  const bool given = speculation.draft_base_s > 0 || speculation.draft_per_sequence_s > 0;
  if (!given && speculation.method == DraftMethod::ngram) return drafting;
  drafting.num_tokens = speculation.num_tokens;
  if (given) {
    drafting.given = PerRequest(speculation.draft_base_s, speculation.draft_per_sequence_s,
                                "engine.speculative");
  } else if (speculation.method == DraftMethod::draft_model) {
    if (!options.draft) {
      refuse(ErrorCode::unsupported, "engine.speculative",
             "method draft_model needs the draft model, or what it takes: draft_base_s, "
             "draft_per_sequence_s");
    }
    drafting.model = options.draft;
  } else {
    drafting.layer = draft_tables_of(pricing, last);
  }
  return drafting;
}

/// What a step tells the processes of a group of each sequence hides behind the step before where
/// that is decided ahead. Of several stages one decides while the others compute.
double host_sequence_s(const PricedEngine& priced, const EngineOptions& engine) {
  const cost::KernelSet& kernels = priced.context.kernel_set;
  const bool is_serial = priced.stages.size() == 1 && priced.stages.front().members.size() > 1 &&
                         !engine.async_scheduling.value_or(kernels.async_scheduling);
  return is_serial ? kernels.serial_host_sequence_s.value_or(kernels.host_sequence_s)
                   : kernels.host_sequence_s;
}

}  // namespace

std::int32_t kv_bitwidth_of(const PricedEngine& priced, const EngineOptions& engine) {
  const std::string& dtype = engine.kv_cache_dtype;
  std::int32_t bitwidth = 16;
  if (dtype == "auto") {
    bitwidth = priced.kv_bitwidth;
  } else if (dtype.starts_with("fp8") || dtype == "int8") {
    bitwidth = 8;
  } else if (dtype != "bfloat16" && dtype != "float16") {
    refuse(ErrorCode::unsupported, "engine.kv_cache_dtype",
           quote(dtype) + " is not known; auto, bfloat16, float16, fp8 and int8 are");
  }
  const cost::KernelSet& kernels = priced.context.kernel_set;
  for (const cost::Stage& stage : priced.stages) {
    for (const std::size_t member : stage.members) {
      const Device& device = priced.context.device(member);
      if (kernels.reads_kv(device, bitwidth)) continue;
      refuse(ErrorCode::unsupported, dtype == "auto" ? "kv_bitwidth" : "engine.kv_cache_dtype",
             fmt::format("no attention of the kernel set {} reads a KV cache of {} bits on {} "
                         "(compute capability {})",
                         kernels.name, bitwidth, device.name, device.compute_capability));
    }
  }
  return bitwidth;
}

std::shared_ptr<const serving::StepCost> make_step_cost(const PricedEngine& priced,
                                                        const EngineOptions& engine,
                                                        const StepCostOptions& options) {
  const cost::PricingContext& context = priced.context;
  cost::PriceCache own;
  const StepPricing pricing{context, kv_bitwidth_of(priced, engine), options.correction,
                            StepSizes(engine, context), options.prices ? *options.prices : own};
  std::vector<StageTables> tables;
  for (const cost::Stage& stage : priced.stages) tables.push_back(tables_of(pricing, stage));
  PerRequest lookup;
  if (engine.speculative && engine.speculative->method == DraftMethod::ngram &&
      engine.speculative->draft_base_s == 0 && engine.speculative->draft_per_sequence_s == 0) {
    lookup = PerRequest(kNgramStep_s, kNgramSequence_s, "engine.speculative");
  }
  Drafting drafting = drafting_of(pricing, engine, priced.stages.back(), options);
  const cost::KernelSet& kernels = context.kernel_set;
  const double scale = options.correction.scale;
  const PerRequest host(scale * kernels.host_step_s, scale * host_sequence_s(priced, engine),
                        "kernel_set");
  const Ticks host_prompt =
      serving::to_ticks(scale * kernels.host_prompt_s, "host_prompt_s of the kernel set");
  return std::make_shared<TabledStepCost>(pricing.sizes, std::move(tables),
                                          hops_of(pricing, priced.stages), host, host_prompt,
                                          lookup, std::move(drafting), engine.host);
}

}  // namespace tessera::solver
