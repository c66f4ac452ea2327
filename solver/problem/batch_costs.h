#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tessera/cost/price_cache.h"
#include "tessera/solver/problem/mesh.h"
#include "tessera/solver/problem/problem.h"

namespace tessera::solver {

/// How layers are cut over a group: what tells one row of bytes from another.
struct Sharding {
  std::int32_t degree = 1;
  double attention_ratio = 0;  ///< of the KV heads, elsewhere

  friend bool operator==(const Sharding&, const Sharding&) = default;
};

/// Costs of one batch problem by micro-batch size; computed on demand and kept.
class BatchCosts {
 public:
  /// @param known prices of problems like it, shared; null: its own
  explicit BatchCosts(const BatchProblem& batch, std::shared_ptr<cost::PriceCache> known = nullptr);

  const PhaseCosts& prefill(std::int64_t size) { return get(prefill_, size, cost::Phase::prefill); }
  const PhaseCosts& decode(std::int64_t size) { return get(decode_, size, cost::Phase::decode); }

  const std::vector<MeshGroup>& groups() const { return groups_; }
  /// Whether no cost is lower at a larger size.
  bool are_monotone() const;
  /// Distinct ones, in the order in which the groups have them.
  const std::vector<Sharding>& shardings() const { return shardings_; }
  std::size_t sharding_of(std::size_t group) const { return sharding_of_[group]; }

 private:
  const PhaseCosts& get(std::map<std::int64_t, PhaseCosts>& known, std::int64_t size,
                        cost::Phase phase);
  PhaseCosts compute(double size, cost::Phase phase) const;
  void add_group(PhaseCosts& costs, std::size_t g, double size, double rows, cost::Phase phase,
                 const std::vector<cost::LayerWork>& work) const;
  std::vector<double> means_of(std::size_t g, double size, double rows,
                               const std::vector<cost::LayerWork>& work) const;
  void add_links(PhaseCosts& costs, double rows) const;
  void add_activations(PhaseCosts& costs, std::int64_t size, cost::Phase phase) const;

  BatchProblem batch_;
  std::vector<MeshGroup> groups_;
  std::vector<Sharding> shardings_;
  std::vector<std::size_t> sharding_of_;                   ///< [group]
  std::vector<ModelShape> shards_;                         ///< [sharding] what one member holds
  std::vector<std::unique_ptr<cost::StagePrice>> prices_;  ///< [group]
  std::vector<bool> has_kernels_;                          ///< [group] of any of the bitwidths
  std::shared_ptr<cost::PriceCache> known_;
  std::vector<std::size_t> numbers_;  ///< [group] of `known_`
  std::map<std::int64_t, PhaseCosts> prefill_, decode_;
};

}  // namespace tessera::solver
