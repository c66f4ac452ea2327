-- Planning instances of any size in the format of the published ones, from a roofline: seeded, the same everywhere.

local M = {}

-- Peak FP16 rate (flop/s), memory bandwidth (bytes/s), usable memory (GB), time of a launch (s), and how much longer
-- the products take at 3, 4 and 8 bits than at 16 (unpacking in prefill).
local gpus = {
  T4 = { flop_per_s = 65e12, bytes_per_s = 320e9, mem_gb = 14.8, launch_s = 2e-5, slower = { 1.3, 1.2, 0.9, 1 } },
  P100 = { flop_per_s = 18.7e12, bytes_per_s = 732e9, mem_gb = 10.9, launch_s = 3e-5, slower = { 1.1, 1.1, 1.6, 1 } },
  V100 = { flop_per_s = 112e12, bytes_per_s = 900e9, mem_gb = 30.5, launch_s = 2e-5, slower = { 1.3, 1.2, 1.8, 1 } },
  A100 = { flop_per_s = 312e12, bytes_per_s = 1555e9, mem_gb = 38.5, launch_s = 1e-5, slower = { 1.4, 1.3, 1.1, 1 } },
}
local type_names = { "T4", "P100", "V100", "A100" }

--- num_gpus are shared equally by the four types; a model so large that most of them are needed at any bitwidth.
M.named = {
  ["32 GPUs"] = { num_gpus = 32, num_layers = 128, hidden = 24576, seed = 1 },
  ["64 GPUs"] = { num_gpus = 64, num_layers = 128, hidden = 34816, seed = 2 },
  ["256 GPUs"] = { num_gpus = 256, num_layers = 512, hidden = 28672, seed = 3 },
}

local bits, batch_size, prompt_tokens, output_tokens = { 3, 4, 8, 16 }, 32, 512, 100
local utilisation = 0.5 -- of the peak rate

-- Lehmer's generator: exact in doubles, so the same on every machine.
local function generator(seed)
  local state = seed
  return function()
    state = state * 48271 % 2147483647
    return state / 2147483647
  end
end

-- One decoder layer: 12 h^2 weights, as in OPT.
local function layer_s(gpu, hidden, b, tokens, requests, context)
  local weights = 12 * hidden ^ 2
  local flop = 2 * weights * tokens + 4 * tokens * context * hidden
  local bytes = weights * bits[b] / 8 + 4 * requests * context * hidden + 8 * tokens * hidden
  local compute_s = flop * gpu.slower[b] / (utilisation * gpu.flop_per_s)
  return gpu.launch_s + math.max(compute_s, bytes / gpu.bytes_per_s)
end

local function latencies(gpu, hidden, decode)
  local by_size = {}
  for size = 1, batch_size do
    by_size[size] = {}
    for b = 1, #bits do
      if decode then
        by_size[size][b] = layer_s(gpu, hidden, b, size, size, prompt_tokens + output_tokens / 2)
      else
        by_size[size][b] = layer_s(gpu, hidden, b, size * prompt_tokens, size, prompt_tokens)
      end
    end
  end
  return by_size
end

-- Omega falls by a factor with each bitwidth, differs from layer to layer, and adds up to 1 at 4 bits.
local function omegas(num_layers, random)
  local rows, at_four = {}, 0
  for i = 1, num_layers do
    local level = 0.5 + random()
    rows[i] = { level * (4 + 2 * random()), level, level * (2 + random()) * 1e-3, level * 5e-8 }
    at_four = at_four + level
  end
  for _, row in ipairs(rows) do
    for b in ipairs(row) do row[b] = row[b] / at_four end
  end
  return rows
end

local function times(count, value)
  local list = {}
  for i = 1, count do list[i] = value(i) end
  return list
end

function M.make(spec)
  local hidden, random = spec.hidden, generator(spec.seed)
  local kv_gb = 4 * batch_size * (prompt_tokens + output_tokens) * hidden / 1e9
  local types, lat_pre, lat_dec, links = {}, {}, {}, {}
  for t, name in ipairs(type_names) do
    types[t] = { name = name, count = spec.num_gpus / #type_names, mem_gb = gpus[name].mem_gb }
    lat_pre[name] = latencies(gpus[name], hidden, false)
    lat_dec[name] = latencies(gpus[name], hidden, true)
    links[t] = times(#type_names, function(other) return other == t and 130 or 12.5 end)
  end
  return {
    name = spec.name, L = spec.num_layers, bits = bits, theta = 10,
    B = batch_size, s = prompt_tokens, n = output_tokens,
    omega = omegas(spec.num_layers, random),
    mem_layer_gb = times(#bits, function(b) return 12 * hidden ^ 2 * bits[b] / 8 / 1e9 + kv_gb end),
    mem_emb_gb = 50272 * hidden * 2 / 1e9,
    types = types, lat_pre = lat_pre, lat_dec = lat_dec, link_gbs = links,
    mem_tmp_pre_gb = times(batch_size, function(size) return size * prompt_tokens * hidden * 36 / 1e9 end),
    mem_tmp_dec_gb = times(batch_size, function(size) return size * hidden * 36 / 1e9 end),
    pay_pre_gb = prompt_tokens * hidden * 2 / 1e9, pay_dec_gb = hidden * 2 / 1e9,
  }
end

local function json(value)
  if type(value) == "number" then return ("%.9g"):format(value) end
  if type(value) == "string" then return '"' .. value .. '"' end
  local parts = {}
  if #value > 0 then
    for i, item in ipairs(value) do parts[i] = json(item) end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys)
  for i, key in ipairs(keys) do parts[i] = '"' .. key .. '":' .. json(value[key]) end
  return "{" .. table.concat(parts, ",") .. "}"
end

--- Writes a named instance as an instance file.
function M.write(name, path)
  local spec = assert(M.named[name], "there is no instance called " .. tostring(name))
  local described = { name = name }
  for key, value in pairs(spec) do described[key] = value end
  local file = assert(io.open(path, "w"))
  file:write(json(M.make(described)), "\n")
  file:close()
end

return M
