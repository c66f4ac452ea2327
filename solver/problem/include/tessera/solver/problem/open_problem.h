#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/solver/problem/lowered_problem.h"

namespace tessera::solver {

/// What is still to be chosen of a serving problem. A choice that is absent is settled.
struct Choices {
  /// Degrees that the mesh may have, ascending, one at least.
  std::optional<std::vector<std::int32_t>> tensor_parallel;
  /// Bitwidths that the KV cache may have, as given, one at least.
  std::optional<std::vector<std::int32_t>> kv_bitwidths;
};

/// A problem as scripts state it. It is planned once for each combination of its choices; what can
/// be asked of one problem only (prices, devices, times) is answered for `first`.
struct OpenProblem {
  LoweredProblem first;  ///< by the first mesh and the first KV bitwidth
  Choices choices;
};

/// The problem with the first of each choice in force.
/// @throws Error{invalid_argument} as list_meshes.
OpenProblem open_problem(Problem problem, Choices choices);

/// The problem of a plan, to be planned again: its KV bitwidth stays, its devices may be joined in
/// any way that uses the degrees of its mesh.
OpenProblem open_again(const LoweredProblem& problem);

/// One problem for each combination of the choices.
struct Variants {
  std::vector<LoweredProblem> problems;
  std::vector<std::string> names;  ///< what tells each from the others; empty where there is one
  std::vector<std::string> notes;  ///< what was left out, and why
};

/// Meshes (see list_meshes) by KV bitwidths, in the order given.
Variants list_variants(const OpenProblem& problem);

/// Degrees that the mesh of a serving problem has, or may still have, ascending.
std::vector<std::int32_t> degrees_of(const ServingProblem& serving, const Choices& choices);

/// A serving problem on some of its devices, in cluster order, with some of the requests. Its mesh
/// is open again. @throws Error{invalid_argument} where these devices cannot be cut as asked.
OpenProblem part_of(const OpenProblem& problem, const std::vector<std::size_t>& devices,
                    std::int64_t batch_size);

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
           .doc = "Bitwidth of the KV cache, or several to choose from",
           .unit = "bits",
           .min = kMinKvBitwidth,
           .max = kMaxKvBitwidth,
           .option_type = "integer|integer[]",
           .default_text = "16"}),
      field<&C::tensor_parallel, NotInFiles>(
          {.name = "tensor_parallel",
           .doc = "Degrees of tensor parallelism to choose from, within a node and device type",
           .unit = "devices",
           .min = 1,
           .max = 64,
           .option_type = "integer|integer[]",
           .default_text = "1"})};

  /// Each choice has one way at least, and none twice.
  static void check(const solver::Choices& choices, const FieldPath& path);
};

}  // namespace tessera
