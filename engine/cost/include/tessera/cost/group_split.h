#pragma once

#include <compare>
#include <cstdint>

#include "tessera/core/record.h"

namespace tessera::cost {

/// How a tensor-parallel group divides a layer where it does not cut every matrix over all of its
/// devices.
struct GroupSplit {
  /// Parts of the group with requests of their own: each holds all that is no expert, cut over its
  /// devices alone, and the cache of its own requests. 1: the group serves every request together.
  std::int64_t attention_data_parallel = 1;
  /// Devices that the experts of a layer are spread over, each expert cut over the devices that
  /// remain. 1: every expert is cut over the whole group.
  std::int64_t expert_parallel = 1;

  bool is_plain() const { return attention_data_parallel == 1 && expert_parallel == 1; }

  friend auto operator<=>(const GroupSplit&, const GroupSplit&) = default;
};

}  // namespace tessera::cost

namespace tessera {

template <>
struct Fields<cost::GroupSplit> {
  using S = cost::GroupSplit;
  static constexpr auto list = std::tuple{
      field<&S::attention_data_parallel>({.name = "attention_data_parallel",
                                          .doc = "Parts of a group with requests of their own",
                                          .min = 1,
                                          .max = 64}),
      field<&S::expert_parallel>({.name = "expert_parallel",
                                  .doc = "Devices that experts are spread over",
                                  .min = 1,
                                  .max = 64})};
};

}  // namespace tessera
