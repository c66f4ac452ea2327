#pragma once

#include <cstdint>
#include <span>

#include "tessera/kernels/moments.h"
#include "tessera/weights/linears.h"

namespace tessera::weights {

/// Ranges of every `group_size` columns (0: of the whole row) of rows [first, first + num_rows),
/// shape [num_rows][num_groups(in_features, group_size)]; both ends NaN where a weight is not
/// finite. Read where they lie in the file: numbers by their bits, blocks of ggml by their codes;
/// what is neither (transposed, groups that cut a block) is converted first.
/// @throws as read_linear_rows_f32
void ranges_of_rows(const Weights& weights, const LinearWeight& linear, std::int64_t first,
                    std::int64_t num_rows, std::int64_t group_size, std::span<kernels::Range> out);

}  // namespace tessera::weights
