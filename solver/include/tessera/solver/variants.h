#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/solver/problem.h"

namespace tessera::solver {

/// One problem without open choices for each combination of them.
struct Variants {
  std::vector<Problem> problems;
  std::vector<std::string> names;  ///< what tells each from the others; empty where there is one
  std::vector<std::string> notes;  ///< what was left out, and why
};

/// Meshes (see list_meshes) by KV bitwidths, in the order given.
Variants list_variants(const Problem& problem);

/// Makes the first of the open choices the one in force.
/// @throws Error{invalid_argument} as list_meshes.
void settle(ServingProblem& serving);

/// Degrees that the mesh of a problem has, or may still have, ascending.
std::vector<std::int32_t> degrees_of(const ServingProblem& serving);

/// The same problem on some of the devices, in cluster order, with some of the requests; its mesh
/// is open again. @throws Error{invalid_argument} where these devices cannot be cut as asked.
Problem part_of(const Problem& problem, const std::vector<std::size_t>& devices,
                std::int64_t batch_size);

}  // namespace tessera::solver
