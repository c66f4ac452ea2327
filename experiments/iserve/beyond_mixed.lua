-- Beyond the paper, which leaves it to future work (section 9): GPUs of several types in one cluster, a fingerprint of
-- each, stages of several types. For one model: the best by each intent of both types alone and of the two together;
-- and what one fingerprint, of the first type, would have said of the other's rows.
--
-- Bounds were set before any run. A request that runs alone gains nothing by a slower GPU: mixing was expected to gain
-- nothing wherever the model has room on one type, and to be what makes room elsewhere.
local iserve = require "lib.papers.iserve"
local ts = require "tessera"

-- Two types each, a node of either.
local clusters = {
  { "(2xA100-80G)", "(4xT4-16G)" }, { "(4xA6000)", "(4xV100-32G)" }, { "(1xA100-80G)", "(4xV100-32G)" },
}
local names, parts_of = {}, {}
for i, parts in ipairs(clusters) do
  names[i] = table.concat(parts, " + ")
  parts_of[names[i]] = parts
end
local value_of = { latency = "latency_s", cost = "cost_byte_s" }

local function select(model, cluster, intent, schemes)
  return ts.select { model = model, cluster = cluster, intent = { minimise = intent }, schemes = schemes,
    kernel_set = iserve.tensorrt_llm, prompt_tokens = iserve.prompt_tokens, output_tokens = iserve.output_tokens }
end

-- "int4 (2, 1) on A100-80G", of stages of several types "fp16 (1, 3) on A100-80G + 2xV100-32G, layers 40+20+20"
local function words(placed)
  if not placed then return "no room" end
  local row, counts, order = placed.configuration, {}, {}
  for _, name in ipairs(row.device_types) do
    if not counts[name] then order[#order + 1] = name end
    counts[name] = (counts[name] or 0) + row.tensor_parallel
  end
  for i, name in ipairs(order) do order[i] = ("%dx%s"):format(counts[name], name) end
  return ("%s on %s%s"):format(iserve.name(row), table.concat(order, " + "),
    placed.even and "" or ", layers " .. table.concat(placed.layers, "+"))
end

-- Time of a row on the stages that it was given.
local function placed_s(placed)
  local row = placed.configuration
  if not row.by_type then return row.latency_s end
  local seconds, all = 0, 0
  for k, layers in ipairs(placed.layers) do
    local own = row.by_type[row.device_types[k]]
    seconds = seconds + layers * (own.ttft_s + (iserve.output_tokens - 1) * own.tpot_s)
    all = all + layers
  end
  return seconds / all
end

-- What the placed configuration takes.
local function value(found, intent)
  if not found.placed then return nil end
  if intent == "latency" then return placed_s(found.placed) end
  return found.placed.configuration[value_of[intent]]
end

-- FP16 on a GPU of the second type by its own fingerprint, over what that of the first says; nil: no room for such.
local function one_for_all(mixed, parts)
  local function on(part)
    local name = ts.cluster(part).devices[1].name
    for _, row in ipairs(mixed.ranked) do
      if row.scheme == "fp16" and row.num_gpus == 1 and row.device_types[1] == name then return row end
    end
  end
  local first, second = on(parts[1]), on(parts[2])
  return first and second and second.latency_s / first.latency_s or nil
end

return ts.experiment {
  name = "iserve/beyond_mixed",
  doc = "One model on GPUs of two types: alone, and together by a fingerprint of each",
  grid = { cluster = names, model = { "llama-2-13b", "llama-2-70b" }, scheme = { "any", "fp16" },
    intent = { "latency", "cost" } },
  quick = {},
  columns = { "first_alone", "second_alone", "together", "gain_ratio", "goes_to", "first_says_ratio" },
  notes = {
    "first_alone, second_alone, together: s, or GB s; empty: no room",
    "gain_ratio: 1 less together over the better alone; scheme fp16: no other may be taken",
    "first_says_ratio: time of FP16 on the second type over what a fingerprint of the first says of it",
    ("kernel set %s; networks between nodes 100 Gb/s"):format(iserve.tensorrt_llm),
  },

  run = function(point)
    local schemes = point.scheme ~= "any" and { point.scheme } or nil
    local parts = parts_of[point.cluster]
    local mixed = select(point.model, point.cluster, point.intent, schemes)
    local scale = point.intent == "cost" and 1e-9 or 1
    local alone, best = {}, nil
    for i, part in ipairs(parts) do
      alone[i] = value(select(point.model, part, point.intent, schemes), point.intent)
      if alone[i] and (not best or alone[i] < best) then best = alone[i] end
    end
    local together = value(mixed, point.intent)
    return { first_alone = alone[1] and alone[1] * scale, second_alone = alone[2] and alone[2] * scale,
      together = together and together * scale, gain_ratio = best and together and 1 - together / best,
      goes_to = words(mixed.placed), first_says_ratio = one_for_all(mixed, parts) }
  end,

  check = function(t)
    iserve.within(t, "the largest gain where one type has room", function(_, rows)
      local most = -math.huge
      for _, row in ipairs(rows) do most = math.max(most, row.gain_ratio or -math.huge) end
      return most
    end, 0, 0.01)
    iserve.within(t, "the least gain where one type has room", function(_, rows)
      local least = math.huge
      for _, row in ipairs(rows) do least = math.min(least, row.gain_ratio or math.huge) end
      return least
    end, -1e-9, 0.01)
    iserve.within(t, "cases in which only both types together have room", function(_, rows)
      local count = 0
      for _, row in ipairs(rows) do
        if row.together and not row.first_alone and not row.second_alone then count = count + 1 end
      end
      return count
    end, 1, 8)
    iserve.within(t, "Llama-2-13B in FP16: a V100 over what an A6000's fingerprint says", function(at)
      return at({ cluster = names[2], model = "llama-2-13b", scheme = "fp16", intent = "latency" }).first_says_ratio
    end, 0.6, 1.5)
    iserve.within(t, "Llama-2-13B in FP16: a T4 over what an A100's fingerprint says", function(at)
      return at({ cluster = names[1], model = "llama-2-13b", scheme = "fp16", intent = "latency" }).first_says_ratio
    end, 3, 10)
  end,
}
