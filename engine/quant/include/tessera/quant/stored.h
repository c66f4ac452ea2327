#pragma once

#include "tessera/quant/quantise.h"
#include "tessera/weights/linears.h"

namespace tessera::quant {

/// One matrix of a quantised checkpoint, with the very codes, scales and zero points of the file.
struct StoredCodes {
  Quantised codes;
  bool int8_activations = false;  ///< W8A8: a scale per output row, activations rounded per token
};

/// Reads what `quantise_checkpoint` and llm-compressor write in the layout of compressed-tensors:
/// `pack-quantized` (3, 4 or 8 bits, 16-bit activations) and `int-quantized` (W8A8, activations per
/// token at run time), with quantization_config in config.json; GPTQ of 3, 4 or 8 bits
/// (`group_index` where desc_act has put columns into groups out of their order), AWQ of 4, and
/// bitsandbytes of 8 (W8A8). Of a fused matrix the rows of this linear. A symmetric scheme may use
/// code 0, which our own quantisers leave out.
/// @param linear with `codes`, of linears_of(..., Readable::quantised)
/// @throws Error{unsupported} naming what is in the checkpoint and not understood: other methods
/// and formats, types that are no integers, g_idx, activations with stored scales;
/// Error{not_found, invalid_argument} for a tensor that is missing, or whose type, shape or numbers
/// contradict the others; Error{io} where the file has changed
StoredCodes read_codes(const weights::Weights& weights, const weights::LinearWeight& linear,
                       int num_threads = 0);

}  // namespace tessera::quant
