#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/placement.h"
#include "tessera/core/provenance.h"
#include "tessera/cost/stage_price.h"
#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// Tokens of a prompt, and of an output, where nobody says: 1024, or half the model's context.
std::int64_t usual_tokens(const ModelShape& model);

/// An engine as prices see it: its stages on devices of a context, which it borrows.
struct PricedEngine {
  const cost::PricingContext& context;
  std::vector<cost::Stage> stages;
  std::int32_t kv_bitwidth = 16;

  /// Of a placement on the context's cluster.
  /// @throws Error{invalid_argument} for stages whose devices the cluster does not have, or that do
  /// not hold the model's layers in order.
  PricedEngine(const cost::PricingContext& pricing, const Placement& placement,
               const PlacedEngine& engine);
  /// Of the plan of a batch problem.
  /// @throws Error{unsupported} for the plan of an abstract instance or one that offloads,
  /// Error{invalid_argument} for one whose stages are not on devices of its problem, or do not hold
  /// its model's layers in order.
  PricedEngine(const PipelinePlan& plan);  // NOLINT(google-explicit-constructor): a plan is one

  /// "4xL4"
  std::string stage_name(std::size_t stage) const;
  /// List price of its devices (USD/h); one that has none costs nothing.
  double usd_per_h() const;
  /// Where the times of its layers come from, of a prompt and a decode step of usual lengths: the
  /// weakest of them.
  Provenance provenance() const;
};

}  // namespace tessera::solver
