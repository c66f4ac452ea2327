#pragma once

#include <string_view>

#include "tessera/core/enum_names.h"
#include "tessera/solver/problem/open_problem.h"

namespace tessera::solver {

/// What a problem is made of where a script does not say.
enum class Preset {
  recommended,  ///< what suits the cluster: see set_defaults
  splitquant,   ///< SplitQuant's custom backend (Sec. VI-A)
  llm_pq,       ///< LLM-PQ (Sec. 6.1), with eq. (4) as printed
};

/// Kernel set of a preset, by name; cost::kAutoKernelSet for one that suits the cluster.
std::string_view kernel_set_of(Preset preset);

/// Sets what a preset says of the bitwidths, memory, objective and devices, and what it leaves to
/// be searched.
/// - recommended: bitwidths 4, 8, 16; devices may be left out; tensor parallelism, the KV cache's
///   bitwidth and replicas are searched.
/// - splitquant, llm-pq: bitwidths 3, 4, 8, 16, a KV cache of 16 bits, one pipeline in which every
///   device holds layers on its own, the authors' memory model.
void set_defaults(Preset preset, Problem& problem, BatchProblem& batch, Choices& choices);

}  // namespace tessera::solver

template <>
inline constexpr auto tessera::kEnumNames<tessera::solver::Preset> =
    tessera::enum_names<tessera::solver::Preset>(
        {{tessera::solver::Preset::recommended, "recommended"},
         {tessera::solver::Preset::splitquant, "splitquant"},
         {tessera::solver::Preset::llm_pq, "llm-pq"}});
