#pragma once

#include <lua.hpp>
#include <string>
#include <vector>

#include "tessera/cost/held_out.h"
#include "tessera/cost/op.h"

namespace tessera::cost_lua {

/// The query in the table at `index`: `op` where it is given, else a GEMM (m, n, k), attention
/// (num_heads) or a layer. Fields that an op does not have are errors.
cost::OpQuery query_argument(lua_State* L, int index, const std::string& path, bool is_sample);

/// An array of sample tables: a query with latency_s, and device, kernel_set and source.
std::vector<cost::Sample> samples_argument(lua_State* L, int index, const std::string& path);

/// Pushes a sample as such a table.
void push_sample(lua_State* L, const cost::Sample& sample);
/// { median, p90, worst, mean, num_points, split }
void push_errors(lua_State* L, const cost::Errors& errors);

}  // namespace tessera::cost_lua
