// Stages with heads on other devices, as scripts write them.

#include <algorithm>

#include "solver_lua.h"
#include "tessera/core/error.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"
#include "tessera/solver/problem/named_attention.h"

namespace tessera::solver_lua {
namespace {

const OptionTable& attention_options() {
  static const OptionTable table{"plan stage attention",
                                 "KV heads of a stage on another device, with their cache.",
                                 "",
                                 {{.name = "device",
                                   .type = OptionType::text,
                                   .doc = "Device name, \"T4-16G\" or \"T4-16G@node\"; it runs "
                                          "nothing else",
                                   .required = true},
                                  {.name = "ratio",
                                   .type = OptionType::number,
                                   .doc = "Of the KV heads, rounded to whole ones",
                                   .default_text = "1",
                                   .min = 0,
                                   .max = 1}}};
  return table;
}

std::string full_name(const std::string& device, const std::string& node) {
  return node.empty() ? device : device + "@" + node;
}

/// The stage on top of the stack, a table or a stage of another plan.
solver::NamedStage named_stage(lua_State* L, const std::string& where) {
  if (const auto* held = lua_kit::test_object<solver::PlanStage>(L, -1)) {
    const solver::PlanStage& stage = **held;
    solver::NamedStage named{full_name(stage.device, stage.node)};
    if (stage.attention) {
      const solver::StageAttention& there = *stage.attention;
      named.attention = {full_name(there.device, there.node), there.ratio};
    }
    return named;
  }
  solver::NamedStage named;
  lua_kit::push_field(L, -1, "device", where);
  named.device = lua_kit::check_text(L, -1, where + ".device");
  lua_pop(L, 1);
  if (lua_kit::push_field(L, -1, "attention", where)) {
    const lua_kit::Options options(L, lua_gettop(L), attention_options(), where + ".attention");
    named.attention = {options.text("device"), options.number("ratio")};
  }
  lua_pop(L, 1);
  return named;
}

/// Stages that candidate_argument has read.
std::vector<solver::NamedStage> named_stages(lua_State* L, int index, const std::string& path) {
  std::vector<solver::NamedStage> stages;
  lua_kit::push_field(L, index, "stages", path);
  lua_kit::for_each_item(
      L, lua_gettop(L), lua_kit::field_path(path, "stages"),
      [&](std::size_t, const std::string& where) { stages.push_back(named_stage(L, where)); });
  lua_pop(L, 1);
  return stages;
}

}  // namespace

Decision decision_argument(lua_State* L, int index, const solver::LoweredProblem& problem,
                           const std::string& path) {
  // Checks the table, whatever stands in it beside.
  Decision whole{problem, candidate_argument(L, index, problem.instance(), path), {}};
  const std::vector<solver::NamedStage> stages = named_stages(L, index, path);
  const bool divided = std::any_of(stages.begin(), stages.end(), [](const solver::NamedStage& s) {
    return s.attention.has_value();
  });
  if (!divided) return whole;
  const std::string where = lua_kit::field_path(path, "stages");
  const solver::BatchProblem* batch = problem.batch();
  if (batch == nullptr) {
    refuse(ErrorCode::unsupported, where, "an abstract instance has no heads to divide");
  }
  solver::PlacedAttention placed = solver::place_attention(*batch, stages, where);
  solver::Problem settled = problem.problem();
  settled.batch()->attention = std::move(placed.attention);
  whole.problem = solver::LoweredProblem(std::move(settled));
  whole.candidate.order = solver::groups_on(*whole.problem.batch(), placed.stages);
  whole.notes = std::move(placed.notes);
  return whole;
}

/// with_attention(problem, device, to, ratio): the problem with a share of the KV heads of whatever
/// stage is on a device (0-based) on another one, which no stage then uses; the ratio of whole
/// heads and a note where it is another. Of heads that share one cache nil, why.
int with_attention(lua_State* L) {
  const solver::OpenProblem& p = *lua_kit::check_object<solver::OpenProblem>(L, 1, "problem");
  if (p.first.batch() == nullptr) {
    refuse(ErrorCode::unsupported, "with_attention", "an abstract instance has no heads to divide");
  }
  solver::Problem problem = p.first.problem();
  solver::BatchProblem& batch = *problem.batch();
  const double last = static_cast<double>(batch.cluster.devices.size()) - 1;
  const auto device = static_cast<std::size_t>(lua_kit::check_integer(L, 2, "device", 0, last));
  const auto to = static_cast<std::size_t>(lua_kit::check_integer(L, 3, "to", 0, last));
  if (const auto reason = cost::why_no_attention_elsewhere(batch.model)) {
    return push_why(L, "unsupported", *reason, "attention");
  }
  std::vector<std::string> notes;
  const double ratio = solver::whole_heads_ratio(
      batch.model, lua_kit::check_number(L, 4, "ratio", 0, 1), "stage 0", notes);
  batch.attention.clear();
  if (ratio > 0) batch.attention = {{device, {to, ratio}}};
  solver::groups_of(batch);  // refuses what cannot be
  push_problem(L, {solver::LoweredProblem(std::move(problem), p.prices), p.choices, p.kernel_sets,
                   p.prices});
  lua_pushnumber(L, ratio);
  if (notes.empty()) {
    lua_pushnil(L);
  } else {
    lua_kit::push_text(L, notes.front());
  }
  return 3;
}

}  // namespace tessera::solver_lua
