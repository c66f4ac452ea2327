#pragma once

#include <Eigen/Core>
#include <memory>
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
};

double attention_s(const AttentionDevice& device, Phase phase, const AttentionVariant& variant,
                   const OpQuery& query);

/// Attention of one phase and dtype on one device.
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
  const std::vector<AttentionVariant>& variants() const { return variants_; }

 private:
  std::string dtype_;
  Phase phase_;
  AttentionDevice device_;
  std::vector<AttentionVariant> variants_;
};

/// Back from `coefficients()`. Strict. @throws Error naming the path.
std::unique_ptr<OpModel> read_attention_operator(const Device& device, const Json& coefficients,
                                                 const std::string& path);

}  // namespace tessera::cost::models
