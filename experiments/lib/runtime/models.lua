-- Models that experiments/runtime runs: the one that ships, and one of SmolLM2-135M's shape with random weights,
-- which takes the same time and memory and is made where it is needed.

local core = require "tessera.core"
local exists = require("tessera.files").exists
local host = require "tessera.host"
local lm = require "tessera.lm"
local measure = require "tessera.measure"
local measure_profile = require("tessera.devices.measure_profile").measure_profile

local M = {}

M.small, M.shaped = "grammar-opt-5m", "smollm2-135m-shape"

local shipped = host.installation.datasets_dir .. "/language_models/" .. M.small

-- Prompts are token ids; a tokenizer only has to be there.
local function lend_tokenizer(folder)
  for _, name in ipairs { "tokenizer.json", "tokenizer_config.json" } do
    core.write_file(folder .. "/" .. name, core.read_file(shipped .. "/" .. name))
  end
end

--- What fn(folder) returns, of a model by one of the names above; nil and why where this build runs none.
function M.with(name, fn)
  local ok, why = pcall(lm.tokenizer, shipped)
  if not ok then return nil, { code = "no_data", message = why.message } end
  if name == M.small then return fn(shipped) end
  local shape = core.model "smollm2-135m"
  local results
  measure.random_model(shape, shape.num_layers, function(folder)
    lend_tokenizer(folder)
    results = { fn(folder) }
  end)
  return unpack(results, 1, 2)
end

--- What is measured of a model's layers on a device while the other cores do the same, as the file of a profile: once
--- for all points of an experiment.
function M.profile(device, folder, name, context)
  local path = ("%s/%s.profile.json"):format(context.output_dir, name:match "^[%w.-]+")
  if not exists(path) then
    measure_profile({ device = device, model = folder, quick = context.quick, progress = false,
      bitwidths = { 4, 8, 16 }, batch_sizes = { 1, 2, 4, 8 }, prompt_tokens = { 16, 64, 256 },
      context_tokens = { 32, 128, 512 } }):save(path)
  end
  return path
end

--- Token ids of so many prompts, no two alike.
function M.prompts(count, num_tokens, vocab_size)
  local list = {}
  for i = 1, count do
    list[i] = {}
    for k = 1, num_tokens do list[i][k] = (i * 7919 + k * 104729) % (vocab_size - 10) + 5 end
  end
  return list
end

--- Shares of the layers and bits, by stage, as layers and bits.
function M.cut(shares, num_layers)
  local cut, first, share = {}, 0, 0
  for k, stage in ipairs(shares) do
    share = share + stage[1]
    local last = k == #shares and num_layers or math.floor(num_layers * share + 0.5)
    cut[k], first = { last - first, stage[2] }, last
  end
  return cut
end

--- Stages of the planner `manual`: { layers, bits } of each on a device. @param devices list of names, by stage; one
--- name: all are on such devices
function M.stages(devices, cut)
  local list = {}
  for k, stage in ipairs(cut) do
    list[k] = { device = type(devices) == "table" and devices[k] or devices, bitwidths = {} }
    for i = 1, stage[1] do list[k].bitwidths[i] = stage[2] end
  end
  return list
end

return M
