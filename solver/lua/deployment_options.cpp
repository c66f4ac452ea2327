// Options of ts.deployment and of what it consists of.

#include "deployment_lua.h"
#include "tessera/lua_kit/record.h"
#include "tessera/solver/deploy/step_mix.h"

namespace tessera::solver_lua {

const OptionTable& one_pool_options() {
  static const OptionTable table = lua_kit::option_table<solver::PoolOptions>(
      {"ts.deployment.pool",
       "Engines of one role; what is left out is the deployment's.",
       "table",
       {}});
  return table;
}

const OptionTable& transfer_options() {
  static const OptionTable table = lua_kit::option_table<serving::KvTransfer>(
      {"ts.deployment.transfer",
       "How keys and values go from prefill to decode engines.",
       "table",
       {}});
  return table;
}

const OptionTable& deployment_options() {
  static const OptionTable table = [] {
    OptionTable t = lua_kit::option_table<solver::PoolOptions>(
        {"ts.deployment",
         "Engines that serve together: of a plan, of a model on a cluster, or of step "
         "costs without a model.",
         "tessera.Deployment",
         {}});
    std::erase_if(t.options, [](const OptionSpec& option) { return option.name == "role"; });
    t = lua_kit::option_table<solver::DeploymentOptions>(std::move(t));
    // Read by scripts/tessera/serving/models.lua, which makes them what the simulator takes.
    t.options.push_back({.name = "models",
                         .type = OptionType::table,
                         .doc =
                             "Several models that share the cluster's GPUs: a list of options of "
                             "ts.deployment.models",
                         .lua_type = "table[]",
                         .flag = false});
    t.options.push_back({.name = "strategy",
                         .type = OptionType::table,
                         .doc = "With models: where each goes, the name of a strategy or "
                                "a table of options of ts.deployment.strategy",
                         .default_text = "\"iserve\"",
                         .lua_type = "string|table",
                         .flag = false});
    return t;
  }();
  return table;
}

const OptionTable& step_options() {
  static const OptionTable table = lua_kit::option_table<solver::StepMix>(
      {"deployment:step_s",
       "Time of a step on the first engine (s): prompts and decodes of one size each.",
       "number",
       {}});
  return table;
}

}  // namespace tessera::solver_lua
