-- A fleet in words: what it costs and how far from that the best may be, what runs each model and how full it is, what
-- one more of anything is worth, and how its replicas were priced.

local core = require "tessera.core"

local function idle_words(fleet)
  local words = {}
  for _, class in ipairs(fleet.idle) do
    if class.gpus > 0 then
      words[#words + 1] = ("%d GPUs of %s (%d whole nodes)"):format(class.gpus, class.node_class, class.nodes)
    end
  end
  return #words > 0 and "idle: " .. table.concat(words, ", ") or "nothing is idle"
end

return function(fleet)
  local pricing, lines = fleet.pricing, { fleet.abstract:explain() }
  for _, model in ipairs(fleet.models) do
    lines[#lines + 1] = ("%s is %.0f %% full: %.4g of %.4g req/s"):format(model.name, 100 * model.load_ratio,
      model.demand_per_s, model.capacity_per_s)
  end
  lines[#lines + 1] = idle_words(fleet)
  lines[#lines + 1] = ("%d of %d shapes simulated in %d rounds, the others count at their bounds; %s in all"):format(
    pricing.simulated, pricing.shapes, pricing.rounds, core.format_seconds(fleet.solve_s))
  return table.concat(lines, "\n")
end
