-- vLLM as it comes: --pipeline-parallel-size N splits the layers evenly, whatever the devices are.
--
-- What the code does (vllm/distributed/utils.py, get_pp_indices): every stage holds floor(layers / stages); the layers
-- that are left over go one each to the last stage but one, the one before it and so on, never to the last, which
-- has the norm and the LM head. VLLM_PP_LAYER_PARTITION overrides the split; few set it. Earlier versions gave the
-- rest to the last stage.
-- What is ours: vLLM serves one checkpoint, so one bitwidth for all layers, the highest that fits; its scheduler
-- forms the batches, here the micro-batch sizes of least latency.

local search = require "tessera.planning.baselines"
local solver = require "tessera.solver"
local ts = require "tessera"

return ts.register_planner {
  name = "vllm_even",
  doc = "vLLM's even split in cluster order, one bitwidth lowered until it fits, best micro-batch sizes",
  source = "vLLM, get_pp_indices",
  plan = function(problem, opt)
    local order = opt.device_order or problem.devices
    if #order > problem.num_layers then
      return nil, ("%d stages and only %d layers"):format(#order, problem.num_layers)
    end
    return search.as_split(problem, opt, "vllm_even", order, solver.vllm_layer_split(problem.num_layers, #order))
  end,
}
