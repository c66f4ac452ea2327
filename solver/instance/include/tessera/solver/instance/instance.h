#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/stage_place.h"
#include "tessera/solver/instance/row.h"

namespace tessera::solver {

enum class Objective { steady, paper };

inline constexpr double kMaxTheta = 1e12;

/// Which orders of devices a server can launch. Where there is a rule, every stage holds a layer.
enum class StageRule {
  any,
  /// Stages of a node are neighbours; behind the first node, none has fewer stages than the one
  /// before it; all stages are devices or groups cut alike. vLLM's.
  node_by_node,
  /// All stages are on one node: devices, or one group that shares all layers. llama.cpp's
  one_node,
};

/// Devices that the planner cannot tell apart: same type on the same node.
struct DeviceGroup {
  std::string name;  ///< device type
  std::string node;
  std::int32_t count = 1;
  double usable_bytes =
      0;  ///< capacity less the runtime reserve; of a tensor-parallel group, pooled
  std::size_t sharding = 0;    ///< how layers are cut over it: the row of bytes that it holds
  bool shares_layers = false;  ///< a tensor-parallel group
};

/// All costs of one phase at one micro-batch size. For prefill the unit is one chunk of a
/// micro-batch (mean over chunks).
struct PhaseCosts {
  std::vector<double> layer_s;  ///< [group][class][bit] seconds
  std::vector<double> first_s;  ///< [group] added to the first stage (embedding)
  std::vector<double> last_s;   ///< [group] added to the last stage (LM head)
  std::vector<double> link_s;   ///< [group][group] transfer of one unit between neighbours
  /// [sharding][StagePlace], summed over the members of a tensor-parallel group
  std::vector<double> activation_bytes = {0, 0, 0, 0};
};

/// The planning problem after models and devices are gone: what every solver works on.
///
/// Indices: `group` into `groups`, `bit` into `bitwidths`, `cls` into the layer classes, `layer`
/// 0-based.
struct Instance {
  std::string name;
  std::vector<std::int32_t> bitwidths;  ///< ascending candidate bitwidths
  std::vector<DeviceGroup> groups;
  std::vector<std::int32_t> layer_class;  ///< [num_layers]
  std::int32_t num_classes = 1;
  /// [sharding][cls][bit] weights + KV cache of one layer, whole batch; summed over the members of
  /// a tensor-parallel group, so that what each of them holds counts as often as there are members
  std::vector<double> layer_bytes;
  std::vector<std::uint8_t> allowed;  ///< [group][bit] a kernel exists
  /// [sharding][StagePlace], summed likewise
  std::vector<double> embedding_bytes = {0, 0, 0, 0};
  std::vector<double> omega;  ///< [layer][bit], in the units that theta multiplies

  std::int64_t batch_size = 1;
  std::int64_t num_chunks = 1;  ///< kappa
  double output_tokens = 1;     ///< n, expectation
  Objective objective = Objective::steady;
  double theta = 1;                 ///< seconds per unit of omega
  std::optional<double> max_omega;  ///< quality floor: sum of omega <= max_omega (1 + 1e-6)
  /// Middle stages may hold no layer, and orders may leave devices out; first and last stage are
  /// two.
  bool allow_empty_stage = false;
  bool allow_single_stage = false;        ///< with `allow_empty_stage`: they may also be one
  StageRule stage_rule = StageRule::any;  ///< see StageOrder
  std::vector<Row> rows;                  ///< side constraints

  /// Costs at a micro-batch size in [1, batch_size]. References stay valid for the instance's life;
  /// the same size gives the same object.
  std::function<const PhaseCosts&(std::int64_t)> prefill;
  std::function<const PhaseCosts&(std::int64_t)> decode;
  bool monotone_costs = false;  ///< no cost is lower at a larger size

  std::size_t num_layers() const { return layer_class.size(); }
  std::size_t num_bits() const { return bitwidths.size(); }
  std::size_t num_devices() const;
  /// Fewest stages of a plan whose order is free.
  std::size_t least_stages() const;
  /// Whether a middle stage may hold no layer.
  bool may_be_empty() const { return allow_empty_stage && stage_rule == StageRule::any; }
  double omega_at(std::size_t layer, std::size_t bit) const {
    return omega[layer * num_bits() + bit];
  }
  double layer_bytes_at(std::size_t group, std::int32_t cls, std::size_t bit) const {
    const std::size_t row = groups[group].sharding * static_cast<std::size_t>(num_classes);
    return layer_bytes[(row + static_cast<std::size_t>(cls)) * num_bits() + bit];
  }
  /// Of tables by [sharding][StagePlace].
  std::size_t index_of(std::size_t group, StagePlace place) const {
    return kNumStagePlaces * groups[group].sharding + tessera::index_of(place);
  }
  double embedding_bytes_at(std::size_t group, StagePlace place) const {
    return embedding_bytes[index_of(group, place)];
  }
  double activation_bytes_at(const PhaseCosts& costs, std::size_t group, StagePlace place) const {
    return costs.activation_bytes[index_of(group, place)];
  }
  bool allowed_at(std::size_t group, std::size_t bit) const {
    return allowed[group * num_bits() + bit] != 0;
  }
  double layer_s(const PhaseCosts& costs, std::size_t group, std::int32_t cls,
                 std::size_t bit) const {
    return costs
        .layer_s[(group * static_cast<std::size_t>(num_classes) + static_cast<std::size_t>(cls)) *
                     num_bits() +
                 bit];
  }
  double link_s(const PhaseCosts& costs, std::size_t from, std::size_t to) const {
    return costs.link_s[from * groups.size() + to];
  }
  /// Embeddings and activations that a stage on the group holds besides its layers.
  double fixed_bytes(std::size_t group, StagePlace place, const PhaseCosts& prefill_costs,
                     const PhaseCosts& decode_costs) const;
};

/// Coefficients of an objective for one pair of micro-batch sizes (solver/README.md, Objective):
///   prefill_max * Tp + prefill_sum * sum P + decode_max * Td + decode_sum * sum D
///   + round * max(round_micro_batches * Td, sum D) + theta * W
struct ObjectiveCoefficients {
  double prefill_max = 0, prefill_sum = 0, decode_max = 0, decode_sum = 0;
  double round = 0, round_micro_batches = 0;
};
ObjectiveCoefficients objective_coefficients(const Instance& instance, Objective objective,
                                             std::int64_t prefill_micro_batch_size,
                                             std::int64_t decode_micro_batch_size);

/// A complete decision, before it is priced. Position k of `order` runs layers [first_layer[k],
/// first_layer[k+1]).
struct Candidate {
  std::vector<std::size_t> order;        ///< [stages] group of each position
  std::vector<std::size_t> first_layer;  ///< [stages + 1], first_layer[0] = 0, last = num_layers;
                                         ///< equal neighbours: empty stage
  std::vector<std::size_t> bit;          ///< [num_layers] index into bitwidths
  std::int64_t prefill_micro_batch_size = 1;
  std::int64_t decode_micro_batch_size = 1;
};

struct StageEvaluation {
  double prefill_s = 0, decode_s = 0;
  double layers_bytes = 0, fixed_bytes = 0, usable_bytes = 0;
};

struct Evaluation {
  std::vector<StageEvaluation> stages;
  double prefill_max_s = 0, decode_max_s = 0;  ///< Tp, Td: over stages and links
  double prefill_sum_s = 0, decode_sum_s = 0;
  double omega = 0;
  double objective = 0;  ///< of the instance's objective
  double latency_s = 0;  ///< steady model without the quality term
};

/// Prices a candidate in doubles, layer by layer. Requires a well-formed candidate (see
/// `find_violation`), fitting or not.
Evaluation evaluate(const Instance& instance, const Candidate& candidate);

/// Of its latency: until every request has its first token, and what each further token takes.
double prefill_s(const Instance& instance, const Candidate& candidate, const Evaluation& e);
double decode_s(const Instance& instance, const Candidate& candidate, const Evaluation& e);

/// What a candidate breaks.
struct Violation {
  std::string constraint;  ///< "contiguity", "memory", "bitwidth", "empty_stage", "devices",
                           ///< "micro_batch", "row", "quality", "server", "objective"
  std::string message;
};

/// The independent checker: well-formedness, contiguity, one allowed bitwidth per layer, memory,
/// device counts, empty stages, stage rule, side constraints, quality floor and, where one is
/// claimed, the objective (to 1e-9 relative). Shares no arithmetic with the solvers or with
/// `evaluate`. Every stage of the order holds its activations, empty ones too: they pass through
/// it.
std::optional<Violation> find_violation(const Instance& instance, const Candidate& candidate,
                                        std::optional<double> claimed_objective = std::nullopt);

/// Relative slack on the quality floor, one value for solvers and checker (solver/README.md,
/// Objective).
inline constexpr double kQualitySlack = 1e-6;
/// Relative slack on memory: rounding of sums only.
inline constexpr double kMemorySlack = 1e-9;

/// Above this many requests, sizes are not priced one by one.
inline constexpr std::int64_t kMostSizesPriced = 4096;

/// Micro-batch sizes worth trying, ascending: under StageRule::one_node the whole batch; else the
/// smallest of each ceil(B / size), and, of at most
/// kMostSizesPriced requests, the larger ones of the same count at which some cost is lower than at
/// every smaller size kept.
std::vector<std::int64_t> useful_micro_batch_sizes(const Instance& instance);

}  // namespace tessera::solver

namespace tessera {

template <>
inline constexpr auto kEnumNames<solver::Objective> = enum_names<solver::Objective>(
    {{solver::Objective::steady, "steady"}, {solver::Objective::paper, "paper"}});

}  // namespace tessera
