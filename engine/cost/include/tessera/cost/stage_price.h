#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/stage_place.h"
#include "tessera/core/workload.h"
#include "tessera/cost/attention_elsewhere.h"
#include "tessera/cost/group_split.h"
#include "tessera/cost/kernel_set.h"
#include "tessera/cost/latency.h"
#include "tessera/cost/memory.h"
#include "tessera/cost/profile.h"

namespace tessera::cost {

inline constexpr double kTokenIdBytes = 4;

/// A model on a cluster, and what prices it there.
struct PricingContext {
  ModelShape model;
  Cluster cluster;
  KernelSet kernel_set;
  /// What is known about the speed of the cluster's devices; those without one are priced by the
  /// roofline.
  std::vector<std::shared_ptr<const Profile>> profiles;
  MemoryPreset memory = MemoryPreset::physical;
  GroupSplit split = {};  ///< of every tensor-parallel group

  const Device& device(std::size_t index) const { return cluster.devices[index].device; }
};

/// What was measured of the device; null where nothing was.
std::shared_ptr<const Profile> profile_of(const PricingContext& context, const Device& device);

/// What runs took, of what is predicted, on a group; of unlike devices the slowest each time.
double measured_factor(const PricingContext& context, const std::vector<std::size_t>& members,
                       Phase phase);

/// The model of one tensor-parallel group, or device: by its profile where there is one, else the
/// roofline; of unlike devices the slowest each time. @param members into the cluster's, at least 1
std::unique_ptr<LatencyModel> latency_model_of(const PricingContext& context,
                                               const std::vector<std::size_t>& members);

/// The units of a phase for a micro-batch of so many requests, whose mean is what planners take:
/// the chunks of a prompt, or the one mean decode step.
std::vector<LayerWork> units_of(const Workload& workload, double size, Phase phase);

/// Layers that are priced alike.
struct LayerKind {
  std::int32_t layer_class = 0;  ///< of the model's
  std::int32_t bitwidth = 16;

  friend auto operator<=>(const LayerKind&, const LayerKind&) = default;
};

/// How many of each there are.
using LayerCounts = std::map<LayerKind, std::int64_t>;

/// Of the layers from `first_layer` on, one for each bitwidth.
LayerCounts count_layers(const ModelShape& model, std::int64_t first_layer,
                         const std::vector<std::int32_t>& bitwidths);

/// What a stage holds, and where.
struct Stage {
  std::vector<std::size_t> members;  ///< into the cluster's devices, the first one first
  StagePlace place = StagePlace::only;
  LayerCounts layers;
  std::optional<AttentionElsewhere> attention = {};  ///< absent: all of it is here

  std::int64_t degree() const { return static_cast<std::int64_t>(members.size()); }
};

/// One pass of a micro-batch through a stage.
struct Pass {
  LayerWork work;
  double num_sampled = 0;  ///< sequences of which a next token is wanted: rows of the LM head

  double rows() const { return work.batch_size * work.tokens; }
};

/// What a pass takes on a stage (seconds), by part.
struct PassSeconds {
  double layers_s = 0;
  double host_s = 0, embedding_s = 0;  ///< on the first stage
  double head_s = 0;                   ///< final norm and LM head

  double total_s() const { return layers_s + (host_s + embedding_s) + head_s; }
};

/// Prices on one tensor-parallel group, or device: of layers, of the ends of a pipeline that may be
/// here, and of what leaves for other stages. Whatever prices a stage asks this: the planner's
/// instance, the batch simulator, and the tables of steps of continuous batching.
class StagePrice {
 public:
  virtual ~StagePrice() = default;

  /// One decoder layer of the whole model. @throws as LatencyModel::layer.
  virtual double layer_s(const LayerShape& layer, std::int32_t bitwidth,
                         const LayerWork& work) const = 0;
  /// The part of it that attention is.
  virtual double attention_s(const LayerShape& layer, std::int32_t bitwidth,
                             const LayerWork& work) const = 0;
  /// The part of it that experts are, which with data-parallel attention have the rows of all parts
  /// of the group. Work is of these together, see make_tensor_parallel.
  virtual double experts_s(const LayerShape& layer, std::int32_t bitwidth,
                           const LayerWork& work) const = 0;
  virtual double embedding_s(double rows) const = 0;
  /// Final norm and LM head.
  virtual double head_s(double rows) const = 0;
  /// Of the host, before the first layer of a pass of `rows` tokens of so many sequences.
  virtual double host_s(double sequences, double rows) const = 0;
  /// Hidden states of so many rows, from here over `link` to another stage.
  virtual double hop_s(double rows, const Link& link) const = 0;
  /// Sampled tokens of so many sequences, from here over `link` back to the first stage.
  virtual double return_s(double sequences, const Link& link) const = 0;
  /// As LatencyModel::is_monotone, of all of these.
  virtual bool is_monotone() const = 0;
};

/// What calibration found: a pipeline's pass takes scale x (what was predicted) + offset_s.
struct Correction {
  double scale = 1;
  double offset_s = 0;

  friend auto operator<=>(const Correction&, const Correction&) = default;
};

/// Prices with a correction: `scale` times each part, and `offset_s` with the embedding, which each
/// pass has once. @throws Error{out_of_range} for a scale that is not positive and finite, or an
/// offset that is not at least 0: no pass takes less than nothing.
std::unique_ptr<StagePrice> corrected(std::unique_ptr<StagePrice> price,
                                      const Correction& correction);

/// @param context borrowed, for as long as the price lives
/// @param attention of one device alone: kept heads and those elsewhere are attended to at the same
/// time
std::unique_ptr<StagePrice> make_stage_price(
    const PricingContext& context, const std::vector<std::size_t>& members,
    std::int32_t kv_bitwidth, const Correction& correction = {},
    const std::optional<AttentionElsewhere>& attention = {});

/// The stages of a pipeline, priced.
class PipelinePrice {
 public:
  /// @param context borrowed, for as long as the price lives
  /// @param stages in order, at least one
  PipelinePrice(const PricingContext& context, std::vector<Stage> stages, std::int32_t kv_bitwidth,
                const Correction& correction = {});

  std::size_t num_stages() const { return stages_.size(); }
  PassSeconds pass(std::size_t stage, const Pass& pass) const;
  double host_s(const Pass& pass) const;  ///< of the first stage's pass
  /// Hidden states of so many rows to the next stage.
  double hop_s(std::size_t stage, double rows) const;
  /// Tokens of so many sequences from the last stage to the first; 0 where these are one.
  double return_s(double sequences) const;

 private:
  const PricingContext& context_;
  std::vector<Stage> stages_;
  std::vector<std::unique_ptr<StagePrice>> prices_;  ///< [stage]
  std::vector<Link> links_;  ///< [stage] to the next; of the last to the first
};

}  // namespace tessera::cost
