#pragma once

#include "tessera/lua_kit/record.h"
#include "tessera/solver/plan/plan.h"

/// The parts of a plan that scripts see as objects. Inside this module only.
namespace tessera::lua_kit {

template <>
struct ScriptValue<solver::StageMemory> : ObjectValue<solver::StageMemory> {};
template <>
struct ScriptValue<solver::PlanStage> : ObjectValue<solver::PlanStage> {};

}  // namespace tessera::lua_kit
