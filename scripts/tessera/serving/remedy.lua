-- Where nothing serves a stream, or hardly: the smallest changes that do, each tried.

local core = require "tessera.core"
local copy = require "tessera.shallow_copy"
local device_types = require "tessera.planning.device_types"
local no_cpu = require "tessera.devices.no_cpu"
local plan_serving = require "tessera.serving.plan"

local M = {}

local most_devices, most_on_node = 32, 8
local looser = { 1.5, 2, 3, 4, 6, 8 } -- times the limits; longer ones nobody would set
local few_requests = 200
local least_rate_per_s = 0.05 -- below it, nobody would say that it serves

-- The first row of a search, or nil.
local function first_row(options)
  local ok, rows = pcall(plan_serving, options)
  local row = ok and rows and rows[1]
  return row and row.rate_per_s >= least_rate_per_s and row or nil
end

-- The search with some options changed; its first row, or nil. Short runs, which hold more than long ones, rule out
-- most of what does not serve; what is told is of runs as long as those of the answer.
local function try(asked, changes)
  local options = copy(asked)
  options.disaggregated, options.limit, options.num_requests = false, 1, few_requests
  for name, value in pairs(changes) do options[name] = value or nil end
  if not first_row(options) then return nil end
  options.num_requests = asked.num_requests
  return first_row(options)
end

local function served(row) return ("%s at %d bits, %.3g req/s"):format(row.layout, row.bitwidth, row.rate_per_s) end

-- Other bits than one number that was asked for: fewer, as a checkpoint of fewer has no more to give; else all.
local function bits_beside(asked)
  local others = {}
  for _, bits in ipairs { 16, 8, 4 } do
    if not asked or #asked > 1 or bits < asked[1] then others[#others + 1] = bits end
  end
  return others
end

-- What was asked of bits and quality, given up.
local function without_bounds(asked)
  local given_up, changes = {}, { bitwidths = bits_beside(asked.bitwidths) }
  for _, name in ipairs { "kv_bitwidths", "quality", "kernel_set", "tensor_parallel", "pipeline_parallel" } do
    if asked[name] ~= nil then
      changes[name], given_up[#given_up + 1] = false, "--" .. name:gsub("_", "-")
    end
  end
  if #given_up == 0 and asked.bitwidths == nil then return nil end
  if #changes.bitwidths == 0 then changes.bitwidths = asked.bitwidths end
  local row = try(asked, changes)
  if not row then return nil end
  local words = #given_up > 0 and { "without " .. table.concat(given_up, ", ") } or {}
  -- Those of a checkpoint nobody has given: say what to give.
  if asked.bitwidths and changes.bitwidths ~= asked.bitwidths then
    words[#words + 1] = ("with --bitwidths %d"):format(row.bitwidth)
  end
  if #words == 0 then return nil end
  return ("%s: %s"):format(table.concat(words, ", "), served(row))
end

-- What all devices serve where the rate that is wanted is more.
local function smaller_rate(asked)
  if (asked.objective or "rate") == "rate" then return nil end
  local row = try(asked, { objective = "rate" })
  return row and ("at a smaller rate: all devices, %s"):format(served(row))
end

-- So many devices of a type, on nodes of eight as machines have them, and what they are called.
local function nodes_of(own, count)
  local entries = {}
  for i = 1, math.ceil(count / most_on_node) do entries[i] = { own.device, math.min(count, most_on_node) } end
  local words = ("%d x %s"):format(math.min(count, most_on_node), own.name)
  return core.cluster(entries), #entries == 1 and words .. " on one node" or ("%d nodes of %s"):format(#entries, words)
end

-- As many devices of a type as serve, more than there are: by doubling. Shares of a CPU and Macs are what they are.
local function more_devices(asked, cluster)
  local best
  for _, own in ipairs(device_types(cluster)) do
    local count = 1
    while count <= #own.devices do count = 2 * count end
    if own.device.backend == "cpu" or own.device.backend == "metal" then count = most_devices + 1 end
    while count <= most_devices and not (best and count >= best.count) do
      local more, words = nodes_of(own, count)
      local row = try(asked, { cluster = more })
      if row then best = { count = count, text = ("with %s: %s"):format(words, served(row)) } end
      count = 2 * count
    end
  end
  return best and best.text
end

-- The first looser limits that serve at all, or at least a rate.
local function looser_limits(asked, at_least_per_s)
  for _, factor in ipairs(looser) do
    local slo = {}
    for metric, target in pairs(asked.slo) do
      if type(target) ~= "table" then return nil end -- classes of requests
      slo[metric] = {}
      for statistic, limit_s in pairs(target) do slo[metric][statistic] = factor * limit_s end
    end
    local row = try(asked, { slo = slo })
    if row and row.rate_per_s >= (at_least_per_s or 0) then
      return ("with limits %g times as long: %s"):format(factor, served(row))
    end
  end
end

-- A plan for one request at a time; `how` says what runs it.
local function one_at_a_time(asked, how)
  local problem = { model = asked.model, cluster = asked.cluster, workload = { batch_size = 1 } }
  local ok, plan = pcall(require("tessera").plan, problem, { time_limit_s = 2 })
  if not ok or not plan then return nil end
  return ("one request at a time: %g tok/s by a plan at %.3g bits; %s"):format(
    tonumber(("%.3g"):format(plan.throughput_tok_s)), plan.mean_bitwidth, how)
end

local with_llama_cpp = "`tessera plan --batch-size 1 --launch llama.cpp`"

-- llama.cpp keeps the layers that GPUs have no room for in the host's memory.
local function in_host_memory(asked, cluster)
  local planned = one_at_a_time(asked, with_llama_cpp)
  if planned then return planned end
  local model, memory = core.model(asked.model), 0
  local bytes = model.num_parameters / 2
  for _, device in ipairs(cluster.devices) do memory = memory + device.memory_bytes end
  local num_layers = math.floor(0.9 * math.min(1, memory / bytes) * model.num_layers)
  return ("llama.cpp at 4 bits (%s) keeps about %d of %d layers on the GPUs, the rest in the host's memory: "
    .. "llama-server --n-gpu-layers %d"):format(core.format_bytes(bytes), num_layers, model.num_layers, num_layers)
end

--- What looser limits would give where what stands first, a row, has less than a request at a time; nil: nothing more.
function M.relief(asked, row)
  if row.running >= 1 then return nil end
  local found = looser_limits(asked, 2 * row.rate_per_s)
  return found and "one request alone takes most of the limits: " .. found
end

--- Lines of what would serve, the nearest to what was asked first; empty: nothing that was tried does.
function M.lines(asked, reasons)
  local cluster, causes, lines = core.cluster(asked.cluster), {}, {}
  for _, refusal in ipairs(reasons) do causes[refusal.cause] = true end
  local function add(text) lines[#lines + 1] = text end
  add(without_bounds(asked))
  local at_less = smaller_rate(asked)
  add(at_less)
  local looser_words = at_less or causes.latency and looser_limits(asked)
  add(looser_words ~= at_less and looser_words or nil)
  add(more_devices(asked, cluster))
  if not no_cpu(cluster) then
    add(one_at_a_time(asked, "`tessera plan --batch-size 1 --save PLAN` and `tessera execute PLAN` run it here"))
  elseif not looser_words and (causes.memory or causes.latency) then
    add(in_host_memory(asked, cluster))
  elseif #lines == 0 then -- vLLM has no kernels there
    add(one_at_a_time(asked, with_llama_cpp))
  end
  return lines
end

return M
