#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/solver/problem/problem.h"

/// A new plan after devices came or went, with as few weights as possible loaded anew.
namespace tessera::solver {

/// What one stage of the earlier plan holds.
struct Holding {
  std::string device, node;
  std::size_t first_layer = 0;
  std::vector<std::int32_t> bitwidths;  ///< one per layer
  bool first = false, last = false;     ///< holds the embeddings of that end
};

/// What loading takes, by layer class and bitwidth. Embeddings by StagePlace.
struct WeightBytes {
  std::vector<double> layer;      ///< [cls][bit] weights without KV cache
  std::vector<double> embedding;  ///< [sharding][place], as Instance::embedding_bytes
};

/// An instance file gives weights and KV cache in one number, which then counts as weights.
WeightBytes weight_bytes(const Problem& problem, const Instance& instance);

/// What a plan keeps and loads. A layer is kept where its device held it at its bitwidth.
struct Moves {
  std::vector<std::optional<std::size_t>> from;  ///< [stage] holding of the same device
  std::vector<double> loaded_bytes;              ///< [stage]
  double moved_bytes = 0, kept_bytes = 0;        ///< layers and embeddings
  std::int64_t moved_layers = 0;
};

/// Matches stages to holdings on devices of the same type and node, one to one, so that most bytes
/// are kept.
Moves count_moves(const Instance& instance, const Candidate& plan,
                  const std::vector<Holding>& holdings, const WeightBytes& weights);

/// No plan on these devices loads fewer layer weights: the layers that no device holds at a
/// bitwidth it may run now, each at its smallest.
double least_moved_bytes(const Instance& instance, const std::vector<Holding>& holdings,
                         const WeightBytes& weights);

/// Of a node that does not say what its disk reads: one NVMe drive.
inline constexpr double kAssumedDiskBytesPerS = 2e9;

/// How long loading takes, and what had to be assumed for it.
struct Transfer {
  double seconds = 0;
  std::vector<std::string> nodes_with_assumed_disk;  ///< that read from theirs, in plan order
};

/// Until every stage has its weights. A layer comes from a stage that still holds it at the
/// bitwidth, over the link between the two, or from the checkpoint on the disk of its node, and in
/// any case no faster than PCIe lets it into the device, NVLink aside: whichever way is faster.
/// Devices load in parallel, those of a tensor-parallel group a share each; a node's disk, and its
/// network, serve all of its devices in turn. Latencies of single transfers are left out, and what
/// quantising would take.
Transfer transfer(const BatchProblem& batch, const Instance& instance, const Candidate& plan,
                  const Moves& moves, const std::vector<Holding>& holdings,
                  const WeightBytes& weights);

struct ReplanRequest {
  Candidate optimum;         ///< the best plan of `instance`
  double max_objective = 0;  ///< no answer is worse
  Candidate earlier;         ///< micro-batch sizes of the earlier plan; its stages where valid
  double time_limit_s = 10;
};

struct Replanned {
  Candidate plan;
  Moves moves;
  bool stopped = false;  ///< the time limit cut the search short
};

/// The plan that loads fewest bytes among those found with an objective of at most
/// `max_objective`: the optimum and the earlier plan themselves, and what a dynamic programme over
/// (stage, layers done) finds for the earlier order with lost devices taken out and new ones put in
/// anywhere or left idle, and for the optimum's order, at both plans' micro-batch sizes, under
/// several limits on the slowest stage of each phase; layers keep their bitwidth, or take one
/// bitwidth per stage or the optimum's. Layer by layer and boundary by boundary improvement
/// follows. Never worse than the optimum; that nothing else moves less is not proven.
Replanned replan(const Instance& instance, const std::vector<Holding>& holdings,
                 const WeightBytes& weights, const ReplanRequest& request);

}  // namespace tessera::solver
