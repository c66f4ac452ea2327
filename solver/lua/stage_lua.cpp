// The parts of a plan as scripts see them.

#include <fmt/format.h>

#include "core_lua.h"
#include "plan_values.h"
#include "solver_lua.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/object.h"

namespace tessera {

using solver::PlanStage;
using solver::StageMemory;

namespace {

std::string memory_summary(const StageMemory& m) {
  return fmt::format("memory: {} of {}", format_bytes(m.total_bytes),
                     format_bytes(m.capacity_bytes));
}

std::string memory_description(const StageMemory& m) {
  return fmt::format("{}: weights {}, KV cache {}, activations {}, embeddings {}, reserve {}",
                     memory_summary(m), format_bytes(m.weight_bytes),
                     format_bytes(m.kv_cache_bytes), format_bytes(m.activation_bytes),
                     format_bytes(m.embedding_bytes), format_bytes(m.reserve_bytes));
}

std::string stage_summary(const PlanStage& s) {
  return fmt::format("stage on {}{}{}: {} layers from {}, prefill {}, decode {}", s.device,
                     s.node.empty() ? "" : "@", s.node, s.num_layers, s.first_layer,
                     format_seconds(s.prefill_s), format_seconds(s.decode_s));
}

}  // namespace

template <>
const lua_kit::ObjectType<StageMemory>& lua_kit::object_type<StageMemory>() {
  static const ObjectType<StageMemory> type{.name = "tessera.StageMemory",
                                            .doc = "Where the memory of a stage goes.",
                                            .fields = fields_of<StageMemory>(),
                                            .methods = {},
                                            .summary = memory_summary,
                                            .describe = memory_description};
  return type;
}

template <>
const lua_kit::ObjectType<PlanStage>& lua_kit::object_type<PlanStage>() {
  static const ObjectType<PlanStage> type{.name = "tessera.Stage",
                                          .doc = "Consecutive layers on one device.",
                                          .fields = fields_of<PlanStage>(),
                                          .methods = {},
                                          .summary = stage_summary,
                                          .describe = [](const PlanStage& s) {
                                            return stage_summary(s) + "\n  " +
                                                   memory_description(s.memory);
                                          }};
  return type;
}

namespace solver_lua {

void register_stage(lua_State* L) {
  lua_kit::register_object<PlanStage>(L);
  lua_kit::register_object<StageMemory>(L);
  core_lua::environment(L).reference.add_object<PlanStage>();
  core_lua::environment(L).reference.add_object<StageMemory>();
}

}  // namespace solver_lua
}  // namespace tessera
