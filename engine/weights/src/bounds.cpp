#include "bounds.h"

#include <fmt/format.h>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::weights {

void check_elements(const std::string& name, std::int64_t first, std::int64_t wanted,
                    std::int64_t count) {
  if (first >= 0 && wanted <= count && first <= count - wanted) return;
  throw Error(ErrorCode::out_of_range,
              fmt::format("tensor {}: {} elements from {} on, of {}", quote(name, 100), wanted,
                          first, count),
              name);
}

void check_rows(const LinearWeight& linear, std::int64_t first, std::int64_t num_rows,
                std::int64_t per_row, std::size_t room) {
  if (first >= 0 && num_rows >= 0 && first <= linear.num_rows - num_rows &&
      room == static_cast<std::size_t>(num_rows * per_row)) {
    return;
  }
  throw Error(ErrorCode::internal,
              fmt::format("{}: {} rows from {} on, of {}, into {} numbers", describe(linear),
                          num_rows, first, linear.num_rows, room));
}

}  // namespace tessera::weights
