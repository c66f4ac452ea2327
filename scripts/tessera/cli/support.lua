-- `tessera support`: whether a model fits on devices and runs there, by bitwidth, and how sure its times are; of a
-- model alone, on which devices.

local beside = require "tessera.models.beside"
local core = require "tessera.core"
local cost = require "tessera.cost"
local host = require "tessera.host"
local hub = require "tessera.launch.hub"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local M = {}

local most_devices = 64
-- Servers compute longer prompts in pieces (vLLM's max_num_batched_tokens: 8,192 at most, on most GPUs 2,048), so that
-- buffers grow no further.
local longest_whole_tokens, chunk_tokens = 8192, 2048
-- Devices of a node, which share every layer; more nodes are stages after one another.
local node_devices = 8

-- Words of the command line: model, devices (none: all of them), bitwidth or nil. A bitwidth is what comes last and is
-- the name of no device.
local function words_of(given)
  local names = given.names
  if #names < 1 then
    core.raise("usage", "name a model, and devices and a bitwidth if you like: tessera support llama-3.1-8b L4 A10 4",
      "tessera support")
  end
  local last, bitwidth = #names, nil
  local number = #names > 2 and tonumber(names[last])
  if number and number % 1 == 0 and number >= 1 and number <= 16 then last, bitwidth = last - 1, number end
  local devices = {}
  for i = 2, last do
    local ok, device = pcall(ts.device, names[i])
    if not ok and i > 2 and i == #names then
      core.raise("usage", ("'%s' is neither a device (tessera help devices) nor a bitwidth; 3, 4, 8 and 16 are"):format(
        names[i]), "tessera support")
    end
    if not ok then error(device, 0) end
    devices[#devices + 1] = device
  end
  return names[1], devices, bitwidth
end

local function problem_of(model, device, count, bitwidth, given)
  local cluster = {}
  for k = 1, math.max(1, count / node_devices) do
    cluster[k] = { device, math.min(count, node_devices), node = "node" .. k }
  end
  return ts.problem {
    model = model, cluster = cluster, kernel_set = given.kernel_set, bitwidths = { bitwidth },
    tensor_parallel = { math.min(count, node_devices) },
    workload = {
      prompt_tokens = given.context_tokens - 1, output_tokens = 1, batch_size = given.batch_size,
      chunk_tokens = given.context_tokens > longest_whole_tokens and chunk_tokens or nil,
    },
  }
end

-- The layout that is launched: the devices of a node share every layer, nodes take even parts of the layers, the whole
-- batch in every decode step. Nothing is searched.
local function even_plan(model, device, count, bitwidth, batch_size)
  local degree, num_stages = math.min(count, node_devices), math.max(1, count / node_devices)
  local stages = {}
  for k = 1, num_stages do
    local bitwidths = {}
    local first, last = (k - 1) / num_stages, k / num_stages
    for i = 1, math.floor(model.num_layers * last) - math.floor(model.num_layers * first) do bitwidths[i] = bitwidth end
    stages[k] = { device = (degree > 1 and degree .. "x" or "") .. device.name, bitwidths = bitwidths }
  end
  return { planner = "manual", stages = stages, prefill_micro_batch_size = 1, decode_micro_batch_size = batch_size }
end

-- The plan on `count` devices and its kernel set; nil and why. Where the weights alone are too much nothing is planned.
local function plan_on(model, device, count, bitwidth, given)
  local weights_bytes = model.num_parameters * bitwidth / 8
  if weights_bytes > count * device.memory_bytes then
    return nil, ("the weights take %s"):format(core.format_bytes(weights_bytes))
  end
  local problem = problem_of(model, device, count, bitwidth, given)
  local plan, why = ts.plan(problem, even_plan(model, device, count, bitwidth, given.batch_size))
  if not plan then return nil, why.message end
  return plan, problem.kernel_set
end

-- The fewest devices that hold it, by doubling, the plan on them and its kernel set; nil and why where none does.
local function fewest(model, device, bitwidth, given)
  local first_why
  local count = 1
  while count <= math.min(most_devices, model.num_layers) do
    local ok, plan, set = pcall(plan_on, model, device, count, bitwidth, given)
    if not ok then return nil, core.error_text(plan) end
    if plan then return count, plan, set, first_why end
    first_why = first_why or set
    count = count * 2
  end
  return nil, first_why
end

local function row_of(device, bitwidth, given, count, plan, set, why)
  local bytes, capacity, decode_s = 0, 0, 0
  for _, stage in ipairs(plan.stages) do
    bytes, capacity = bytes + stage.memory.total_bytes, capacity + stage.memory.capacity_bytes
    decode_s = decode_s + stage.decode_s
  end
  return {
    bitwidth = bitwidth, kernel_set = set, kernel = cost.kernel(set, device, bitwidth), runs = count == 1,
    devices = count, needs_bytes = bytes, has_bytes = capacity, times = plan.provenance, error = plan.error,
    decode_tok_s = given.batch_size / decode_s, why_not = why,
  }
end

-- What a bitwidth gives with the kernels that a plan takes.
local function best_row(model, device, bitwidth, given)
  local count, plan, set, why = fewest(model, device, bitwidth, given)
  if count then return row_of(device, bitwidth, given, count, plan, set, why) end
  local kernel, why_not = cost.kernel(given.kernel_set or "vllm", device, bitwidth)
  return { bitwidth = bitwidth, kernel_set = given.kernel_set, runs = false, why_not = kernel and plan or why_not }
end

local function sentence(row, device)
  local name = ("%2d bit: "):format(row.bitwidth)
  if not row.devices then return name .. "runs nowhere here: " .. (row.why_not or "") end
  local need = ("%.1f GiB of %.1f GiB"):format(row.needs_bytes / 2 ^ 30, row.has_bytes / 2 ^ 30)
  local sure = row.error and ("%s, held-out error %.2g %%"):format(row.times, row.error * 100)
    or row.times == "modelled" and "modelled: nothing was measured of it" or row.times
  local how = ("kernel set %s (%s), %.0f tok/s, %s"):format(row.kernel_set, row.kernel, row.decode_tok_s, sure)
  if row.runs then return ("%sfits, %s; %s"):format(name, need, how) end
  local nodes = row.devices > node_devices and (", %d a node"):format(node_devices) or ""
  return ("%stoo large for one %s; %d hold it%s, %s; %s"):format(name, device.name, row.devices, nodes, need, how)
end

-- The layout of a device that is recommended: the fewest devices that hold it at some bitwidth, and there the most
-- bits; with the bits that fit on one. nil where none does.
local function line_of(model, device, given)
  local best, on_one
  for _, bits in ipairs { 4, 8, 16 } do
    if not best then
      local row = best_row(model, device, bits, given)
      best = row.devices and row
      on_one = row.runs and { bits } or {}
    else
      local ok, plan, set = pcall(plan_on, model, device, best.devices, bits, given)
      if ok and plan then best = row_of(device, bits, given, best.devices, plan, set) end
      if ok and plan and best.runs then table.insert(on_one, 1, bits) end
    end
  end
  if best then best.device, best.bits_on_one = device.name, on_one end
  return best
end

-- Rows of all devices that can have it, those that need fewest first, and the names of the others.
local function lines_of(model, given)
  local rows, others = {}, {}
  for _, name in ipairs(core.names "devices") do
    local row = line_of(model, ts.device(name), given)
    if row then rows[#rows + 1] = row else others[#others + 1] = name end
  end
  table.sort(rows, function(a, b)
    if a.devices ~= b.devices then return a.devices < b.devices end
    if a.decode_tok_s ~= b.decode_tok_s then return a.decode_tok_s > b.decode_tok_s end
    return a.device < b.device
  end)
  return rows, others
end

local function print_lines(rows, others)
  local form = "%-18s %-8s %8s %5s %7s  %-12s %s"
  print(form:format("device", "on one", "launched", "bits", "tok/s", "kernels", "times"))
  for _, row in ipairs(rows) do
    local on_one = #row.bits_on_one > 0 and table.concat(row.bits_on_one, " ") or "-"
    print(form:format(row.device, on_one, row.devices, row.bitwidth, ("%.0f"):format(row.decode_tok_s), row.kernel_set,
      row.times))
  end
  if #others > 0 then
    terminal.say(terminal.wrapped(("On no number of these up to %d: %s.\n"):format(most_devices,
      table.concat(others, ", "))))
  end
end

-- What the model is, whatever it runs on: sizes, and what its own weights are.
local function facts_of(model)
  local stored = hub.birth_of(hub.id_of(model))
  return { num_parameters = model.num_parameters, num_active_parameters = model.num_active_parameters,
    kv_bytes_per_token = model:kv_bytes_per_token(), stored_bits = stored and stored.bitwidth or model.checkpoint_bits,
    stored_as = stored and stored.name or model.checkpoint_format }
end

local function say_facts(model)
  local facts = facts_of(model)
  local active = facts.num_active_parameters < facts.num_parameters
    and (", %.4g B of them for a token"):format(facts.num_active_parameters / 1e9) or ""
  local stored = facts.stored_as and ("; its weights are stored as %s%s, and more bits than that hold no more"):format(
    facts.stored_as, facts.stored_bits and (" (%g bits)"):format(facts.stored_bits) or "") or ""
  terminal.say(terminal.wrapped(("%s: %.4g B parameters%s; %s of KV cache a token at 16 bits%s\n"):format(model.name,
    facts.num_parameters / 1e9, active, core.format_bytes(facts.kv_bytes_per_token), stored)))
end

local function settings(model, given)
  return ("%d request%s of %d tokens"):format(given.batch_size, given.batch_size == 1 and "" or "s",
    given.context_tokens), model.name
end

-- What is known of one device, by bitwidth: as data, and whether it can have the model. Printed for people.
local function of_device(model, device, bitwidth, given)
  local rows, any = {}, false
  for i, bits in ipairs(bitwidth and { bitwidth } or { 16, 8, 4, 3 }) do
    rows[i] = best_row(model, device, bits, given)
    any = any or rows[i].devices ~= nil
  end
  if not host.json then
    local what, name = settings(model, given)
    print(("%s on %s, %s"):format(name, device.name, what))
    for _, row in ipairs(rows) do terminal.say(terminal.wrapped("  " .. sentence(row, device) .. "\n")) end
  end
  return { model = model.name, facts = facts_of(model), device = device.name, context_tokens = given.context_tokens,
    batch_size = given.batch_size, rows = rows }, any
end

-- What is known of each of some devices; as data a list where they are several.
local function of_devices(model, devices, bitwidth, given)
  local list, any = {}, false
  for i, device in ipairs(devices) do
    local has_it
    list[i], has_it = of_device(model, device, bitwidth, given)
    any = any or has_it
  end
  if host.json then host.set_result(#list > 1 and list or list[1]) end
  return any
end

-- What is known of all devices.
local function of_all(model, given)
  local rows, others = lines_of(model, given)
  if host.json then
    host.set_result { model = model.name, facts = facts_of(model), context_tokens = given.context_tokens,
      batch_size = given.batch_size, rows = rows, others = others }
  else
    local what, name = settings(model, given)
    print(("%s, %s; on one: bits that fit on one"):format(name, what))
    print_lines(rows, others)
  end
  return #rows > 0
end

--- @param given table the flags; names: model, devices, bitwidth
function M.main(given)
  local model_name, devices, bitwidth = words_of(given)
  given.batch_size = given.batch_size or 1
  local model = ts.model(model_name)
  given.context_tokens = given.context_tokens or math.min(4096, model.max_context_tokens)
  if given.context_tokens > model.max_context_tokens then
    core.raise("usage", ("--context-tokens %d is more than the %d that %s can have"):format(given.context_tokens,
      model.max_context_tokens, model.name), "--context-tokens")
  end
  if not host.json then say_facts(model) end
  local any
  if #devices > 0 then
    any = of_devices(model, devices, bitwidth, given)
  else
    any = of_all(model, given)
  end
  if not host.json then terminal.say(terminal.wrapped(beside(model))) end
  return any and 0 or 3
end

return M
