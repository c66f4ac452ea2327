-- A fleet in words: what it costs and how far from that the best may be, what runs each model and how full it is, what
-- one more of anything is worth, how its replicas were priced, and the way to it from what runs.

local classes = require "tessera.fleets.classes"
local core = require "tessera.core"

local function idle_words(fleet)
  local words = {}
  for _, class in ipairs(fleet.idle) do
    if class.gpus > 0 then
      words[#words + 1] = ("%d GPU%s of %s"):format(class.gpus, class.gpus == 1 and "" or "s", class.node_class)
        .. (class.nodes > 0 and (" (%d whole node%s)"):format(class.nodes, class.nodes == 1 and "" or "s") or "")
    end
  end
  return #words > 0 and "idle: " .. table.concat(words, ", ") or "nothing is idle"
end

-- What is served less than before and after, while old and new change places.
local function short_words(moves)
  local words = {}
  for name, scale in pairs(moves.least_scale) do
    if scale < 1 - 1e-9 then words[#words + 1] = ("%s at %.2f times its demand"):format(name, scale) end
  end
  table.sort(words)
  return #words > 0 and "; on the way " .. table.concat(words, ", ") or ""
end

local function moves_words(moves)
  local text = ("from what runs: %d replicas start, %d stop, %d stay"):format(moves.starts, moves.stops, moves.kept)
  if moves.usd > 0 then text = text .. (", %.2f USD"):format(moves.usd) end
  if moves.loading_s and moves.starts > 0 then
    text = text .. (", %s until the slowest node has loaded its weights%s"):format(core.format_seconds(moves.loading_s),
      #moves.assumed_disks > 0 and " (of disks nobody named: 2 GB/s)" or "")
  end
  local full = #moves.full_nodes
  if full > 0 then
    text = text .. ("; on %s the old has to stop first%s"):format(
      full > 4 and ("%d nodes"):format(full) or table.concat(moves.full_nodes, ", "), short_words(moves))
  elseif moves.starts > 0 and moves.stops > 0 then
    text = text .. "; all that starts is up before anything stops"
  end
  return text
end

-- Where requests of each class go: "short requests of chat: 64 % to 2xL4, 8 bits; 36 % to 1xA100-40G, 16 bits".
local function classes_words(fleet, model)
  local asked
  for _, each in ipairs(fleet.options and fleet.options.models or {}) do
    if each.name == model.name then asked = each end
  end
  local lines, shares, order = {}, {}, {}
  for _, row in ipairs(fleet.replicas) do
    for _, part in ipairs(row.model == model.name and row.shares or {}) do
      for b, share in ipairs(part.share) do
        shares[b], order[b] = shares[b] or {}, order[b] or {}
        if share > 0 then
          if not shares[b][row.label] then order[b][#order[b] + 1] = row.label end
          shares[b][row.label] = (shares[b][row.label] or 0) + part.count * share
        end
      end
    end
  end
  local names = asked and classes.of(asked)
  for b, labels in ipairs(order) do
    local words = {}
    for i, label in ipairs(labels) do words[i] = ("%.0f %% to %s"):format(100 * shares[b][label], label) end
    lines[b] = ("%s requests of %s: %s"):format(names and names[b].name or ("class %d"):format(b - 1), model.name,
      #words > 0 and table.concat(words, "; ") or "none")
  end
  return lines
end

-- Pairs of pools that run a model, by kind: which engines compute its prompts, which its tokens.
local function pair_words(fleet, model)
  local lines = {}
  for _, row in ipairs(fleet.columns) do
    if row.model == model.name and row.replicas > 0 and #(row.parts or {}) > 1 then
      local read, write = row.parts[1], row.parts[2]
      local function pool(part) return ("%d engine%s"):format(part.engines, part.engines == 1 and "" or "s") end
      lines[#lines + 1] = ("%d pair%s of pools of %s, on a node each: prompts by %s of %s, tokens by %s of %s"):format(
        row.replicas, row.replicas == 1 and "" or "s", model.name, pool(read), read.device, pool(write), write.device)
    end
  end
  return lines
end

return function(fleet)
  local pricing, lines = fleet.pricing, { fleet.solved:explain() }
  for _, model in ipairs(fleet.models) do
    if model.demand_per_s > 0 then
      lines[#lines + 1] = ("%s is %.0f %% full: %.4g of %.4g req/s"):format(model.name, 100 * model.load_ratio,
        model.demand_per_s, model.capacity_per_s)
    end
    for _, line in ipairs(classes_words(fleet, model)) do lines[#lines + 1] = line end
    for _, line in ipairs(pair_words(fleet, model)) do lines[#lines + 1] = line end
  end
  lines[#lines + 1] = idle_words(fleet)
  if pricing then
    lines[#lines + 1] = ("%d of %d shapes simulated in %d rounds, the others count at their bounds; %s in all"):format(
      pricing.simulated, pricing.shapes, pricing.rounds, core.format_seconds(fleet.solve_s))
  end
  for i = #fleet.solved.notes + 1, #fleet.notes do lines[#lines + 1] = "note: " .. fleet.notes[i] end
  if fleet.moves then lines[#lines + 1] = moves_words(fleet.moves) end
  return table.concat(lines, "\n")
end
