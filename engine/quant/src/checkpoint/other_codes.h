#pragma once

#include "tessera/quant/stored.h"

// Codes of checkpoints that others than compressed-tensors wrote.
namespace tessera::quant {

/// Of `qweight`, which packs the codes of an output along its inputs (GPTQ; quantization_config
/// says `bits` and `checkpoint_format`) or those of an input along the outputs (AWQ).
/// @throws as read_codes
StoredCodes read_word_codes(const weights::Weights& weights, const weights::LinearWeight& linear,
                            int num_threads);

/// Of an int8 weight with `SCB`, the largest of each row: LLM.int8() of bitsandbytes.
StoredCodes read_row_codes(const weights::Weights& weights, const weights::LinearWeight& linear);

}  // namespace tessera::quant
