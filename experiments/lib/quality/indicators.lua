-- The indicators that experiments/quality compares: each made of the same model for the same rounding, those that look
-- at inputs or run the model with the calibration text.

local core = require "tessera.core"
local exists = require "tessera.files".exists
local files = require "tessera.files"
local indicator = require "tessera.indicator"
local language_model = require "tessera.models.with_bar".language_model
local relative_error = require "lib.quality.relative_error"
local store = require "tessera.store"
local subjects = require "lib.quality.subject"
local weights = require "tessera.weights"

local M = {}

M.bitwidths = { 3, 4, 8, 16 }

local group = { granularity = "group", group_size = subjects.scheme.group_size }

-- Options of ts.indicator, and `reads`: the statistics, or one of the texts.
local made = {
  constant = { kind = "constant" },
  random = { kind = "random" },
  variance = { kind = "variance", reads = "statistics" },
  variance_per_tensor = { kind = "variance", reads = "statistics", granularity = "tensor" },
  variance_weights_only = { kind = "variance" },
  variance_stochastic = { kind = "variance", reads = "statistics", rounding = "stochastic" },
  variance_llm_pq_code = { kind = "variance", reads = "statistics", variant = "llm-pq-code" },
  hessian = { kind = "hessian", reads = "statistics" },
  hessian_llm_pq_code = { kind = "hessian", reads = "statistics", variant = "llm-pq-code" },
  gptq_error = { kind = "gptq_error", reads = "statistics" },
  measured = { kind = "measured", reads = "statistics" },
  loss = { kind = "loss", reads = "calibration" },
  divergence = { kind = "divergence", reads = "calibration" },
  divergence_short = { kind = "divergence", reads = "calibration", samples = 2, tokens = 128 },
  divergence_scaled = {
    kind = "divergence", reads = "calibration", samples = 2, tokens = 128, bitwidths = { 3 },
  },
  divergence_same_text = { kind = "divergence", reads = "evaluation" },
}

-- The first hex digits of the SHA-256 of the weights: what is kept of a model is not another one's.
local function fingerprint(subject)
  local parts = {}
  for i, path in ipairs(weights.open(subject.path).files) do parts[i] = store.sha256(files.text(path)) end
  return store.sha256(table.concat(parts)):sub(1, 12)
end

local function file_of(subject, folder, num_pieces, name)
  subject.fingerprint = subject.fingerprint or fingerprint(subject)
  return ("%s/%s-%s-%d-%s"):format(folder, subject.name, subject.fingerprint, num_pieces, name)
end

-- Statistics of the calibration text, with Hessians; made once and kept in `folder`.
local function statistics_of(subject, folder)
  local path = file_of(subject, folder, subject.num_calibration_pieces, "statistics.safetensors")
  if not exists(path) then
    language_model { path = subject.path, progress = false }:calibrate {
      text = subject.calibration_text(subject.num_calibration_pieces * subject.piece_tokens), out = path,
      num_samples = subject.num_calibration_pieces, sample_tokens = subject.piece_tokens, with_hessian = true,
    }
  end
  return path
end

local function text_file(subject, folder, role)
  local path = file_of(subject, folder, subject.num_pieces, role .. ".txt")
  local text = role == "evaluation" and subject.text or subject.calibration_text
  core.write_file(path, text(subject.num_pieces * subject.piece_tokens))
  return path
end

-- Options of lib.quality.relative_error.
local relative = {
  relative = { robust = false }, relative_robust = { robust = true }, error_robust = { robust = true, absolute = true },
}

-- What rounding to b bits makes of an error at 3 bits, if it goes with the square of the step.
local function of_3_bits(bitwidth) return bitwidth >= 16 and 0 or (3 / (2 ^ (bitwidth - 1) - 1)) ^ 2 end

--- The object of that name that ts.indicator makes, for problems to plan with. What is worth keeping lies
--- in `folder`; loss and divergence go on from there.
function M.object(name, subject, folder, seed)
  local own = made[name]
  local options = { model = subject.path, bitwidths = M.bitwidths, seed = seed }
  for key, value in pairs(group) do options[key] = value end
  for key, value in pairs(own) do options[key] = value end
  options.reads = nil
  if own.granularity or own.variant then options.group_size = nil end
  if own.variant then options.granularity = nil end
  if own.kind == "random" or own.kind == "constant" then
    options.model, options.granularity, options.group_size = subject.model, nil, nil
  end
  if own.reads == "statistics" then
    options.statistics = statistics_of(subject, folder)
  elseif own.reads then
    options.file, options.progress = text_file(subject, folder, own.reads), function() end
    options.samples, options.tokens = own.samples or subject.num_pieces, own.tokens or subject.piece_tokens
    options.out = file_of(subject, folder, subject.num_pieces, name .. ".json")
  end
  return indicator.new(options)
end

--- The indicator of that name as omega(layer_index, bitwidth), and the time it took (s), without the statistics.
function M.make(name, subject, folder, seed)
  local is_relative = relative[name]
  if is_relative then
    return relative_error.of(subject.path, statistics_of(subject, folder), M.bitwidths, {
      group_size = group.group_size, robust = is_relative.robust, absolute = is_relative.absolute,
    })
  elseif name == "depth" then
    return function(layer, bitwidth) return bitwidth >= 16 and 0 or 4 ^ -bitwidth / (layer + 1) end, 0
  end
  local result = M.object(name, subject, folder, seed)
  if name == "divergence_scaled" then
    return function(layer, bitwidth) return result:omega(layer, 3) * of_3_bits(bitwidth) end, result.overhead_s
  end
  return function(layer, bitwidth) return result:omega(layer, bitwidth) end, result.overhead_s
end

--- Their names, the cheap ones first.
M.names = {
  "constant", "random", "depth", "variance_weights_only", "variance", "variance_per_tensor", "relative",
  "relative_robust", "error_robust", "hessian", "gptq_error", "measured", "divergence_scaled", "divergence_short",
  "loss", "divergence",
  "divergence_same_text",
}

--- What they are, for under a table.
M.notes = {
  "indicators are made for the rounding that is measured (groups of 64, symmetric); statistics, loss and divergence of "
    .. "the calibration text, which is another one; divergence_same_text: of the text that plans are measured on",
  "depth: 4^-bits / (layer + 1); relative, relative_robust, error_robust: experiments/lib/quality/relative_error.lua; "
    .. "divergence_short: 2 pieces of 128 tokens; divergence_scaled: these at 3 bits alone, others by the square of "
    .. "the step; overhead_s: without making the statistics",
}

return M
