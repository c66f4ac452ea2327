#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/weights/linears.h"

// What is asked of a tensor or a matrix lies in it. Sums of what a caller gives may overflow, so
// none are made.
namespace tessera::weights {

/// @throws Error{out_of_range} unless the tensor `name` of `count` elements has `wanted` from
/// `first` on
void check_elements(const std::string& name, std::int64_t first, std::int64_t wanted,
                    std::int64_t count);

/// @throws Error{internal} unless the matrix has these rows and there is room for `per_row` values
/// of each
void check_rows(const LinearWeight& linear, std::int64_t first, std::int64_t num_rows,
                std::int64_t per_row, std::size_t room);

}  // namespace tessera::weights
