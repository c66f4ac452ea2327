#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/solver/instance/instance.h"
#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// One thing that holds a plan back.
struct Binding {
  std::string kind;  ///< "straggler", "link", "micro_batch", "memory", "quality", "host"
  std::optional<std::size_t> stage;  ///< of straggler, memory, and the sender of a link (0-based)
  std::string phase;                 ///< "prefill" or "decode" of straggler, link, micro_batch
  double seconds = 0;                ///< of the objective that hangs on it; 0: memory, quality
  double left_bytes = 0;             ///< memory: free on the stage
  double used_ratio = 0;             ///< memory: used of usable; quality: omega over its floor
  std::string text;                  ///< for people, with numbers and units
};

/// What binds a plan: the stage or link that each phase waits for, or the way round the pipeline
/// where there are too few micro-batches to fill it; every stage too full for the smallest
/// step (one neighbouring layer more, or one of its layers at the next bitwidth); the quality floor
/// where no layer can be lowered.
std::vector<Binding> find_bindings(const Instance& instance, const Candidate& candidate);

/// What of a plan's steps is the host's, by its kernel set; nothing where that has no host time.
std::optional<Binding> host_binding(const PipelinePlan& plan);

}  // namespace tessera::solver
