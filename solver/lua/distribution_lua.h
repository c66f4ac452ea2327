#pragma once

#include <cstdint>
#include <lua.hpp>
#include <string>
#include <vector>

#include "tessera/solver/plan/batch_traffic.h"

namespace tessera::solver_lua {

/// What a simulation of a workload's own requests adds to a run.
struct Distribution {
  solver::BatchTrafficOptions options;
  std::vector<solver::BatchedRequest> requests;
  std::int64_t num_batches = 0;
  serving::BatchRun expected;
  std::vector<std::string> stage_names;
};

/// { ttft_s, tpot_s, e2e_s }, each { mean, p50, p90, p99, max }; nil for nullptr.
void push_quantiles(lua_State* L, const Distribution* distribution);
/// Every request as columns; nil for nullptr.
void push_requests(lua_State* L, const Distribution* distribution);
/// Throughput by the mean lengths over that of the distribution, less 1.
double expected_error(const Distribution& distribution, const serving::BatchRun& run);
/// Lines for print.
std::string describe(const Distribution& distribution, const serving::BatchRun& run);

}  // namespace tessera::solver_lua
