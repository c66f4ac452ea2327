#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/core/model_shape.h"

namespace tessera::solver {

/// How the devices of each type and node, or with fewer lists of each node, in cluster order, are
/// joined into tensor-parallel groups, those of nodes of unlike devices too: degrees, largest
/// first, with a sum of at most their number. Devices beyond it are in no group, so no plan uses
/// them.
using Mesh = std::vector<std::vector<std::int32_t>>;

/// Tensor-parallel groups that the planner cannot tell apart: same types, node and degree.
struct MeshGroup {
  std::string name;  ///< "2xT4-16G", "T4-16G", "L4+A10"
  std::int32_t degree = 1;
  std::vector<std::vector<std::size_t>> members;  ///< [group][member] into the cluster's devices
};

/// Groups of a mesh, each type and node's largest degree first; position k of a plan that uses a
/// group for the m-th time runs on members[m]. Without a mesh every device is on its own.
/// @throws Error{invalid_argument} where the mesh does not fit the cluster.
std::vector<MeshGroup> mesh_groups(const Cluster& cluster, const std::optional<Mesh>& mesh);

/// "2 of 2xT4-16G + V100-32G": groups in order, with how many there are of each.
std::string mesh_name(const Cluster& cluster, const std::optional<Mesh>& mesh);

struct MeshChoices {
  std::vector<Mesh> meshes;
  std::vector<std::string> notes;  ///< degrees and meshes left out, and why
};

/// Meshes beyond this many are not listed one by one.
inline constexpr std::size_t kMostMeshes = 64;

struct MeshRules {
  bool one_degree = false;     ///< the same for every group, as servers have it
  bool may_leave_out = false;  ///< fewer devices than the smallest degree may be left over
};

/// Every way to cut the devices of each type and node into groups of the degrees, single devices
/// first. Above kMostMeshes only those in which a type on a node has one degree throughout, and
/// above that again only one degree for the whole cluster (the largest that divides, below it).
/// Degrees that cut heads unevenly or that no node can hold are left out with a note.
/// @throws Error{invalid_argument} naming the reason where no mesh is left.
MeshChoices list_meshes(const ModelShape& model, const Cluster& cluster,
                        const std::vector<std::int32_t>& degrees, const MeshRules& rules = {});

}  // namespace tessera::solver
