#pragma once

#include <cstdint>
#include <memory>

#include "tessera/cost/price_cache.h"
#include "tessera/serving/engine_options.h"
#include "tessera/serving/step_cost.h"
#include "tessera/solver/serving/priced_engine.h"

namespace tessera::solver {

struct StepCostOptions {
  /// Of the model that drafts, for speculative = { method = "draft_model" }.
  std::shared_ptr<const serving::StepCost> draft = nullptr;
  std::shared_ptr<cost::PriceCache> prices = nullptr;  ///< null: its own
  cost::Correction correction = {};                    ///< of what stages take
};

/// What a step of continuous batching takes on an engine, stage by stage.
/// - Products, norms and sums over a tensor-parallel group go by the tokens of the step. A step
///   within the sizes that CUDA graphs are captured for is padded to the next of them, whatever its
///   requests do: vLLM runs mixed steps from piecewise graphs of the same sizes. Larger ones are
///   eager.
/// - Attention of all requests is one call: of decoding ones by their number and the sum of their
///   contexts, of prompts the sum over chunks, which start no kernel of their own. On Ampere and
///   Ada vLLM's kernel decodes slower beside prompts: it reads a context for every query head.
/// - Drafts under verification are rows of the products; attention reads the cache once for all
///   tokens of a request, as beside prompts, and the drafts' own keys and values on top.
/// - With data-parallel attention the load is that of all parts of a group: decodes are spread
///   evenly, a prompt goes whole to the part that has the least to compute, experts have the rows
///   of all and wait for the last part. Each part has a host.
/// - The embedding goes by tokens on the first stage, the LM head by sampled rows on the last.
/// - The host's time, of the kernel set by requests, is on the first stage: before the device's, or
///   beside it with HostMode::overlapped.
/// - Drafting comes after the step, on the last stage: num_tokens (draft_base_s +
///   draft_per_sequence_s requests); where both are 0, for mtp and eagle one layer of this model
///   and its head per token, for draft_model the steps of `options.draft`. N-gram look-ups are the
///   host's: 20 us + 2 us per request (assumed).
/// Between stages go hidden states in FP16.
/// Prices are taken from the latency model at a grid of sizes and are straight between; every time
/// is a whole number of ticks, and `decode_line` of an engine with one stage is exact.
/// @throws Error{unsupported} for a kv_cache_dtype that is not known, and draft_model without a
/// model.
std::shared_ptr<const serving::StepCost> make_step_cost(const PricedEngine& priced,
                                                        const serving::EngineOptions& engine,
                                                        const StepCostOptions& options = {});

/// Bits of a KV cache: those of kv_cache_dtype, with "auto" the placed engine's.
/// @throws Error{unsupported} for another word, or one that attention does not read on a device.
std::int32_t kv_bitwidth_of(const PricedEngine& priced, const serving::EngineOptions& engine);

}  // namespace tessera::solver
