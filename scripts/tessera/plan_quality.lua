-- plan:quality(): what the plan's bitwidths do to the model that it plans, measured on a text.

local core = require "tessera.core"
local lm = require "tessera.lm"

-- The model as it is, and with the plan's bitwidths; what describes both goes to both.
local function load_both(model, plan, opt)
  local base_options, own = {}, {}
  for _, option in ipairs(core.options_of "ts.language_model") do
    own[option.name] = opt[option.name]
  end
  own.path, own.plan = model, plan
  base_options.path, base_options.dtype, base_options.threads = model, own.dtype, own.threads
  return lm.language_model(base_options), lm.language_model(own)
end

local function text_options(opt)
  local text = {}
  for _, option in ipairs(core.options_of "lm:perplexity") do text[option.name] = opt[option.name] end
  return text
end

local function checked(opt)
  if type(opt) ~= "table" then
    core.refuse("plan:quality", "give a table with text or file, what it is measured on")
  end
  local known = {}
  for _, name in ipairs { "ts.language_model", "lm:perplexity" } do
    for _, option in ipairs(core.options_of(name)) do known[#known + 1] = option.name end
  end
  for key in pairs(opt) do
    local found = false
    for _, name in ipairs(known) do found = found or name == key end
    if not found or key == "path" or key == "plan" or key == "bitwidths" or key == "reference" then
      core.refuse("plan:quality", ("unknown option '%s'%s"):format(tostring(key),
        core.did_you_mean(tostring(key), known)))
    end
  end
end

core.document {
  name = "plan:quality",
  doc = "What the plan's bitwidths do to the model: it runs with them and as it is, on one text. Options are those of "
    .. "ts.language_model, which say how layers are quantised, and of lm:perplexity.",
  parameters = {
    { "model", "tessera.LanguageModel|string", "Where the weights are, or what they were loaded as" },
    { "options", "table", "text or file; context_tokens, method, group_size, dtype, threads, ..." },
  },
  returns = "{ perplexity: number, base_perplexity: number, perplexity_increase: number, loss_increase_nats: number, "
    .. "kl_nats: number, kl_standard_error: number?, standard_error: number?, num_tokens: integer, "
    .. "mean_bitwidth: number, tok_s: number, partial: boolean }",
}

return function(plan, model, opt)
  checked(opt)
  local path = type(model) == "userdata" and getmetatable(model) == "tessera.LanguageModel" and model.path or model
  if type(path) ~= "string" then
    core.refuse("plan:quality", "the first argument is a language model, or the path of its weights")
  end
  local base, planned = load_both(path, plan, opt)
  local options = text_options(opt)
  local base_result = base:perplexity(options)
  options.reference = base
  local result = planned:perplexity(options)
  local sum = 0
  for _, bitwidth in ipairs(planned.bitwidths) do sum = sum + bitwidth end
  return {
    perplexity = result.perplexity, base_perplexity = base_result.perplexity,
    perplexity_increase = result.perplexity / base_result.perplexity - 1,
    loss_increase_nats = result.loss_nats - base_result.loss_nats, standard_error = result.standard_error,
    kl_nats = result.kl_nats, kl_standard_error = result.kl_standard_error, num_tokens = result.num_tokens,
    mean_bitwidth = sum / #planned.bitwidths, tok_s = result.tok_s, partial = result.partial or base_result.partial,
  }
end
