// What a problem leaves open, tensor parallelism and the KV cache's bitwidth, and the problems that
// come of it.

#include <fmt/format.h>

#include <algorithm>

#include "problem_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/planning/planning.h"

namespace tessera::solver_lua {
namespace {

// One number for every layer, or a list of all layers' on top of the stack.
std::vector<double> omega_of_layers(lua_State* L, const std::string& path, std::size_t num_layers) {
  const auto number = [&](const std::string& where) {
    return lua_kit::check_number(L, -1, where, 0, kHuge);
  };
  if (lua_type(L, -1) == LUA_TNUMBER) return std::vector<double>(num_layers, number(path));
  if (!lua_istable(L, -1) || lua_kit::list_length(L, lua_gettop(L), path) != num_layers) {
    refuse(path, "a number, or a list of {}, one per layer, belongs here", num_layers);
  }
  std::vector<double> omega;
  lua_kit::for_each_item(L, lua_gettop(L), path, [&](std::size_t, const std::string& item) {
    omega.push_back(number(item));
  });
  return omega;
}

}  // namespace

void read_choices(const lua_kit::Options& options, solver::BatchProblem& batch,
                  std::vector<cost::KernelSet>& kernel_sets, solver::Choices& choices) {
  lua_kit::read_options(options, choices);
  check_record(choices, options.field_path());
  if (options.given("memory")) choices.follows_cluster.memory = false;
  if (options.given("kv_bitwidth")) choices.follows_cluster.kv_bitwidths = false;
  if (options.given("tensor_parallel")) {
    choices.follows_cluster.tensor_parallel = false;
    if (!options.given("uniform_degree")) choices.uniform_degree = false;
    std::sort(choices.tensor_parallel->begin(), choices.tensor_parallel->end());
  }
  if (!choices.follows_cluster.kv_bitwidths) {
    // Who names the bitwidth knows where his kernels read it: it is priced on every device.
    batch.kernel_set.kv_rules.clear();
    for (cost::KernelSet& kernels : kernel_sets) kernels.kv_rules.clear();
  }
  const bool other_place = options.given("model") || options.given("cluster");
  if (!other_place && !options.given("kernel_set") && !options.given("runtime")) return;
  solver::follow_cluster(batch, kernel_sets.empty() ? std::vector{batch.kernel_set} : kernel_sets,
                         choices);
  if (other_place && !options.given("tensor_parallel")) {
    choices.tensor_parallel = degrees_of(batch, choices);  // another cluster has other meshes
  }
}

void read_kv_omega(lua_State* L, const lua_kit::Options& options, solver::BatchProblem& batch) {
  const auto num_layers = static_cast<std::size_t>(batch.model.num_layers);
  const std::string path = options.path_of("kv_omega");
  options.push("kv_omega");
  if (!lua_istable(L, -1)) {
    refuse(path, "give a table by bitwidth, such as { [8] = 0.001, [4] = 0.1 }");
  }
  batch.kv_omega.clear();
  lua_kit::for_each_pair(L, -1, path, [&] {
    const auto bitwidth = static_cast<std::int32_t>(
        lua_kit::check_integer(L, -2, path + " bitwidth", kMinKvBitwidth, kMaxKvBitwidth, "bits"));
    batch.kv_omega[bitwidth] =
        omega_of_layers(L, fmt::format("{}[{}]", path, bitwidth), num_layers);
  });
  lua_pop(L, 1);
}

/// variants(): problems without open choices, their names, and notes.
int variants(lua_State* L) {
  const solver::Variants found = solver::list_variants(problem_argument(L, 1));
  lua_createtable(L, static_cast<int>(found.problems.size()), 0);
  for (std::size_t i = 0; i < found.problems.size(); ++i) {
    push_problem(L, {found.problems[i], {}});
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_kit::push_texts(L, found.names);
  lua_kit::push_texts(L, found.notes);
  return 3;
}

/// variant_with(problem, devices): the first way to settle the choices in which these exist.
int variant_with(lua_State* L) {
  const solver::OpenProblem& open = problem_argument(L, 1);
  std::vector<std::string> devices;
  lua_kit::for_each_item(L, 2, "ts.plan.stages", [&](std::size_t, const std::string& path) {
    devices.push_back(lua_kit::check_text(L, -1, path + ".device"));
  });
  push_problem(L, {solver::variant_with(open, devices), {}});
  return 1;
}

}  // namespace tessera::solver_lua
