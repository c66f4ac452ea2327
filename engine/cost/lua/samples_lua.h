#pragma once

#include <lua.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tessera/cost/held_out.h"
#include "tessera/cost/op.h"

namespace tessera::cost_lua {

/// The query in the table at `index`: of the op that is wanted or in `op`, else a GEMM (m),
/// attention (num_heads) or a layer. Fields that an op does not have are errors. `batch` and
/// `context`, as our CSV schema has them, stand for batch_size and context_tokens.
cost::OpQuery query_argument(lua_State* L, int index, const std::string& path, bool is_sample,
                             std::optional<cost::Op> wanted = std::nullopt);

/// An array of sample tables (a query with latency_s, and device, kernel_set and source), or the
/// path of a file that cost::read_samples reads.
std::vector<cost::Sample> samples_argument(lua_State* L, int index, const std::string& path);

/// Pushes a sample as such a table.
void push_sample(lua_State* L, const cost::Sample& sample);
/// { median, p90, worst, mean, num_points, split }; of no points: without the first four.
void push_errors(lua_State* L, const cost::Errors& errors);

}  // namespace tessera::cost_lua
