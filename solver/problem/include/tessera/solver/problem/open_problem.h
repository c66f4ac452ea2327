#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/solver/problem/lowered_problem.h"

namespace tessera::solver {

/// What is still to be chosen of a batch problem. A choice that is absent is settled.
struct Choices {
  /// Degrees that the mesh may have, ascending, one at least.
  std::optional<std::vector<std::int32_t>> tensor_parallel;
  /// All stages of a pipeline have the same degree, as servers run them.
  bool uniform_degree = false;
  /// Bitwidths that the KV cache may have, as given, one at least.
  std::optional<std::vector<std::int32_t>> kv_bitwidths;
  /// The cluster may be split into pipelines that share the batch, where nothing is named that
  /// settles how devices are used, and neither a planner nor anything of a pipeline is asked for.
  bool may_replicate = false;

  /// What is chosen anew for another model or cluster, because no script named it.
  struct FollowsCluster {
    bool kernel_set = false, tensor_parallel = false, kv_bitwidths = false, memory = false;
    friend bool operator==(const FollowsCluster&, const FollowsCluster&) = default;
  };
  FollowsCluster follows_cluster = {};

  friend bool operator==(const Choices&, const Choices&) = default;
};

/// Powers of two that divide the model's heads, up to the most devices of a type on a node.
std::vector<std::int32_t> usual_degrees(const ModelShape& model, const Cluster& cluster);

/// 16, and what one of the kernel sets is known to have on some of the devices.
std::vector<std::int32_t> usual_kv_bitwidths(const std::vector<cost::KernelSet>& kernel_sets,
                                             const Cluster& cluster);

/// Sets the choices that follow the cluster, and the memory model, to what is usual on it.
/// @param kernel_sets that may run it, one at least
void follow_cluster(BatchProblem& batch, const std::vector<cost::KernelSet>& kernel_sets,
                    Choices& choices);

/// A problem as scripts state it. It is planned once for each combination of its choices; what can
/// be asked of one problem only (prices, devices, times) is answered for `first`.
struct OpenProblem {
  LoweredProblem first;  ///< by the first mesh, KV bitwidth and kernel set
  Choices choices;
  /// That may run it, priced by the same profiles; empty: the kernel set is settled.
  std::vector<cost::KernelSet> kernel_sets = {};
  /// What its ways have in common, while they are planned; null: nothing.
  std::shared_ptr<cost::PriceCache> prices = nullptr;
};

/// The problem with the first of each choice in force.
/// @throws Error{invalid_argument} as list_meshes.
OpenProblem open_problem(Problem problem, Choices choices,
                         std::vector<cost::KernelSet> kernel_sets = {},
                         std::shared_ptr<cost::PriceCache> prices = nullptr);

/// The problem of a plan, to be planned again: its kernels and its KV bitwidth stay, its devices
/// may be joined as they might have been, by the degrees that were open; where nobody knows these,
/// by the degrees of its mesh.
OpenProblem open_again(const LoweredProblem& problem,
                       const std::optional<Choices>& left_open = std::nullopt);

/// One problem for each combination of the choices.
struct Variants {
  std::vector<LoweredProblem> problems;
  std::vector<std::string> names;  ///< what tells each from the others; empty where there is one
  std::vector<std::string> notes;  ///< what was left out, and why
};

/// Kernel sets by meshes (see list_meshes) by KV bitwidths, in the order given; where the problem
/// has a runtime, of one degree each and by the bitwidths that one checkpoint for it can have.
Variants list_variants(const OpenProblem& problem);

/// Degrees that the mesh of a batch problem has, or may still have, ascending.
std::vector<std::int32_t> degrees_of(const BatchProblem& batch, const Choices& choices);

/// A batch problem on some of its devices, in cluster order, with some of the requests. Its mesh
/// is open again. @throws Error{invalid_argument} where these devices cannot be cut as asked.
OpenProblem part_of(const OpenProblem& problem, const std::vector<std::size_t>& devices,
                    std::int64_t batch_size);

/// A batch problem with one more device like one of its own, beside it. Its mesh is open again.
OpenProblem with_one_more(const OpenProblem& problem, std::size_t device);

/// The same without a mesh.
Problem on_devices(Problem problem, const std::vector<std::size_t>& devices,
                   std::int64_t batch_size);

}  // namespace tessera::solver

namespace tessera {

template <>
struct Fields<solver::Choices> {
  using C = solver::Choices;
  static constexpr auto list = std::tuple{
      field<&C::kv_bitwidths, NotInFiles>(
          {.name = "kv_bitwidth",
           .doc = "Bitwidth of the KV cache, or several to choose from; default: 16, and 8 "
                  "where the kernel set is known to have it",
           .unit = "bits",
           .min = kMinKvBitwidth,
           .max = kMaxKvBitwidth,
           .option_type = "integer|integer[]"}),
      field<&C::tensor_parallel, NotInFiles>(
          {.name = "tensor_parallel",
           .doc = "Degrees of tensor parallelism to choose from, within a node and device "
                  "type; default: powers of two that divide the model's heads",
           .unit = "devices",
           .min = 1,
           .max = 64,
           .option_type = "integer|integer[]"}),
      field<&C::uniform_degree>(
          {.name = "uniform_degree",
           .doc = "All stages of a pipeline have the same degree, as servers run them; false "
                  "where tensor_parallel is given",
           .default_text = "true"})};

  /// Each choice has one way at least, and none twice.
  static void check(const solver::Choices& choices, const FieldPath& path);
};

/// Choices as the file of a plan has them: what was open, without who opened it.
template <>
struct JsonValue<solver::Choices> {
  static Json write(const solver::Choices& choices);
  static solver::Choices read(const Json& json, const std::string& path, const FieldSpec& spec);
};

}  // namespace tessera
