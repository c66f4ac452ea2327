// What the Lua library builds ts.max_batch, ts.size, ts.pareto and ts.replan from.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "problem_lua.h"
#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/instance/mix_bound.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/plan/what_if.h"
#include "tessera/solver/replan/replan.h"

namespace tessera::solver_lua {
namespace {

constexpr double kMostDevices = 4096;

/// The list of counts at `index`.
std::vector<std::int64_t> counts_argument(lua_State* L, int index) {
  std::vector<std::int64_t> counts;
  lua_kit::for_each_item(L, index, "counts", [&](std::size_t, const std::string& path) {
    counts.push_back(lua_kit::check_integer(L, -1, path, 0, kMostDevices));
  });
  return counts;
}

const OptionTable& replan_options() {
  static const OptionTable table{"replan",
                                 "How much worse than the best the answer may be.",
                                 "",
                                 {{.name = "tolerance",
                                   .doc = "Relative, on the objective",
                                   .min = 0,
                                   .max = 1e6,
                                   .required = true},
                                  {.name = "lost",
                                   .type = OptionType::integer_list,
                                   .doc = "device_index of devices that are gone",
                                   .min = 0,
                                   .max = kMostDevices},
                                  {.name = "time_limit_s",
                                   .doc = "Of the search for few moves",
                                   .unit = "s",
                                   .min = 0,
                                   .max = 1e7,
                                   .required = true},
                                  {.name = "source_bytes_per_s",
                                   .doc = "Disk of nodes that do not say it",
                                   .unit = "bytes/s",
                                   .min = 1e3,
                                   .max = 1e15}}};
  return table;
}

std::vector<solver::Holding> holdings_of(const solver::PipelinePlan& plan,
                                         const std::vector<std::int64_t>& lost) {
  std::vector<solver::Holding> holdings;
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const solver::PlanStage& stage = plan.stages[k];
    if (std::find(lost.begin(), lost.end(), stage.device_index) != lost.end()) continue;
    holdings.push_back({stage.device, stage.node, static_cast<std::size_t>(stage.first_layer),
                        stage.bitwidths, k == 0, k + 1 == plan.stages.size()});
  }
  return holdings;
}

/// The earlier plan where it can still be read on the new devices; else its micro-batch sizes only.
solver::Candidate earlier_candidate(const solver::Instance& instance,
                                    const solver::PipelinePlan& plan, bool all_there) {
  solver::Candidate earlier;
  try {
    if (all_there) earlier = solver::candidate_of(instance, plan);
  } catch (const Error&) {  // a device or bitwidth is gone: then there is nothing to keep whole
    earlier = {};
  }
  earlier.prefill_micro_batch_size = plan.prefill_micro_batch_size;
  earlier.decode_micro_batch_size = plan.decode_micro_batch_size;
  return earlier;
}

void push_moves(lua_State* L, const solver::Moves& moves) {
  lua_newtable(L);
  lua_kit::set_number(L, "moved_bytes", moves.moved_bytes);
  lua_kit::set_number(L, "kept_bytes", moves.kept_bytes);
  lua_kit::set_number(L, "moved_layers", static_cast<double>(moves.moved_layers));
}

}  // namespace

/// device_groups(problem): { { device, node, count }, ... } in the order that counts follow.
int device_groups(lua_State* L) {
  lua_newtable(L);
  int n = 0;
  for (const solver::DeviceGroup& group : problem_argument(L, 1).first.instance().groups) {
    lua_createtable(L, 0, 3);
    lua_kit::set_text(L, "device", group.name);
    lua_kit::set_text(L, "node", group.node);
    lua_kit::set_number(L, "count", group.count);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/// on_devices(problem, { index, ... }, batch_size): the problem on these devices of its cluster
/// (0-based), of so many of its requests (default: all), its choices open again.
int on_devices(lua_State* L) {
  const solver::OpenProblem& p = problem_argument(L, 1);
  const solver::BatchProblem* batch = p.first.batch();
  if (batch == nullptr) refuse("on_devices", "an instance has no cluster");
  std::vector<std::size_t> devices;
  lua_kit::for_each_item(L, 2, "devices", [&](std::size_t, const std::string& path) {
    const double last = static_cast<double>(batch->cluster.devices.size()) - 1;
    devices.push_back(static_cast<std::size_t>(lua_kit::check_integer(L, -1, path, 0, last)));
  });
  const std::int64_t all = batch->workload.batch_size;
  const std::int64_t requests =
      lua_isnoneornil(L, 3)
          ? all
          : lua_kit::check_integer(L, 3, "batch_size", 1, static_cast<double>(all));
  push_problem(L, solver::part_of(p, devices, requests));
  return 1;
}

/// with_one_more(problem, index): the problem with one more device beside one of its cluster's
/// (0-based), on the same node, its choices open again.
int with_one_more(lua_State* L) {
  const solver::OpenProblem& p = problem_argument(L, 1);
  const solver::BatchProblem* batch = p.first.batch();
  if (batch == nullptr) refuse("with_one_more", "an instance has no cluster");
  const double last = static_cast<double>(batch->cluster.devices.size()) - 1;
  const auto index = static_cast<std::size_t>(lua_kit::check_integer(L, 2, "index", 0, last));
  push_problem(L, solver::with_one_more(p, index));
  return 1;
}

/// with_devices(problem, counts): the problem on some of its devices.
int with_devices(lua_State* L) {
  const solver::OpenProblem& p = problem_argument(L, 1);
  push_problem(
      L, {solver::LoweredProblem(solver::with_devices(p.first, counts_argument(L, 2))), p.choices});
  return 1;
}

/// mix_bounds(problem, { counts, ... }): the least latency_s of each mix; math.huge where it
/// cannot hold the model.
int mix_bounds(lua_State* L) {
  const solver::Instance& instance = problem_argument(L, 1).first.instance();
  const solver::MixBound bound(instance);
  std::vector<double> latencies;
  lua_kit::for_each_item(L, 2, "mixes", [&](std::size_t, const std::string& path) {
    const auto counts = counts_argument(L, lua_gettop(L));
    if (counts.size() != instance.groups.size()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} counts for {} device groups", path, counts.size(),
                              instance.groups.size()),
                  "mixes");
    }
    latencies.push_back(bound.latency_s(counts));
  });
  lua_kit::push_numbers(L, latencies);
  return 1;
}

/// replan(plan, problem, optimum, { tolerance =, lost =, time_limit_s = }): the plan, and what it
/// moves.
int replan(lua_State* L) {
  const auto earlier = lua_kit::check_object<solver::Plan>(L, 1, "ts.replan plan");
  const solver::PipelinePlan& plan = pipeline_of(*earlier, "ts.replan plan");
  const solver::LoweredProblem& p = problem_argument(L, 2).first;
  const solver::Instance& instance = p.instance();
  const auto best = lua_kit::check_object<solver::Plan>(L, 3, "optimum");
  const solver::PipelinePlan& optimum = pipeline_of(*best, "optimum");
  const lua_kit::Options options(L, 4, replan_options(), "ts.replan");
  std::vector<std::int64_t> lost;
  if (options.given("lost")) lost = options.integers("lost");
  const auto holdings = holdings_of(plan, lost);
  const solver::WeightBytes weights = solver::weight_bytes(p.problem(), instance);
  solver::ReplanRequest request;
  request.optimum = solver::candidate_of(instance, optimum);
  request.max_objective =
      optimum.objective + std::fabs(optimum.objective) * (options.number("tolerance") + 1e-12);
  request.earlier = earlier_candidate(instance, plan, holdings.size() == plan.stages.size());
  request.time_limit_s = options.number("time_limit_s");
  const solver::Replanned found = solver::replan(instance, holdings, weights, request);

  solver::PlanResult result;
  result.status = solver::SolveStatus::feasible;
  result.candidate = found.plan;
  result.bound = optimum.bound;
  result.solve_s = optimum.solve_s;
  push_plan(L, p, result, "replan");
  push_moves(L, found.moves);
  lua_kit::set_number(L, "least_moved_bytes",
                      solver::least_moved_bytes(instance, holdings, weights));
  const auto fresh = solver::count_moves(instance, request.optimum, holdings, weights);
  lua_kit::set_number(L, "optimum_moved_bytes", fresh.moved_bytes);
  if (p.batch() != nullptr) {
    solver::BatchProblem batch = *p.batch();
    for (Node& node : batch.cluster.nodes) {
      if (!node.disk_bytes_per_s && options.given("source_bytes_per_s"))
        node.disk_bytes_per_s = options.number("source_bytes_per_s");
    }
    const solver::Transfer transfer =
        solver::transfer(batch, instance, found.plan, found.moves, holdings, weights);
    lua_kit::set_number(L, "transfer_s", transfer.seconds);
    if (!transfer.nodes_with_assumed_disk.empty()) {
      lua_kit::set_text(L, "transfer_assumes",
                        fmt::format("the disk of {} reads {:g} GB/s; say disk_bytes_per_s "
                                    "of its node, or source_bytes_per_s",
                                    join(transfer.nodes_with_assumed_disk, ", "),
                                    solver::kAssumedDiskBytesPerS / 1e9));
    }
  }
  lua_kit::set_boolean(L, "stopped", found.stopped);
  return 2;
}

}  // namespace tessera::solver_lua
