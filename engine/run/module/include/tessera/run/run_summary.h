#pragma once

#include <optional>
#include <string>

#include "tessera/run/execute.h"
#include "tessera/serving/batch_run.h"

namespace tessera::run {

/// What was measured, under the names of a simulated batch: times from the first decision to the
/// last token, of answers that this run gave. Links and return have no times of their own.
serving::BatchRun batch_run_of(const Executed& executed);

/// The stages of one engine, or of all one after the other, as a pipeline's tracks, for a trace.
serving::BatchPipeline tracks_of(const Executed& executed, std::optional<std::size_t> engine);
/// Their busy intervals.
serving::BatchRun spans_of(const Executed& executed, std::optional<std::size_t> engine);

}  // namespace tessera::run
