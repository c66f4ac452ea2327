#pragma once

#include <cstdint>

// The points that IQ1, IQ2 and IQ3 blocks choose from: a code of the file is the place of a point
// of eight (IQ1, IQ2) or four (IQ3) columns. They are facts of the format, chosen by its author
// from what models hold, so no rule makes them. Source: iq*_grid in ggml-common.h of llama.cpp.
//
// An entry has its columns from the lowest bits up, 2 bits each (IQ1, IQ2) or 3 (IQ3), which say
// which of the type's values a column has.
namespace tessera::kernels::cpu {

extern const std::uint16_t kGridIq2Xxs[256], kGridIq2Xs[512], kGridIq2S[1024], kGridIq3Xxs[256],
    kGridIq3S[512], kGridIq1[2048];

}  // namespace tessera::kernels::cpu
