-- Profiles of LLM-PQ's kernels, fitted to the single-layer latencies that its public history holds.
--
-- Two epochs, never mixed in one fit: llmpq_2023 (May and June 2023) and llmpq_2023_08 (July and August, another
-- bitsandbytes). Only rows of kind `measured` are read: `e2e_derived` rows are the runs that validate the fit, seen
-- from the other side, and `cost_model_derived` ones another model's output.
--
-- local llmpq = require "fidelity.fit.llmpq"; llmpq.shipped(llmpq.samples())

local ts = require "tessera"
local measured = require "lib.measured"
local parts = require "fidelity.fit.parts"
local edited = parts.edited

local M = {}

-- All rows of these kinds (default: measured), or nil and why.
function M.samples(kinds)
  local path, why = measured.path "llmpq/layer_latency.csv"
  if not path then return nil, why end
  return (ts.read_profile_data(path, { format = "llmpq", kinds = kinds, warn = false }))
end

-- Those whose fields are these; whole layers unless `name` is given.
function M.of(samples, fields)
  local found = {}
  for _, sample in ipairs(samples) do
    local fits = (sample.name or "") == (fields.name or "")
    for key, value in pairs(fields) do fits = fits and (key == "name" or sample[key] == value) end
    if fits then found[#found + 1] = sample end
  end
  return found
end

-- The samples with some fields changed.
local function with(samples, changes)
  local changed = {}
  for i, sample in ipairs(samples) do
    changed[i] = {}
    for key, value in pairs(sample) do changed[i][key] = value end
    for key, value in pairs(changes) do changed[i][key] = value end
  end
  return changed
end

function M.fitted(samples, device, kernel_set)
  return ts.fit_profile {
    device = device, kernel_set = kernel_set, method = "regression", hold_out = { "batch_size" },
    samples = M.of(samples, { device = device, kernel_set = kernel_set }),
  }
end

function M.scaled(samples, device, kernel_set, donor)
  return (ts.calibrate {
    device = device, kernel_set = kernel_set, method = "regression", donor = donor, samples = samples,
  })
end

-- Parts without a point are the kernel rules' to price ...
local function without_carried(profile)
  return edited(profile, function(json)
    local kept = {}
    for _, part in ipairs(json.parts) do
      if part.num_points > 0 then kept[#kept + 1] = part end
    end
    json.parts = kept
  end)
end

-- ... but where the donor is the same GPU a few weeks before, its own are the better guess.
local function carried(part)
  part.provenance, part.num_points, part.held_out = "modelled", 0, nil
  part.source = "no row of this epoch: as in llmpq_2023 on the same GPU (" .. part.source .. ")"
  return part
end

local function completed(profile, donor)
  return edited(profile, function(json)
    local has, kept = {}, {}
    local function key(part) return part.phase .. part.bitwidth end
    for _, part in ipairs(json.parts) do
      if part.num_points > 0 then has[key(part)], kept[#kept + 1] = true, part end
    end
    for _, part in ipairs(donor.parts) do
      if not has[key(part)] then kept[#kept + 1] = carried(part) end
    end
    json.parts = kept
  end)
end

local function as_of(profile, kernel_set)
  return edited(profile, function(json)
    json.kernel_set = kernel_set
    for _, part in ipairs(json.parts) do carried(part) end
  end)
end

local function documented(profile, doc)
  return parts.documented(profile, doc, "single-layer latencies published with LLM-PQ (kind = measured), Apache-2.0")
end

local function as_device(profile, device)
  return edited(profile, function(json) json.device = device end)
end

local function v100_2023_08(samples, june)
  local own = M.of(samples, { device = "V100-32G", kernel_set = "llmpq_2023_08" })
  return completed(M.scaled(own, "V100-32G", "llmpq_2023_08", june), june)
end

-- A profile of V100 in August whose INT8 decode is fitted to rows read off a published bar chart: `published`, not
-- measured. It is what ships: the other way, June's INT8, is another bitsandbytes and half as fast.
function M.with_figure_rows(profile)
  local rows = M.of(assert(M.samples { "approx_read_from_figure" }), { device = "V100-32G", bitwidth = 8 })
  local figure = ts.fit_profile {
    device = "V100-32G", kernel_set = profile.kernel_set, method = "regression", samples = rows,
  }.parts[1]
  figure.provenance = "published"
  return edited(profile, function(json)
    for i, part in ipairs(json.parts) do
      if part.bitwidth == 8 and part.phase == "decode" then json.parts[i] = figure end
    end
  end)
end

-- Rows of self-attention blocks as layers of a model that has next to no FFN.
function M.as_layers(rows)
  local block = ts.model {
    name = "opt-175b self-attention", family = "opt", num_layers = 1, hidden_size = 12288, num_heads = 96,
    max_context_tokens = 2048, ffn_size = 1, vocab_size = 50272,
  }
  local layers = with(rows, { model = block })
  for _, row in ipairs(layers) do row.name = nil end
  return layers
end

-- Blocks stand for layers: what their points say of each other is no error of a layer.
local function of_blocks(profile)
  return edited(profile, function(json)
    for _, part in ipairs(json.parts) do part.provenance, part.held_out = "modelled", nil end
  end)
end

-- One self-attention block of OPT-175b is all there is. Its 8-bit rows are of GPTQ's kernel, not of LLM.int8.
local function a100(samples, v100)
  local own = {}
  for _, bitwidth in ipairs { 4, 16 } do
    for _, row in ipairs(M.of(samples, { device = "A100-40G", name = "self_attn", bitwidth = bitwidth })) do
      own[#own + 1] = row
    end
  end
  return of_blocks(without_carried(M.scaled(M.as_layers(own), "A100-40G", "llmpq_2023", v100)))
end

-- Profiles by file name, without ".json", from measured rows alone.
function M.profiles(samples)
  local june, august = "llmpq_2023", "llmpq_2023_08"
  local t4, v100 = M.fitted(samples, "T4-16G", june), M.fitted(samples, "V100-32G", june)
  local t4_august = completed(M.fitted(samples, "T4-16G", august), t4)
  local v100_august = v100_2023_08(samples, v100)
  local p100_rows = M.of(samples, { device = "P100-12G", kernel_set = august })
  local p100 = M.scaled(with(p100_rows, { kernel_set = june }), "P100-12G", june, v100)
  local p100_august = M.scaled(p100_rows, "P100-12G", august, v100_august)
  local a100_june = a100(samples, v100)
  local one = "One OPT-30b layer, prompts and contexts of 512 tokens, batches 2, 4 and 8; other widths by shape."
  local few = " One point per part: the form is the V100's, scaled, and no error is known."
  return {
    ["T4-16G.llmpq_2023"] = documented(t4, one),
    ["V100-32G.llmpq_2023"] = documented(v100, one),
    ["V100-16G.llmpq_2023"] = documented(as_device(v100, "V100-16G"), one .. " Measured on the 32 GB board."),
    ["P100-12G.llmpq_2023"] = documented(without_carried(p100),
      "Rows of 2023-08-04: no earlier ones exist, and 4 bit and FP16 did not change between the epochs." .. few),
    ["A100-40G.llmpq_2023"] = documented(a100_june,
      "One OPT-175b self-attention block as a layer of as many weights: one batch size per part, two prompt lengths at "
        .. "most, contexts of 512 to 592, on the V100's form. Timed call by call: slow for decoding in 4 bits "
        .. "(fidelity/llmpq_layers). No error is known."),
    ["A100-40G.llmpq_2023_08"] = documented(as_of(a100_june, august), "Nothing of this epoch is measured on A100."),
    ["T4-16G.llmpq_2023_08"] = documented(t4_august, one),
    ["V100-32G.llmpq_2023_08"] = documented(v100_august, "FP16 and 4 bit rescaled to rows of August."),
    ["V100-16G.llmpq_2023_08"] = documented(as_device(v100_august, "V100-16G"),
      "FP16 and 4 bit rescaled to rows of August. Measured on the 32 GB board."),
    ["P100-12G.llmpq_2023_08"] = documented(without_carried(p100_august), "Rows of 2023-08-04." .. few),
  }
end

-- The same as they ship: V100's INT8 decode of August from the published figure.
function M.shipped(samples)
  local profiles = M.profiles(samples)
  for _, device in ipairs { "V100-32G", "V100-16G" } do
    local name = device .. ".llmpq_2023_08"
    profiles[name] = M.with_figure_rows(profiles[name])
  end
  return profiles
end

return M
