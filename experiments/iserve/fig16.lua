-- Fig. 16: how many of 21 models have a place on eight GPUs, by iServe's intents and its baselines; two come every
-- three minutes, on two conversation traces of an hour in one at a medium load (factor 0.25 each).
--
-- Print: 21 under the intents of memory and of GPU hours, 20 of cost, 18 of least time, the last a Falcon-7B in uneven
-- stages of 10, 9, 7 and 6 layers. The 21 are not in print: here six models three times over and three small ones
-- again, Falcon-7B the last. What a GPU has room for is counted as in print, W + A of a model once (base), and with
-- what its GPUs replicate (footprint). Bounds were set before any run; the claim that does not hold is named after it.
local iserve = require "lib.papers.iserve"
local serving = require "lib.papers.iserve_serving"
local ts = require "tessera"

local intents, accounts = { "latency", "cost", "memory", "gpu_hours" }, { "base", "footprint" }
local deployed = {}
for _, account in ipairs(accounts) do
  for _, intent in ipairs(intents) do deployed[#deployed + 1] = intent .. ", " .. account end
end
for _, baseline in ipairs(serving.baselines) do deployed[#deployed + 1] = baseline end

local set = { every_s = 180 }
for _ = 1, 3 do
  for _, model in ipairs { "llama-2-13b", "llama-2-70b", "gpt-j-6b", "falcon-40b", "llama-2-7b", "falcon-7b" } do
    set[#set + 1] = model
  end
end
for _, model in ipairs { "gpt-j-6b", "llama-2-7b", "falcon-7b" } do set[#set + 1] = model end

return ts.experiment {
  name = "iserve/fig16",
  doc = "Models of 21 that have a place, and requests served, by intent and baseline",
  grid = { deployed = deployed },
  quick = {},
  columns = { "placed", "uneven", "gpus", "request_per_s", "p50_s", "memory_gb", "busy_ratio" },
  notes = { "uneven: models whose stages have layers by the room of their GPUs; layers: of these" },

  run = function(point)
    local traffic, why = serving.traffic("conv", 0.5, set)
    if not traffic then return { status = why.code, message = why.message } end
    local intent, account = point.deployed:match "^(.*), (.*)$"
    local served = serving.serve { set = set, traffic = traffic, together = 2,
      intent = intent and { minimise = intent },
      strategy = intent and { name = "iserve", account = account } or point.deployed }
    local row, layers = serving.row(served), {}
    row.placed, row.uneven, row.request_per_s = 0, 0, served.request_per_s
    for _, model in ipairs(served.models) do
      if model.placed then row.placed = row.placed + 1 end
      if model.placed and model.configuration.even == false then
        row.uneven, layers[#layers + 1] = row.uneven + 1, model.name .. " " .. table.concat(model.layers, " ")
      end
    end
    row.layers = table.concat(layers, ", ")
    return row
  end,

  check = function(t)
    local missing = serving.missing()
    if missing then return t:skip("not checked: " .. missing.message) end
    for _, account in ipairs(accounts) do
      local function of(at, intent) return at { deployed = intent .. ", " .. account } end
      iserve.within(t, account .. ": models placed for least memory, all of which fit in INT4, print 21",
        function(at) return of(at, "memory").placed end, 21, 21)
      for _, pair in ipairs { { "memory", "gpu_hours", 0 }, { "gpu_hours", "cost", 21 }, { "cost", "latency", 21 } } do
        local more, less, most = unpack(pair)
        iserve.within(t, ("%s: models placed under the intent of %s less those of %s"):format(account, more, less),
          function(at) return of(at, more).placed - of(at, less).placed end, 0, most)
      end
      iserve.within(t, account .. ": models in uneven stages, of all intents", function(at)
        local count = 0
        for _, intent in ipairs(intents) do count = count + of(at, intent).uneven end
        return count
      end, 1, 4 * 21, account == "base" and { here = { 0, 0 }, why = "so counted all 21 have room in even stages" }
        or nil)
    end
  end,
}
