#pragma once

#include "factor.h"
#include "tessera/quant/quantise.h"

namespace tessera::quant {

/// GPTQ (Frantar et al., ICLR 2023, algorithm 1) or, where that has the larger output error,
/// round-to-nearest. The statistics have a Hessian of the right size.
Quantised gptq(MatrixView weight, const Scheme& scheme, const LinearStatistics& inputs,
               int num_threads);

}  // namespace tessera::quant
