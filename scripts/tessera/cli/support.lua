-- `tessera support`: whether a model fits on a device and runs there, by bitwidth, and how sure its times are.

local core = require "tessera.core"
local cost = require "tessera.cost"
local host = require "tessera.host"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local M = {}

local most_devices = 64
-- How sure times are, best first.
local rank = { measured = 1, fitted = 2, published = 3, modelled = 4 }

-- Words of the command line: model, device, bitwidth or nil.
local function words_of(given)
  local names = given.names
  if #names < 2 or #names > 3 then
    core.raise("usage", "name a model and a device, and a bitwidth if you like: tessera support llama-3.1-8b L4 4",
      "tessera support")
  end
  if not names[3] then return names[1], names[2] end
  local bitwidth = tonumber(names[3])
  if not bitwidth or bitwidth % 1 ~= 0 or bitwidth < 1 or bitwidth > 16 then
    core.raise("usage", ("'%s' is no bitwidth; 3, 4, 8 and 16 are"):format(names[3]), "tessera support")
  end
  return names[1], names[2], bitwidth
end

local function problem_of(model, device, count, bitwidth, set, given)
  return ts.problem {
    model = model, cluster = { { device, count, node = "node" } }, kernel_set = set, bitwidths = { bitwidth },
    workload = { prompt_tokens = given.context_tokens - 1, output_tokens = 1, batch_size = given.batch_size },
  }
end

-- Layers dealt evenly to the devices, the whole batch in every decode step: nothing is searched.
local function even_plan(model, device, count, bitwidth, batch_size)
  local stages = {}
  for k = 1, count do
    local num_layers = math.floor(model.num_layers * k / count) - math.floor(model.num_layers * (k - 1) / count)
    local bitwidths = {}
    for i = 1, num_layers do bitwidths[i] = bitwidth end
    stages[k] = { device = device.name, bitwidths = bitwidths }
  end
  return { planner = "manual", stages = stages, prefill_micro_batch_size = 1, decode_micro_batch_size = batch_size }
end

-- The fewest devices of one node that hold it, by doubling, and the plan on them; nil and why where none does.
local function fewest(model, device, bitwidth, set, given)
  local first_why
  local count = 1
  while count <= math.min(most_devices, model.num_layers) do
    local ok, plan, why = pcall(function()
      return ts.plan(problem_of(model, device, count, bitwidth, set, given),
        even_plan(model, device, count, bitwidth, given.batch_size))
    end)
    if not ok then return nil, core.error_text(plan) end
    if plan then return count, plan, first_why end
    first_why = first_why or why.message
    count = count * 2
  end
  return nil, first_why
end

local function need_of(plan)
  local bytes, capacity, decode_s = 0, 0, 0
  for _, stage in ipairs(plan.stages) do
    bytes, capacity = bytes + stage.memory.total_bytes, capacity + stage.memory.capacity_bytes
    decode_s = decode_s + stage.decode_s
  end
  return bytes, capacity, decode_s
end

-- The kernel set that a plan takes where none is named; nil where none has such a kernel.
local function recommended_set(model, device, bitwidth)
  local ok, problem = pcall(ts.problem, { model = model, cluster = { { device, 1 } }, bitwidths = { bitwidth } })
  if ok then return problem.kernel_set end
end

local function row_of(model, device, bitwidth, name, given)
  local kernel, why_not = cost.kernel(name, device, bitwidth)
  if not kernel then return { bitwidth = bitwidth, kernel_set = name, runs = false, why_not = why_not } end
  local count, plan, why = fewest(model, device, bitwidth, name, given)
  if not count then return { bitwidth = bitwidth, kernel_set = name, kernel = kernel, runs = false, why_not = plan } end
  local bytes, capacity, decode_s = need_of(plan)
  return {
    bitwidth = bitwidth, kernel_set = name, kernel = kernel, runs = count == 1, devices = count,
    needs_bytes = bytes, has_bytes = capacity, times = plan.provenance, error = plan.error,
    decode_tok_s = given.batch_size / decode_s, why_not = why,
  }
end

-- Whether row a says more than b: it runs, on fewer devices, by times that are surer, with the recommended kernels.
local function is_better(a, b)
  if (a.devices or math.huge) ~= (b.devices or math.huge) then
    return (a.devices or math.huge) < (b.devices or math.huge)
  end
  if a.times ~= b.times then return (rank[a.times] or 9) < (rank[b.times] or 9) end
  if (a.error == nil) ~= (b.error == nil) then return a.error ~= nil end
  if a.recommended ~= b.recommended then return a.recommended end
  return (a.decode_tok_s or 0) > (b.decode_tok_s or 0)
end

-- Of all kernel sets the one that says most, and the others that run it too.
local function best_of(rows)
  table.sort(rows, function(a, b)
    if is_better(a, b) then return true end
    if is_better(b, a) then return false end
    return a.kernel_set < b.kernel_set
  end)
  local best, also = rows[1], {}
  for i = 2, #rows do
    if rows[i].devices then also[#also + 1] = rows[i].kernel_set end
  end
  best.also = table.concat(also, " ")
  return best
end

local function sentence(row, device)
  local name = ("%2d bit: "):format(row.bitwidth)
  if not row.devices then return name .. "runs nowhere here: " .. (row.why_not or "") end
  local need = ("%.1f GiB of %.1f GiB"):format(row.needs_bytes / 2 ^ 30, row.has_bytes / 2 ^ 30)
  local sure = row.error and ("%s, held-out error %.2g %%"):format(row.times, row.error * 100)
    or row.times == "modelled" and "modelled: nothing was measured of it" or row.times
  local how = ("kernel set %s (%s), %.0f tok/s, %s"):format(row.kernel_set, row.kernel, row.decode_tok_s, sure)
  local also = row.also ~= "" and "; also " .. row.also or ""
  if row.runs then return ("%sfits, %s; %s%s"):format(name, need, how, also) end
  return ("%stoo large for one %s; %d hold it, %s; %s%s"):format(name, device.name, row.devices, need, how, also)
end

--- @param given table the flags; names: model, device, bitwidth
function M.main(given)
  local model_name, device_name, bitwidth = words_of(given)
  given.batch_size = given.batch_size or 1
  local model = ts.model(model_name)
  local device = ts.device(device_name)
  given.context_tokens = given.context_tokens or math.min(4096, model.max_context_tokens)
  if given.context_tokens > model.max_context_tokens then
    core.raise("usage", ("--context-tokens %d is more than the %d that %s can have"):format(given.context_tokens,
      model.max_context_tokens, model.name), "--context-tokens")
  end
  local sets = given.kernel_set and { given.kernel_set } or core.names "kernel_sets"
  local rows = {}
  for i, bits in ipairs(bitwidth and { bitwidth } or { 16, 8, 4, 3 }) do
    local found = {}
    local recommended = recommended_set(model, device, bits)
    for k, set in ipairs(sets) do
      found[k] = row_of(model, device, bits, set, given)
      found[k].recommended = set == recommended
    end
    rows[i] = best_of(found)
  end
  if host.json then
    host.set_result { model = model.name, device = device.name, context_tokens = given.context_tokens,
      batch_size = given.batch_size, rows = rows }
  else
    print(("%s on %s, %d request%s of %d tokens"):format(model.name, device.name, given.batch_size,
      given.batch_size == 1 and "" or "s", given.context_tokens))
    for _, row in ipairs(rows) do terminal.say("  " .. sentence(row, device) .. "\n") end
  end
  for _, row in ipairs(rows) do
    if row.devices then return 0 end
  end
  return 3
end

return M
