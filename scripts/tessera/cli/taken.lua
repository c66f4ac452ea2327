-- What the words of a command line were taken for: sheets, checkpoints, prices of one's own.

local beside = require "tessera.models.beside"
local core = require "tessera.core"
local device_types = require "tessera.planning.device_types"
local hub = require "tessera.launch.hub"
local weights = require "tessera.weights"

local M = {}

-- What `read` makes of a name, once, as it may look through every sheet; the name itself where it is none, so that who
-- plans it says what is wrong.
local function read_once(read, name)
  local ok, object = pcall(read, name)
  return ok and object or name
end

-- A folder whose tensors are another model's than its configuration's is planned for neither. What is missing, or not
-- read here, may be what a server reads.
local function check_tensors(folder)
  local has_weights = false
  for _, name in ipairs(core.folder_files(folder)) do has_weights = has_weights or name:find "%.safetensors$" ~= nil end
  if not has_weights then return end
  local ok, problem = pcall(function() return weights.open(folder):bitwidths() end)
  if not ok and problem.code == "invalid_argument" then error(problem, 0) end
end

--- The model that is named.
function M.model(given)
  local model = read_once(core.model, given.model)
  local folder = type(model) ~= "string" and model.checkpoint or nil
  if hub.is_folder(folder) and not hub.is_gguf(folder) then check_tensors(folder) end
  return model
end

-- Device and price of each --usd-per-hour.
local function prices_of(given)
  local list = {}
  for i, text in ipairs(given.usd_per_hour or {}) do
    local device, price = text:match "^%s*([^=]-)%s*=%s*([%d.eE+-]+)%s*$"
    if not tonumber(price) then
      core.raise("usage", ("'%s' is no price of a device type; write A100-80G=1.29 (USD/h)"):format(text),
        "--usd-per-hour")
    end
    list[i] = { text = text, device = device, usd_per_h = tonumber(price) }
  end
  return list
end

--- { [device] = USD/h } of --usd-per-hour.
function M.usd_per_hour(given)
  local prices = {}
  for _, one in ipairs(prices_of(given)) do prices[one.device] = one.usd_per_h end
  return prices
end

--- The cluster that is named, with the prices of --usd-per-hour in it.
function M.cluster(given)
  if not given.usd_per_hour then return read_once(core.cluster, given.cluster) end
  local cluster = core.cluster(given.cluster)
  for _, one in ipairs(prices_of(given)) do
    local ok, priced = pcall(cluster.priced, cluster, one.device, one.usd_per_h)
    if not ok then
      core.raise(priced.code, ("--usd-per-hour %s: %s"):format(one.text, priced.message:gsub("^[%w:]+: ", "")),
        "--usd-per-hour")
    end
    cluster = priced
  end
  return cluster
end

--- What flags ask of quality in users' words; nil where they ask for nothing.
function M.quality_bound(given)
  if not (given.max_perplexity_increase or given.min_accuracy_recovery) then return nil end
  return {
    max_perplexity_increase = given.max_perplexity_increase, min_accuracy_recovery = given.min_accuracy_recovery,
  }
end

--- Bits of a model (of M.model) whose weights were published quantised (gpt-oss, DeepSeek-V3); nil of others.
function M.published_bits(model)
  local id = type(model) ~= "string" and hub.id_of(model)
  local birth = id and hub.birth_of(id)
  return birth and birth.bitwidth
end

-- Bits of a weight in the types of GGUF that llama.cpp's kernels are priced at (Q3_K_M, Q4_K_M, Q8_0), scales included.
local of_gguf = { { 3.9, 3 }, { 4.95, 4 }, { 8.6, 8 } }

-- The bitwidth at which a checkpoint is planned: that of its weights, of a GGUF file the nearest that holds them; nil
-- of one of numbers.
local function planned_bits(model)
  local bits, format = model.checkpoint_bits, model.checkpoint_format or ""
  if not bits or not format:find "^gguf" then return bits end
  for _, row in ipairs(of_gguf) do
    if bits <= row[1] then return row[2] end
  end
  return 16
end

--- The bitwidths that are given; else that of a checkpoint that is quantised, as its name tells or as the model was
--- published, in a list; nil for others. Nothing is gained by running it at more, and it is what was named.
function M.bitwidths(model, given)
  local named = type(model) ~= "string" and planned_bits(model)
  if named and named % 1 ~= 0 then
    core.raise("usage", ("%s has weights of %g bits as %s, which neither vLLM nor llama.cpp runs: name the model that "
      .. "it was made from"):format(model.checkpoint, named, model.checkpoint_format), "--model")
  end
  local is_unsaid = type(model) ~= "string" and model.checkpoint_format and not named and not given
  if is_unsaid and hub.is_folder(model.checkpoint) then
    core.raise("usage", ("%s is stored as %s, and nothing here says at how many bits a weight: give --bitwidths with "
      .. "what its card says"):format(model.checkpoint, model.checkpoint_format), "--bitwidths")
  end
  local bits = named or M.published_bits(model)
  for _, other in ipairs(named and named < 16 and given or {}) do
    if other ~= named then
      core.raise("usage", ("%s has weights of %g bits: leave --bitwidths out, or name the model that it was made from")
        :format(model.checkpoint, named), "--bitwidths")
    end
  end
  return given or bits and bits < 16 and { bits } or nil
end

-- Two cards of a type that talk over PCIe, where nobody can tell what changes what tensor parallelism costs: whether a
-- bridge joins such as take one, and whether they reach each other's memory.
local function unsaid_of_pcie(cluster)
  local places, first, is_known, lines = cluster:places(), {}, {}, {}
  for i, device in ipairs(cluster.devices) do
    local key = ("%s on %d"):format(device.name, places[i].node_index)
    local before, bridge = first[key], device.nvlink_bridge_bytes_per_s
    if before and not is_known[device.name] then -- by the first two of a type
      is_known[device.name] = true
      local link = cluster:link(before, i - 1)
      if link.kind == "pcie" and bridge then
        lines[#lines + 1] = ("%s: PCIe between the cards; where NVLink bridges join pairs (%g GB/s), write @bridges "
          .. "behind the cluster\n"):format(device.name, bridge / 1e9)
      end
      local unsaid = link.peer_access and link.peer_access_by_sheet and device.compute_capability > 1
      if link.kind == "pcie" and unsaid then
        lines[#lines + 1] = ("%s: taken to reach each other's memory over PCIe; where they do not, as in most virtual "
          .. "machines (nvidia-smi topo -p2p r), write @no-peer behind the cluster\n"):format(device.name)
      end
    end
    first[key] = before or i - 1
  end
  return lines
end

-- "; 16 bits: q_proj, experts.up_proj in 10 % of the layers"
local function kept_words(model)
  local words = {}
  for _, kept in ipairs(model.checkpoint_kept or {}) do
    words[#words + 1] = kept.share > 0.995 and kept.name
      or ("%s in %.0f %% of the layers"):format(kept.name, kept.share * 100)
  end
  return #words > 0 and "; 16 bits: " .. table.concat(words, ", ") or ""
end

--- Lines that say which sheets were taken for names that fit several, what nobody said of cards on PCIe, and what
--- the model's name tells of its weights; "" where there is nothing to say.
function M.text(model, cluster)
  local lines = {}
  for i, note in ipairs(cluster and cluster:notes() or {}) do lines[i] = note .. "\n" end
  for _, line in ipairs(cluster and unsaid_of_pcie(cluster) or {}) do lines[#lines + 1] = line end
  local bits, format = model.checkpoint_bits, model.checkpoint_format
  if bits or format then
    local by = hub.is_gguf(model.checkpoint) and "file"
      or hub.is_folder(model.checkpoint) and "configuration" or "name"
    lines[#lines + 1] = ("%s: weights%s%s, by its %s%s\n"):format(model.checkpoint,
      bits and (" of %.4g bits"):format(bits) or "", format and " as " .. format or "", by, kept_words(model))
  end
  lines[#lines + 1] = beside(model)
  return table.concat(lines)
end

-- "T4-16G 0.526 USD/h", or from one to another where machines differ.
local function price_words(cluster, name)
  local least, most = math.huge, 0
  for _, device in ipairs(cluster.devices) do
    if device.name == name then
      least, most = math.min(least, device.price_usd_per_h), math.max(most, device.price_usd_per_h)
    end
  end
  if least == most then return ("%s %.4g USD/h"):format(name, least) end
  return ("%s %.4g to %.4g USD/h"):format(name, least, most)
end

--- "Prices (AWS on demand, us-east-1, 2025-11-30): T4-16G 0.526 USD/h; P40: none.": what costs are counted with, by
--- where it was read, which types have no price, and that those of several sellers do not compare.
function M.prices(cluster)
  local origins, of_origin, none = {}, {}, {}
  local types = device_types(cluster)
  for _, own in ipairs(types) do
    local device = own.device
    local origin = device.price_usd_per_h and device.price_source:match "^[^:]*"
    if origin then
      if not of_origin[origin] then
        origins[#origins + 1], of_origin[origin] = origin, {}
      end
      table.insert(of_origin[origin], price_words(cluster, device.name))
    else
      none[#none + 1] = device.name
    end
  end
  local words = {}
  for i, origin in ipairs(origins) do words[i] = ("%s (%s)"):format(table.concat(of_origin[origin], ", "), origin) end
  if #none > 0 then words[#words + 1] = ("no public price of %s"):format(table.concat(none, ", ")) end
  local num_sellers = #origins - (of_origin["as given"] and 1 or 0)
  return ("Prices: %s. --usd-per-hour %s=... sets %s.%s\n"):format(table.concat(words, "; "), none[1] or types[1].name,
    none[1] and "one" or "another",
    num_sellers > 1 and " Sellers ask unlike prices for one GPU: give yours before you choose by money." or "")
end

return M
