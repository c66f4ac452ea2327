#pragma once

#include <cstdint>
#include <memory>

#include "tessera/serving/engine_options.h"
#include "tessera/serving/step_cost.h"
#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// Prices that stages of several plans have in common: of a layer on a group of devices they are
/// the same whatever the rest of the plan is. For plans of one set of profiles, in which a model, a
/// device, a link kind or a kernel set of one name is the same one. Safe to share among threads.
class StepPrices {
 public:
  StepPrices();
  ~StepPrices();

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

struct StepCostOptions {
  /// Of the model that drafts, for speculative = { method = "draft_model" }.
  std::shared_ptr<const serving::StepCost> draft = nullptr;
  std::shared_ptr<StepPrices> prices = nullptr;  ///< null: its own
};

/// What a step of continuous batching takes on the pipeline of a plan, one stage per stage.
/// - Products, norms and sums over a tensor-parallel group go by the tokens of the step. A step
///   within the sizes that CUDA graphs are captured for is padded to the next of them, whatever its
///   requests do: vLLM runs mixed steps from piecewise graphs of the same sizes. Larger ones are
///   eager.
/// - Attention of all requests is one call: of decoding ones by their number and the sum of their
///   contexts, of prompts the sum over chunks, which start no kernel of their own. On Ampere and
///   Ada vLLM's kernel decodes slower beside prompts: it reads a context for every query head.
/// - Drafts under verification are rows of the products; attention reads the cache once for all
///   tokens of a request, as beside prompts, and the drafts' own keys and values on top.
/// - The embedding goes by tokens on the first stage, the LM head by sampled rows on the last.
/// - The host's time, of the kernel set by requests, is on the first stage: before the device's, or
///   beside it with HostMode::overlapped.
/// - Drafting comes after the step, on the last stage: num_tokens (draft_base_s +
///   draft_per_sequence_s requests); where both are 0, for mtp and eagle one layer of this model
///   and its head per token, for draft_model the steps of `options.draft`. N-gram look-ups are the
///   host's: 20 us + 2 us per request (assumed).
/// Between stages go hidden states in FP16.
/// Prices are taken from the latency model at a grid of sizes and are straight between; every time
/// is a whole number of ticks, and `decode_line` of a plan with one stage is exact.
/// @throws Error{unsupported} for the plan of an abstract instance or one that offloads, a
/// kv_cache_dtype that is not known, and draft_model without a model; Error{invalid_argument} for a
/// plan that is broken.
std::shared_ptr<const serving::StepCost> make_step_cost(const PipelinePlan& plan,
                                                        const serving::EngineOptions& engine,
                                                        const StepCostOptions& options = {});

/// Bits of a KV cache: those of kv_cache_dtype, with "auto" the plan's.
/// @throws Error{unsupported} for another word, or one that attention does not read on a device.
std::int32_t kv_bitwidth_of(const PipelinePlan& plan, const serving::EngineOptions& engine);

}  // namespace tessera::solver
