#include "tessera/quant/scheme.h"

#include <fmt/format.h>

#include "tessera/core/error.h"

namespace tessera::quant {

void check(const Scheme& scheme) {
  if (scheme.bitwidth != 3 && scheme.bitwidth != 4 && scheme.bitwidth != 8) {
    throw Error(
        ErrorCode::out_of_range,
        fmt::format("bitwidth is {}; weights are quantised to 3, 4 or 8 bits", scheme.bitwidth),
        "bitwidth");
  }
  if (scheme.granularity == Granularity::group && scheme.group_size < 1) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("group_size is {}; a group has at least one column", scheme.group_size),
                "group_size");
  }
}

std::int64_t num_groups(const Scheme& scheme, std::int64_t columns) {
  return scheme.granularity == Granularity::group ? kernels::num_groups(columns, scheme.group_size)
                                                  : 1;
}

kernels::QuantFormat format_of(const Scheme& scheme) {
  return {.bitwidth = scheme.bitwidth,
          .symmetric = scheme.symmetric,
          .group_size = scheme.granularity == Granularity::group ? scheme.group_size : 0,
          .scale_type = scheme.scale_type};
}

}  // namespace tessera::quant
