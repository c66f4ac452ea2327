-- What quantised layers do to what a model says, measured on its text: loss, and divergence from the model as it is.
--
-- The text is cut into pieces that share nothing. Both models read the same ones, so the rise of the loss has the
-- standard error of the differences token by token, far smaller than that of the loss.

local language_model = require "tessera.models.with_bar".language_model
local plan_bitwidths = require "tessera.planning.plan_bitwidths"
local subjects = require "lib.quality.subject"
local summary = require "lib.quality.summary"

local M = {}

-- Options of lm:perplexity.
local function request(subject)
  local num_tokens = subject.num_pieces * subject.piece_tokens
  return { text = subject.text(num_tokens), context_tokens = subject.piece_tokens, max_tokens = num_tokens }
end

local bases = {}

-- The model as it is; kept for the process.
local function base(subject)
  bases[subject.path] = bases[subject.path]
    or language_model { path = subject.path, progress = false, threads = 1 } -- a sweep has a process for each core
  return bases[subject.path]
end

local function measured(subject, changes)
  local options = { path = subject.path, progress = false, threads = 1 }
  for name, value in pairs((changes.bitwidths or changes.plan) and subjects.scheme or {}) do options[name] = value end
  for name, value in pairs(changes) do options[name] = value end
  local own = request(subject)
  own.reference = base(subject)
  local result = language_model(options):perplexity(own)
  return {
    perplexity = result.perplexity, perplexity_increase = math.exp(result.loss_increase_nats) - 1,
    loss_increase_nats = result.loss_increase_nats, loss_increase_se = result.loss_increase_standard_error,
    kl_nats = result.kl_nats, kl_se = result.kl_standard_error, num_tokens = result.num_tokens,
  }
end

local plans = {} -- rows by model and bitwidths: planners that agree are measured once in a process

-- What of a plan the model runs with.
local function signature(subject, plan)
  return ("%s %s %s"):format(subject.path, tostring(plan.kv_bitwidth), table.concat(plan_bitwidths(plan), " "))
end

--- Columns of the model with `changes`, options of ts.language_model such as bitwidths or plan:
--- perplexity, perplexity_increase (a ratio), loss_increase_nats and kl_nats with their standard errors, num_tokens.
function M.row(subject, changes)
  local plan = changes.plan
  for name in pairs(changes) do
    if name ~= "plan" then plan = nil end
  end
  if not plan then return measured(subject, changes) end
  local own = signature(subject, plan)
  plans[own] = plans[own] or measured(subject, changes)
  local row = {}
  for name, value in pairs(plans[own]) do row[name] = value end
  return row
end

--- Columns of several draws as one row: means, `num_draws`, and of the divergence the standard deviation between draws.
function M.mean_row(rows)
  local mean = { num_draws = #rows }
  for name in pairs(rows[1]) do mean[name] = summary.mean(rows, name) end
  mean.kl_sd = summary.deviation(rows, "kl_nats")
  return mean
end

--- What the columns are, for under a table.
M.notes = {
  subjects.note,
  "layers: rounded to the nearest of a symmetric grid of 64 inputs at 3, 4 or 8 bits; 16: as stored",
  "pieces of 256 tokens that share nothing; kl_nats: divergence from the model as it is, nats per token; "
    .. "loss_increase_nats: rise of the loss on the same tokens; _se: standard errors over pieces of at least 256 "
    .. "tokens (of the rise: of the differences token by token)",
}

--- A list of these notes, and after them those given.
function M.notes_and(notes)
  local list = {}
  for _, lines in ipairs { M.notes, notes } do
    for _, line in ipairs(lines) do list[#list + 1] = line end
  end
  return list
end

return M
