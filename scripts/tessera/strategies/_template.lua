-- A strategy to start from: copy this file into a folder `strategies` of TESSERA_PATH (or `require` it), rename it, and
-- change `place`. ts.deployment { models = ..., strategy = "my_strategy" } then runs it.

local ts = require "tessera"

return ts.register_strategy {
  name = "my_strategy",
  doc = "Each model whole on the GPU with most free memory",
  source = "", -- where it comes from
  options = { -- each a name, type (number, integer, boolean, string), default, range and doc
    most_load = { type = "number", default = 1, min = 0, max = 1, doc = "GPUs above it get no more models" },
  },

  -- Called when a run begins, with all models and the traffic. What `place` shall know of them it keeps in `opt`.
  prepare = function(_, models, traffic, opt) opt.requests_per_model = traffic.num_requests / #models end,

  -- Called when a model comes. view.gpus are all GPUs: index (from 0), device, total_bytes, free_bytes, load, models.
  -- The model has name, estimates (a row for each configuration), intent, slo, num_layers. Returns devices (from 0,
  -- stage after stage), layers of each stage and the row that runs there, or nil and why.
  place = function(view, model, opt)
    local best
    for _, gpu in ipairs(view.gpus) do
      if gpu.load <= opt.most_load and (not best or gpu.free_bytes > best.free_bytes) then best = gpu end
    end
    if not best then return nil, "every GPU is loaded" end
    for _, row in ipairs(model.intent:rank(model.estimates)) do
      if row.num_gpus == 1 and row.base_bytes <= best.free_bytes then
        return { devices = { best.index }, layers = { model.num_layers }, configuration = row }
      end
    end
    return nil, "no configuration for one GPU has room"
  end,
}
