#pragma once

#include "link_ways.h"

namespace tessera::cost::models {

/// NCCL's rings and pairs: the protocol of small messages, where flags travel with the data, and
/// the one of large ones, which reaches more of the link and starts later.
struct NcclWays {
  LinkWay low_latency, simple;

  /// The faster protocol. `link_bytes_per_s`: of one device, one direction.
  double seconds(const OpQuery& query, double link_bytes_per_s) const;
};

}  // namespace tessera::cost::models
