#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stage_of_plan.h"
#include "tessera/serving/engine_options.h"
#include "tessera/solver/serving/step_cost.h"
#include "tick_tables.h"

namespace tessera::solver {

/// The sizes that steps of an engine may have, at which a latency model is asked.
struct StepSizes {
  std::string name;              ///< of all that follows, for one kernel set and model
  Knots graph_sizes;             ///< rows that steps are padded to; may be empty
  Knots decode_rows;             ///< of steps that only decode
  Knots rows;                    ///< of others
  Knots sampled;                 ///< rows of the LM head
  Knots sequences, contexts;     ///< decode attention: requests, mean context
  Knots tokens, chunk_contexts;  ///< a prompt's chunk, what is before it

  StepSizes(const serving::EngineOptions& engine, const ServingProblem& serving);

  /// Rows that the products of a step have.
  std::int64_t padded(std::int64_t tokens) const;
};

/// What stages are priced for.
struct StepPricing {
  const ServingProblem& serving;
  std::int32_t kv_bitwidth = 16;
  StepSizes sizes;
  StepPrices& prices;
};

struct StageTables {
  TickTable decode_rows, rows;  ///< products and embedding of steps that only decode, and of others
  TickTable head;               ///< by sampled rows; empty where the LM head is not
  DecodeTable decode;           ///< attention where every request has one token
  DecodeTable mixed;            ///< the same of decodes beside prompts, or with drafts
  ChunkTable chunks;
};

/// @param has_embedding,has_head whether the stage does these besides its layers
StageTables tables_of(const StepPricing& pricing, const std::vector<std::size_t>& members,
                      const std::map<StageOfPlan::Kind, std::int64_t>& layers, bool has_embedding,
                      bool has_head);

}  // namespace tessera::solver
