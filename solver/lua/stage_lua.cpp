// The parts of a plan as scripts see them.

#include <fmt/format.h>

#include "core_lua.h"
#include "solver_lua.h"
#include "tessera/core/json.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/object.h"
#include "tessera/lua_kit/value.h"

namespace tessera {

using solver::PlanStage;
using solver::StageMemory;

namespace {

template <auto member, class T>
void push_member(lua_State* L, const T& object) {
  lua_pushnumber(L, static_cast<double>(object.*member));
}

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
  using M = StageMemory;
  static const ObjectType<M> type{
      .name = "tessera.StageMemory",
      .doc = "Where the memory of a stage goes.",
      .fields = {{"weight_bytes", "number", "Decoder layers at their bitwidths (bytes)",
                  push_member<&M::weight_bytes>},
                 {"kv_cache_bytes", "number", "Whole batch, full length (bytes)",
                  push_member<&M::kv_cache_bytes>},
                 {"activation_bytes", "number", "Peak of either phase (bytes)",
                  push_member<&M::activation_bytes>},
                 {"embedding_bytes", "number", "Embeddings and LM head held here (bytes)",
                  push_member<&M::embedding_bytes>},
                 {"reserve_bytes", "number", "Runtime and allocator (bytes)",
                  push_member<&M::reserve_bytes>},
                 {"total_bytes", "number", "Sum of the above (bytes)",
                  push_member<&M::total_bytes>},
                 {"capacity_bytes", "number", "Of the device (bytes)",
                  push_member<&M::capacity_bytes>}},
      .methods = {},
      .summary = memory_summary,
      .describe = memory_description};
  return type;
}

template <>
const lua_kit::ObjectType<PlanStage>& lua_kit::object_type<PlanStage>() {
  using S = PlanStage;
  static const ObjectType<S> type{
      .name = "tessera.Stage",
      .doc = "Consecutive layers on one device.",
      .fields = {{"device", "string", "Device type",
                  [](lua_State* L, const S& s) { push_text(L, s.device); }},
                 {"node", "string", "Node that holds it; empty for an instance",
                  [](lua_State* L, const S& s) { push_text(L, s.node); }},
                 {"device_index", "integer", "Into the cluster's devices (0-based)",
                  push_member<&S::device_index>},
                 {"first_layer", "integer", "First layer (0-based)", push_member<&S::first_layer>},
                 {"num_layers", "integer", "Layers", push_member<&S::num_layers>},
                 {"bitwidths", "integer[]", "One per layer (bits)",
                  [](lua_State* L, const S& s) {
                    push_numbers(L, {s.bitwidths.begin(), s.bitwidths.end()});
                  }},
                 {"prefill_s", "number", "One prefill pass of one micro-batch (s)",
                  push_member<&S::prefill_s>},
                 {"decode_s", "number", "One decode step of one micro-batch (s)",
                  push_member<&S::decode_s>},
                 {"memory", "tessera.StageMemory", "Where its memory goes",
                  [](lua_State* L, const S& s) {
                    push_object<StageMemory>(L, std::make_shared<StageMemory>(s.memory));
                  }},
                 {"offload", "table?",
                  "Of a plan that offloads: shares of weights, kv_cache and activations on device, "
                  "host and disk; host_bytes, disk_bytes",
                  [](lua_State* L, const S& s) {
                    push_json(L, s.offload ? to_json(*s.offload) : Json());
                  }}},
      .methods = {},
      .summary = stage_summary,
      .describe = [](const S& s) {
        return stage_summary(s) + "\n  " + memory_description(s.memory);
      }};
  return type;
}

namespace solver_lua {

void push_stages(lua_State* L, const std::vector<PlanStage>& stages) {
  lua_createtable(L, static_cast<int>(stages.size()), 0);
  int k = 0;
  for (const PlanStage& stage : stages) {
    lua_kit::push_object<PlanStage>(L, std::make_shared<PlanStage>(stage));
    lua_rawseti(L, -2, ++k);
  }
}

void register_stage(lua_State* L) {
  lua_kit::register_object<PlanStage>(L);
  lua_kit::register_object<StageMemory>(L);
  core_lua::environment(L).reference.add_object<PlanStage>();
  core_lua::environment(L).reference.add_object<StageMemory>();
}

}  // namespace solver_lua
}  // namespace tessera
