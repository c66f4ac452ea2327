-- What the words of a command line were taken for: sheets, checkpoints, prices of one's own.

local core = require "tessera.core"
local hub = require "tessera.launch.hub"
local ts = require "tessera"

local M = {}

--- The cluster that is named, with the prices of --usd-per-hour in it; without such prices the name itself.
function M.cluster(given)
  if not given.usd_per_hour then return given.cluster end
  local cluster = ts.cluster(given.cluster)
  for _, text in ipairs(given.usd_per_hour) do
    local device, price = text:match "^%s*([^=]-)%s*=%s*([%d.eE+-]+)%s*$"
    if not tonumber(price) then
      core.raise("usage", ("'%s' is no price of a device type; write A100-80G=1.29 (USD/h)"):format(text),
        "--usd-per-hour")
    end
    cluster = cluster:priced(device, tonumber(price))
  end
  return cluster
end

-- The model of a name; nil of one that is none, which whoever plans it says.
local function model_of(name)
  local ok, model = pcall(core.model, name)
  return ok and model or nil
end

--- Bits of a model whose weights were published quantised (gpt-oss, DeepSeek-V3); nil of others.
function M.published_bits(name)
  local model = model_of(name)
  local id = model and hub.id_of(model)
  local birth = id and hub.birth_of(id)
  return birth and birth.bitwidth
end

--- The bitwidth of a checkpoint that is quantised, as its name tells or as the model was published, in a list; nil for
--- others. Nothing is gained by running it at more, and it is what was named.
function M.bitwidths(name)
  local model = model_of(name)
  local bits = model and model.checkpoint_bits or M.published_bits(name)
  return bits and bits < 16 and { bits } or nil
end

--- Lines that say which sheets were taken for names that fit several, and what the model's name tells of its weights;
--- "" where there is nothing to say.
function M.text(model, cluster)
  local lines = {}
  for i, note in ipairs(cluster and cluster:notes() or {}) do lines[i] = note .. "\n" end
  local bits, format = model.checkpoint_bits, model.checkpoint_format
  if bits or format then
    lines[#lines + 1] = ("%s: weights%s%s, by its name\n"):format(model.checkpoint,
      bits and (" of %g bits"):format(bits) or "", format and " as " .. format or "")
  end
  return table.concat(lines)
end

--- "prices: A100-80G 1.29 USD/h (as given), ...": what costs are counted with; "" where no device has a price.
function M.prices(cluster)
  local words, seen = {}, {}
  for _, device in ipairs(cluster.devices) do
    if device.price_usd_per_h and not seen[device.name] then
      seen[device.name] = true
      words[#words + 1] = ("%s %.2f USD/h (%s)"):format(device.name, device.price_usd_per_h,
        device.price_source:match "^[^;(]*":gsub("%s+$", ""))
    end
  end
  if #words == 0 then return "" end
  return ("Prices: %s. --usd-per-hour %s=... sets another.\n"):format(table.concat(words, "; "), words[1]:match "^%S+")
end

return M
