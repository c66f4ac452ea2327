-- A planner to start from: copy this file into a folder `planners` of TESSERA_PATH (or `require` it), rename it, and
-- change `plan`. ts.plan(problem, { planner = "my_planner" }) then runs it; what it returns is checked and priced.

local ts = require "tessera"

return ts.register_planner {
  name = "my_planner",
  doc = "Layers in equal parts, at the highest bitwidth that fits",
  source = "", -- the paper it comes from
  options = { -- each a name, type (number, integer, boolean, string), default, range and doc
    lowest_bitwidth = { type = "integer", default = 2, min = 2, max = 16, doc = "None below it (bits)" },
  },

  -- `problem` is what `tessera help tessera.Problem` says, without open choices; `opt` has what ts.plan was given.
  -- Returns stages and both micro-batch sizes, or nil and why.
  plan = function(problem, opt)
    local order, why = opt.device_order or problem.devices, "no bitwidth is allowed"
    for b = #problem.bitwidths, 1, -1 do
      if problem.bitwidths[b] < opt.lowest_bitwidth then break end
      local candidate = {
        stages = {},
        prefill_micro_batch_size = opt.prefill_micro_batch_size or 1,
        decode_micro_batch_size = opt.decode_micro_batch_size or 1,
      }
      for k, device in ipairs(order) do
        local stage = { device = device, bitwidths = {} }
        local first = math.floor(problem.num_layers * (k - 1) / #order)
        local last = math.floor(problem.num_layers * k / #order)
        for i = 1, last - first do stage.bitwidths[i] = problem.bitwidths[b] end
        candidate.stages[k] = stage
      end
      local priced = problem:evaluate(candidate)
      if priced.fits then return candidate end
      why = priced.message
    end
    return nil, why
  end,
}
