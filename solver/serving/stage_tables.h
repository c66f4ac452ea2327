#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tessera/cost/price_cache.h"
#include "tessera/serving/engine_options.h"
#include "tick_tables.h"

namespace tessera::solver {

/// The sizes that steps of an engine may have, at which a latency model is asked.
struct StepSizes {
  std::array<std::int64_t, 4> made_of;  ///< says all that follows, of one kernel set and model
  Knots graph_sizes;                    ///< rows that steps are padded to; may be empty
  Knots decode_rows;                    ///< of steps that only decode
  Knots rows;                           ///< of others
  Knots sampled;                        ///< rows of the LM head
  Knots sequences, contexts;            ///< decode attention: requests, mean context
  Knots tokens, chunk_contexts;         ///< a prompt's chunk, what is before it

  StepSizes(const serving::EngineOptions& engine, const cost::PricingContext& context);
};

/// What stages are priced for.
struct StepPricing {
  const cost::PricingContext& context;
  std::int32_t kv_bitwidth = 16;
  cost::Correction correction;
  StepSizes sizes;
  cost::PriceCache& known;
};

struct StageTables {
  /// Products and embedding of steps that only decode, and of others: these of the rows of a part
  /// of the group.
  TickTable decode_rows, rows;
  std::int64_t num_parts = 1;  ///< of data-parallel attention
  TickTable shared_rows;       ///< experts, where there are parts: by the rows of all of them
  TickTable head;              ///< by sampled rows; empty where the LM head is not
  DecodeTable decode;          ///< attention where every request has one token
  DecodeTable mixed;           ///< the same of decodes beside prompts, or with drafts
  ChunkTable chunks;
};

/// Of the layers of a stage, and of the ends of the pipeline that it has by its place.
StageTables tables_of(const StepPricing& pricing, const cost::Stage& stage);
/// Of one layer like the stage's last and the LM head, which draft a token there.
StageTables draft_tables_of(const StepPricing& pricing, const cost::Stage& stage);

}  // namespace tessera::solver
