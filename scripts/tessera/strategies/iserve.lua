-- iServe (arXiv 2501.13111). The paper claims: a user names a model and an intent, the system ranks its configurations
-- by estimates from a fingerprint (section 6, step I), takes the first that the GPUs have room for, block by block on
-- those with most free memory (II), and maps it to GPUs by their load (III): least-loaded, packing, or hybrid, which
-- packs GPUs below theta. Its code is not public. Assumed, where the paper is silent: theta, the order of equal GPUs,
-- how uneven stages fill up (ts.place says it), and that a model which finds no room is tried again when one leaves.

local ts = require "tessera"
local core = require "tessera.core"

return ts.register_strategy {
  name = "iserve",
  doc = "By its intent the first configuration that has room, on the GPUs that their load decides",
  source = "arXiv 2501.13111, section 6",
  options = {
    policy = { type = "any", default = "hybrid", doc = "Order of the GPUs, as ts.place has it" },
    theta = { type = "number", default = 0.5, min = 0, max = 1, doc = "hybrid: load from which a GPU is not packed" },
    account = { type = "string", default = "base", doc = "What a block takes, as ts.place has it: base or footprint" },
  },

  prepare = function(_, models)
    for _, model in ipairs(models) do
      if not model.estimates and not model.devices then
        core.refuse(("ts.deployment.models[%d]"):format(model.index),
          "iserve chooses among estimates: give estimates of ts.fingerprint, or devices")
      end
    end
  end,

  place = function(view, model, opt)
    local ranked = model.intent:rank(model.estimates)
    return ts.place(ranked, view.gpus, {
      num_layers = model.num_layers, policy = opt.policy, theta = opt.theta, account = opt.account,
    })
  end,
}
