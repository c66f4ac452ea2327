#include "tessera/solver/problem/preset.h"

#include "tessera/cost/auto_kernel_set.h"

namespace tessera::solver {

std::vector<std::string_view> preset_names() { return names_of<Preset>(); }

std::string_view kernel_set_of(Preset preset) {
  // Measured in the months when the papers' rows were.
  return preset == Preset::recommended ? cost::kAutoKernelSet : "llmpq_2023_08";
}

void set_defaults(Preset preset, Problem& problem, BatchProblem& batch, Choices& choices) {
  const bool recommended = preset == Preset::recommended;
  problem.use_all_devices = !recommended;
  choices.follows_cluster = {recommended, recommended, recommended, recommended};
  choices.uniform_degree = recommended;
  choices.may_replicate = recommended;
  if (recommended) {
    batch.bitwidths = {4, 8, 16};
    return;
  }
  batch.bitwidths = {3, 4, 8, 16};
  batch.memory = cost::MemoryPreset::llm_pq;
  if (preset == Preset::llm_pq) {
    problem.objective = Objective::paper;
    problem.theta_unit = ThetaUnit::ms_per_raw_omega;
  }
}

}  // namespace tessera::solver
