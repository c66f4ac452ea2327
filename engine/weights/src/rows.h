#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/weights/linears.h"

namespace tessera::weights {

/// @throws Error{internal} unless the matrix has these rows and there is room for `per_row` values
/// of each
void check_rows(const LinearWeight& linear, std::int64_t first, std::int64_t num_rows,
                std::int64_t per_row, std::size_t room);

}  // namespace tessera::weights
