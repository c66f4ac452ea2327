-- plan:quality(): what the plan's bitwidths do to the model that it plans, measured on a text.

local core = require "tessera.core"
local lm = require "tessera.lm"
local plan_omega = require "tessera.planning.plan_omega"
local sorted_keys = require "tessera.sorted_keys"

-- The model as it is, and with the plan's bitwidths; what describes both goes to both. Keys and values are kept in the
-- plan's bits where nobody says otherwise.
local function load_both(model, plan, opt)
  local base_options, own = {}, {}
  for _, option in ipairs(core.options_of "ts.language_model") do
    own[option.name] = opt[option.name]
  end
  own.path, own.plan, own.kv_bitwidth = model, plan, opt.kv_bitwidth or plan:problem().kv_bitwidth
  base_options.path, base_options.dtype, base_options.threads = model, own.dtype, own.threads
  base_options.device = own.device
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

-- What does not change the numbers, or is told apart by the model's own loss.
local not_settings = { file = true, text = true, threads = true, progress = true, max_tokens = true }

-- "group_size=64 method=rtn": how layers are quantised and the text is cut, as far as it was given.
local function settings_of(opt)
  local words = {}
  for _, key in ipairs(sorted_keys(opt)) do
    if not not_settings[key] then words[#words + 1] = ("%s=%s"):format(key, tostring(opt[key])) end
  end
  return table.concat(words, " ")
end

core.document_object {
  name = "tessera.PlanQuality",
  doc = "What a plan does to the model, over the model at 16 bits, from published or own measurements; `tessera help "
    .. "quality`. Called, as plan:quality(model, options), it is measured on a text. Of an abstract instance it has no "
    .. "numbers.",
  fields = {
    { "perplexity_increase", "{ low: number, mid: number, high: number }?", "Ratio less 1: 0.01 is 1 %; low to high "
      .. "holds 90 %" },
    { "accuracy_recovery", "{ low: number, mid: number, high: number }?", "Ratio, of averages of tasks" },
    { "kl_nats", "{ low: number, mid: number, high: number }?", "Divergence per token (nats)" },
    { "grade", "string", "How close the measurements are: measured, sibling, family or unknown" },
    { "source", "string?", "What the numbers rest on" },
    { "text", "string", "All of it in one line" },
  },
}

core.document {
  name = "plan:quality",
  doc = "What the plan's bitwidths do to the model: it runs with them and as it is, on one text. Options are those of "
    .. "ts.language_model, which say how layers are quantised, and of lm:perplexity. omega is the plan's, in units "
    .. "where 4 bits throughout are 1, as its indicator sees it: ts.quality_map learns from such results what omega "
    .. "costs.",
  parameters = {
    { "model", "tessera.LanguageModel|string", "Where the weights are, or what they were loaded as" },
    { "options", "table", "text or file; context_tokens, method, group_size, dtype, threads, ..." },
  },
  returns = "{ perplexity: number, base_perplexity: number, perplexity_increase: number, loss_increase_nats: number, "
    .. "loss_increase_standard_error: number?, kl_nats: number, kl_standard_error: number?, standard_error: number?, "
    .. "num_tokens: integer, mean_bitwidth: number, tok_s: number, partial: boolean, omega: number?, "
    .. "model: string, indicator: string?, settings: string }",
}

return function(plan, model, opt)
  checked(opt)
  local path = type(model) == "userdata" and getmetatable(model) == "tessera.LanguageModel" and model.path or model
  if type(path) ~= "string" then
    core.refuse("plan:quality", "the first argument is a language model, or the path of its weights")
  end
  local base, planned = load_both(path, plan, opt)
  local options = text_options(opt)
  options.reference = base
  local result = planned:perplexity(options)
  local sum = 0
  for _, bitwidth in ipairs(planned.bitwidths) do sum = sum + bitwidth end
  local base_perplexity = math.exp(result.loss_nats - result.loss_increase_nats)
  local omega, indicator = plan_omega.of(plan)
  return {
    perplexity = result.perplexity, base_perplexity = base_perplexity,
    perplexity_increase = math.exp(result.loss_increase_nats) - 1,
    loss_increase_nats = result.loss_increase_nats,
    loss_increase_standard_error = result.loss_increase_standard_error, standard_error = result.standard_error,
    kl_nats = result.kl_nats, kl_standard_error = result.kl_standard_error, num_tokens = result.num_tokens,
    mean_bitwidth = sum / #planned.bitwidths, tok_s = result.tok_s, partial = result.partial,
    -- Of keys and values in other bits than the plan's, its omega says nothing.
    omega = planned.kv_bitwidth == plan:problem().kv_bitwidth and omega or nil, indicator = indicator,
    model = plan:problem().model.name, settings = settings_of(opt),
  }
end
