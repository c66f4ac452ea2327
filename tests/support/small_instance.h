#pragma once

#include <memory>

#include "tessera/solver/instance/instance.h"

namespace tessera::solver::instances {

/// Two fast devices "A" (12 GB) and one slow "B" (6 GB), eight equal layers of 1, 2 and 4 GB at 4,
/// 8 and 16 bits, batch 4. Everything can be worked out by hand.
inline Instance small_instance() {
  Instance in;
  in.name = "small";
  in.bitwidths = {4, 8, 16};
  in.groups = {{"A", "n0", 2, 12e9}, {"B", "n1", 1, 6e9}};
  in.layer_class.assign(8, 0);
  in.layer_bytes = {1e9, 2e9, 4e9};
  in.allowed.assign(6, 1);
  in.embedding_bytes[1] = in.embedding_bytes[3] = 0.5e9;
  for (int i = 0; i < 8; ++i) in.omega.insert(in.omega.end(), {0.4, 0.1, 0.0});
  in.batch_size = 4;
  in.output_tokens = 11;
  in.theta = 1;
  const auto costs = [](double scale) {
    auto table = std::make_shared<std::vector<PhaseCosts>>();
    for (int size = 1; size <= 4; ++size) {
      const double t = scale * (1 + size);
      PhaseCosts c;
      c.layer_s = {t, t, 2 * t, 2 * t, 2 * t, 4 * t};
      c.first_s = {scale, scale};
      c.last_s = {2 * scale, 2 * scale};
      c.link_s = {0.1 * scale * size, 0.5 * scale * size, 0.5 * scale * size, 0};
      for (double& bytes : c.activation_bytes) bytes = 1e8 * size;
      table->push_back(c);
    }
    return [table](std::int64_t size) -> const PhaseCosts& {
      return table->at(static_cast<std::size_t>(size - 1));
    };
  };
  in.prefill = costs(0.1);
  in.decode = costs(0.01);
  return in;
}

inline Candidate small_candidate() {
  Candidate c;
  c.order = {0, 0, 1};
  c.first_layer = {0, 3, 6, 8};
  c.bit = {2, 1, 1, 1, 1, 1, 0, 0};
  c.prefill_micro_batch_size = 2;
  c.decode_micro_batch_size = 2;
  return c;
}

}  // namespace tessera::solver::instances
