#pragma once

#include <Eigen/Core>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "attention_terms.h"
#include "tessera/core/json_fwd.h"
#include "tessera/cost/op.h"

namespace tessera::cost::models {

/// Kernels are compiled per head size, and other ones serve a window.
struct AttentionVariant {
  double head_dim = 128;
  bool windowed = false;
  double tile = 128;     ///< prefill
  GroupedShape grouped;  ///< decode
  Eigen::VectorXd prefill, per_head, by_group;
  Eigen::VectorXd correction;  ///< [num_attention_features(phase)] of what the terms leave over, or
                               ///< empty: nothing
};

double attention_s(const AttentionDevice& device, Phase phase, const AttentionVariant& variant,
                   const OpQuery& query);

/// Attention of one phase and dtype on one device: the terms of its kernels, times a correction
/// that is made non-decreasing in batch size and length over their knots, and between knots runs
/// straight in the logarithms. Beyond the knots, and in the context before a prompt, the terms
/// alone say how time grows. Safe to ask from several threads.
class AttentionOperator final : public OpModel {
 public:
  AttentionOperator(const Device& device, std::string dtype, Phase phase,
                    std::vector<AttentionVariant> variants);

  double seconds(const OpQuery& query) const override;
  Json coefficients() const override;

  /// The nearest head size; with a window where the query has one and there is such a variant.
  const AttentionVariant& variant_for(const OpQuery& query) const;

  Phase phase() const { return phase_; }
  const std::string& dtype() const { return dtype_; }
  const AttentionDevice& device() const { return device_; }
  const std::vector<AttentionVariant>& variants() const { return variants_; }

 private:
  /// Logarithms of seconds at the knots: [batch size][length].
  using Surface = std::vector<double>;
  const Surface& surface(const AttentionVariant& variant, const OpQuery& query) const;
  Surface make_surface(const AttentionVariant& variant, const OpQuery& query) const;
  double corrected_s(const AttentionVariant& variant, const OpQuery& query) const;

  std::string dtype_;
  Phase phase_;
  AttentionDevice device_;
  std::vector<AttentionVariant> variants_;
  mutable std::mutex mutex_;
  /// By query heads, key and value heads, head size and window: a planner asks for few.
  mutable std::map<std::array<double, 4>, Surface> surfaces_;
};

/// Back from `coefficients()`. Strict. @throws Error naming the path.
std::unique_ptr<OpModel> read_attention_operator(const Device& device, const Json& coefficients,
                                                 const std::string& path);

}  // namespace tessera::cost::models
