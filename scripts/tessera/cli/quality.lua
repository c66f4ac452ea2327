-- `tessera quality`: how well a model predicts a text, quantised or not, and what that costs it.

local core = require "tessera.core"
local host = require "tessera.host"
local on_disk = require "tessera.cli.on_disk"
local tables = require "tessera.options"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local M = {}

local interrupted_status = 130

local function measure(model, options, what)
  return on_disk.with_bar(function(draw)
    local own = {}
    for key, value in pairs(options) do own[key] = value end
    own.progress = draw and function(done, total, loss_nats, tok_s)
      draw(done, total, ("%s: %d/%d tokens, perplexity %.4g, %.0f tok/s"):format(what, done, total,
        math.exp(loss_nats), tok_s))
    end
    return model:perplexity(own)
  end)
end

-- As `measure`; nothing where Ctrl-C came before the first token, and `rows` has what is done before.
local function measure_next(rows, ...)
  local ok, result = pcall(measure, ...)
  if ok then return result end
  if #rows == 0 or type(result) ~= "table" or result.code ~= "interrupted" then error(result, 0) end
end

local function mean_bitwidth(model)
  if not model.bitwidths then return nil end
  local sum = 0
  for _, bitwidth in ipairs(model.bitwidths) do sum = sum + bitwidth end
  return sum / #model.bitwidths
end

local function row_of(name, model, result, base)
  return {
    model = name, mean_bitwidth = mean_bitwidth(model), weight_bytes = model.weight_bytes,
    perplexity = result.perplexity, loss_nats = result.loss_nats, standard_error = result.standard_error,
    perplexity_increase = base and result.perplexity / base.perplexity - 1, kl_nats = result.kl_nats,
    kl_standard_error = result.kl_standard_error, num_tokens = result.num_tokens,
    context_tokens = result.context_tokens, tok_s = result.tok_s, partial = result.partial,
  }
end

local function show(rows)
  terminal.say(ts.table(rows, { columns = { "model", "mean_bitwidth", "perplexity", "loss_nats", "standard_error",
    "perplexity_increase", "kl_nats", "kl_standard_error", "num_tokens", "context_tokens", "tok_s" } }))
  for _, row in ipairs(rows) do
    if row.partial then print(("interrupted: %s is of the first %d tokens"):format(row.model, row.num_tokens)) end
  end
  print "standard_error: of loss_nats over texts of this kind; kl_nats: from the model as it is, a token"
end

--- @param given table the flags; names: the model
function M.main(given)
  local path = on_disk.path(given, "tessera quality", 1)
  local quantised = given.bitwidths or given.plan or (given.kv_bitwidth or 16) < 16
    or (given.activation_bitwidth or 16) < 16
  if given.reference and not quantised then
    core.raise("usage", "--reference compares with the model as it is; give --bitwidths, --plan, --kv-bitwidth or "
      .. "--activation-bitwidth", "--reference")
  end
  local options = tables.of_flags(given, "lm:perplexity")
  options.text, options.reference, options.file = nil, nil, given.text
  local rows, base_result = {}, nil
  local model = ts.language_model(on_disk.options(given, path)) -- refused before anything is measured
  if given.reference then
    local base = ts.language_model { path = path, dtype = given.dtype, threads = given.threads }
    base_result = measure(base, options, "as it is")
    rows[1] = row_of("as it is", base, base_result)
    options.reference = base
  end
  local stopped = base_result and base_result.partial
  if not stopped then
    local result = measure_next(rows, model, options, quantised and "quantised" or "as it is")
    stopped = not result or result.partial
    if result then rows[#rows + 1] = row_of(quantised and "quantised" or "as it is", model, result, base_result) end
  end
  if host.json then host.set_result(rows) else show(rows) end
  return stopped and interrupted_status or 0
end

return M
