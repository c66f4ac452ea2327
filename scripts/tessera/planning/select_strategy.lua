-- ts.select_strategy(options): the cheapest of three ways to run a batch on one or two GPUs (FlexLLM, (4)).

local core = require "tessera.core"
local exact_beside = require "tessera.planning.strategies.exact"
local flexllm = require "tessera.papers.flexllm"
local kinds = require "tessera.planning.strategies.kinds"
local options = require "tessera.options"
local plans = require "tessera.planning.strategies.plans"
local prices = require "tessera.planning.prices"
local sort_by_fields = require "tessera.sort_by_fields"
local text_of = require "tessera.planning.strategies.text"
local whose = require "tessera.planning.whose"

local path = "ts.select_strategy"
local tolerance = 1e-9

local read = options.card {
  name = path,
  doc = "Data parallelism, attention offload and model parallelism on each configuration of one or two GPUs, as plans "
    .. "with our prices and memory, or by the equations of FlexLLM (compute alone): a list, the best first (the least "
    .. "price among those that fit and meet the SLO, then most tokens per dollar, then least latency), with chosen, "
    .. "notes and, where asked for, exact. Rows: strategy, devices, configuration (from 0), batch_size, batch, layers, "
    .. "attention_ratio, prefill_s, decode_s (a token), latency_s, s_per_token, usd_per_h, tokens_per_usd, "
    .. "memory_bytes, fits, meets_slo, reason, why, provenance, plan (by profile), rank. exact: of all plans on the "
    .. "devices of the chosen one the best, strategy, plan, latency_s, tokens_per_usd, status, the same at 16 bits "
    .. "(strategy_16_bit, plan_16_bit, latency_16_bit_s, status_16_bit), and how many times its time the chosen plan "
    .. "takes, by our prices (gain_ratio, gain_16_bit_ratio). Where none can be chosen nil and why, with the list in "
    .. "why.candidates.",
  returns = "table?, tessera.Error?",
  options = {
    whose.model, whose.workload,
    { name = "devices", type = "any", required = true,
      doc = "The faster first: { \"A10\", \"T4-16G\" }, one device, or a list of such to choose from" },
    { name = "link_gbps", type = "number", unit = "Gb/s", required = true, min = 1e-6, max = 1e6,
      doc = "Between the two, one way" },
    { name = "formulas", type = "choice", default = "profile", choices = { "profile", "printed", "simulated" },
      doc = "profile: our prices and memory; printed: as the paper has them; simulated: as its Table V was computed "
        .. "(the slower half of a pipeline sets its pace, and attention takes its projections along)" },
    { name = "slo", type = "table", lua_type = "{ s_per_token: number? }", default = {},
      doc = "{ s_per_token = 0.15 }: of the whole time over the output tokens; left out: any" },
    { name = "prices", type = "table", lua_type = "table<string, number>", unit = "USD/h",
      doc = "By device, over those of the device files" },
    { name = "strategies", type = "any", lua_type = "(string|table)[]",
      doc = "Which, in order of ties; default: all three. Also { name = \"mine\", stages = 2, split = function(case) "
        .. "return 8 end } (or replicas, attention_on): layers, requests or share of KV heads, of which the first two "
        .. "are on the first device" },
    { name = "batch_sizes", type = "table", lua_type = "table<string, integer>", default = {},
      doc = "By strategy, instead of the workload's" },
    { name = "batch_split", type = "any", lua_type = "'proportional'|'even'|integer", default = "proportional",
      doc = "Requests on the first device under data parallelism" },
    { name = "layers_on_first", type = "integer", min = 0, max = 1e4, doc = "Of the model; default: half, rounded up" },
    { name = "attention_ratio", type = "number", min = 0, max = 1,
      doc = "Of the attention on the second device, in whole KV heads by profile; default: 1" },
    { name = "efficiency", type = "number", min = 1e-6, max = 1,
      doc = "Of the equations: share of the FP16 peak that counts; default: 1" },
    { name = "correction", type = "table", default = {},
      doc = "{ [strategy] = { prefill = { scale =, offset_s = }, decode = ... } }, as ts.fit_correction gives" },
    { name = "check_memory", type = "boolean",
      doc = "Of the equations: whether weights and KV cache have to fit; by profile all has to" },
    { name = "kernel_set", type = "string", default = "modern", doc = "Of the profile: whose kernels" },
    { name = "link_latency_s", type = "number", unit = "s", min = 0, max = 10,
      doc = "Of the profile; default: a network's" },
    { name = "exact", type = "boolean", default = false, doc = "Whether to plan beside it" },
    { name = "bitwidths", type = "integers", unit = "bits", default = { 4, 8, 16 }, doc = "Of exact" },
    { name = "quality", type = "any", lua_type = "table", doc = "Of exact: what may be lost, as in ts.problem" },
    { name = "time_limit_s", type = "number", unit = "s", default = 10, min = 0, max = 1e6, doc = "Of exact" },
  },
}

local function check_known(name, known, where, what)
  for _, own in ipairs(known) do
    if own == name then return end
  end
  core.refuse(where, ("no %s is called '%s'%s"):format(what, tostring(name), core.did_you_mean(tostring(name), known)))
end

local function notes_of(correction, names)
  local notes = {}
  for _, strategy in ipairs(names) do
    for _, phase in ipairs { "prefill", "decode" } do
      local scale = ((correction[strategy] or {})[phase] or {}).scale
      if scale and scale < 0 then
        notes[#notes + 1] = ("%s, %s: the scale is negative: more work would take less time"):format(strategy, phase)
      end
    end
  end
  return notes
end

-- The strategies as kinds.lua has them.
local function strategies_of(given)
  if given == nil then return kinds.paper end
  local where, list, seen = path .. ".strategies", {}, {}
  options.list(given, where, "a list of names and strategies")
  for i, one in ipairs(given) do
    local at = ("%s[%d]"):format(where, i)
    list[i] = kinds.read(one, at)
    local name = list[i].name
    if seen[name] then core.refuse(at, name .. " is there twice") end
    seen[name] = true
  end
  if #list == 0 then core.refuse(where, "the list is empty") end
  return list
end

-- Names that a table by strategy may have: also those of the paper that are not asked for.
local function known_names(strategies)
  local names = {}
  for _, list in ipairs { kinds.paper, strategies } do
    for _, one in ipairs(list) do names[#names + 1] = one.name end
  end
  return names
end

local function check_formulas(opt)
  if opt.formulas == "profile" then
    for _, name in ipairs { "efficiency", "check_memory" } do
      if opt[name] ~= nil then
        core.refuse(path .. "." .. name, "it is of the equations (formulas = \"printed\" or \"simulated\"); by profile "
          .. "kernels have their own rates, and all has to fit")
      end
    end
  end
  opt.efficiency = opt.efficiency or 1
end

local function check_tables(opt, names)
  for name, size in pairs(opt.batch_sizes) do
    check_known(name, names, path .. ".batch_sizes", "strategy")
    if type(size) ~= "number" or size % 1 ~= 0 or size < 1 then
      core.refuse(path .. ".batch_sizes." .. name, ("%s is no batch size"):format(tostring(size)))
    end
  end
  for key, value in pairs(opt.slo) do
    check_known(key, { "s_per_token" }, path .. ".slo", "limit")
    if type(value) ~= "number" or value ~= value or value <= 0 then
      core.refuse(path .. ".slo." .. key, ("%s is no limit; give seconds above 0"):format(tostring(value)))
    end
  end
  for strategy, phases in pairs(opt.correction) do
    local where = path .. ".correction"
    check_known(strategy, names, where, "strategy")
    where = where .. "." .. strategy
    options.plain(phases, where, "{ prefill =, decode = }")
    for phase, line in pairs(phases) do
      check_known(phase, { "prefill", "decode" }, where, "phase")
      options.plain(line, where .. "." .. phase, "{ scale =, offset_s = }")
      for _, field in ipairs { "scale", "offset_s" } do
        local value = line[field]
        if value ~= nil and (type(value) ~= "number" or value ~= value or math.abs(value) == math.huge) then
          core.refuse(("%s.%s.%s"):format(where, phase, field), "a finite number belongs here")
        end
      end
    end
  end
end

local function check_split(split, batch_size)
  local where = path .. ".batch_split"
  if split == "even" or split == "proportional" then return end
  if type(split) ~= "number" then
    core.refuse(where, "\"proportional\", \"even\" or a number of requests belongs here")
  end
  if split % 1 ~= 0 or split < 0 or split > batch_size then
    core.raise("out_of_range", ("%s: %g requests of %d on the first device"):format(where, split, batch_size), where)
  end
end

local function is_list(value) return type(value) == "table" and value[1] ~= nil end

-- A list of configurations, each a list of tessera.Device.
local function pairs_of(given)
  local where, list = path .. ".devices", given
  if not is_list(given) then list = { { given } } end
  options.list(list, where, "a list of devices, or of pairs")
  local nested = false
  for _, entry in ipairs(list) do nested = nested or is_list(entry) end
  if not nested then list = { list } end
  local result = {}
  for i, entry in ipairs(list) do
    entry = is_list(entry) and entry or { entry }
    if #entry > 2 then
      core.raise("unsupported", ("%s: %d devices, but the equations are of two; ts.plan takes any number"):format(
        where, #entry), where)
    end
    result[i] = {}
    for j, device in ipairs(entry) do result[i][j] = core.device(device) end
  end
  return result
end

-- Prices of plans go by the name of a device.
local function check_alike(pair, where)
  local first, second = pair[1], pair[2]
  local function data(device) return core.to_json(device:to_table(), where) end
  if not second or first.name ~= second.name or data(first) == data(second) then return end
  core.refuse(where, ("two devices that differ are both called %s; give one a name of its own"):format(first.name))
end

-- As the equations want them.
local function priced(configurations, opt)
  local names, list = {}, {}
  for _, pair in ipairs(configurations) do
    for _, device in ipairs(pair) do names[#names + 1] = device.name end
  end
  prices.check(opt.prices, names, path .. ".prices")
  for i, pair in ipairs(configurations) do
    list[i] = {}
    if opt.formulas == "profile" or opt.exact then check_alike(pair, ("%s.devices[%d]"):format(path, i)) end
    for j, device in ipairs(pair) do
      list[i][j] = { name = device.name, device = device, flop_per_s = device.flop_per_s.fp16 * opt.efficiency,
        memory_bytes = device.memory_bytes, usd_per_h = prices.of_device(device, opt.prices, path .. ".prices") }
    end
  end
  return list
end

local sentences = {
  slo = function(row, slo) return ("%.4g s a token, above %g"):format(row.s_per_token, slo) end,
  memory = function() return "weights and KV cache are more than a device holds" end,
  devices = function() return "it needs a second device" end,
}

local function judge(row, slo)
  row.meets_slo = row.s_per_token ~= nil and (not slo or row.s_per_token <= slo * (1 + tolerance))
  if row.fits and not row.meets_slo then row.reason = "slo" end
  if row.reason then row.why = row.why or sentences[row.reason](row, slo) end
end

-- Those that can be chosen first.
local function ranked(rows)
  local items = {}
  for i, row in ipairs(rows) do
    items[i] = { row = row, position = i, class = row.reason and (row.s_per_token and 1 or 2) or 0,
      usd_per_h = row.usd_per_h, less = -(row.tokens_per_usd or 0), latency_s = row.latency_s or math.huge }
  end
  sort_by_fields(items, { "class", "usd_per_h", "less", "latency_s" })
  local list = {}
  for i, item in ipairs(items) do
    item.row.rank, list[i] = i, item.row
  end
  return list
end

-- What both the equations and our plans need of the problem.
local function case_of(opt, model, workload)
  local case = { model = model, workload = workload, num_layers = model.num_layers, hidden_size = model.hidden_size,
    num_kv_heads = model.num_kv_heads, num_parameters = model.num_parameters,
    prompt_tokens = workload.prompt_tokens, output_tokens = workload.output_tokens,
    link_bytes_per_s = opt.link_gbps * 1e9 / 8, check_memory = opt.check_memory or false }
  for _, field in ipairs { "formulas", "batch_split", "layers_on_first", "attention_ratio", "correction", "link_gbps",
    "link_latency_s", "kernel_set", "bitwidths", "quality", "time_limit_s" } do
    case[field] = opt[field]
  end
  return case
end

local function check_fit(opt, model, workload)
  local unlike = opt.formulas ~= "profile" and flexllm.why_not(model)
  if unlike then
    core.raise("unsupported", ("%s: the equations do not describe %s: %s"):format(path, model.name, unlike), path)
  end
  if opt.layers_on_first and opt.layers_on_first > model.num_layers then
    core.raise("out_of_range", ("%s.layers_on_first: %d of %d layers"):format(path, opt.layers_on_first,
      model.num_layers), path .. ".layers_on_first")
  end
  check_split(opt.batch_split, opt.batch_sizes.data_parallel or workload.batch_size)
end

local function rows_of(case, configurations, strategies, opt)
  local candidate, rows = opt.formulas == "profile" and plans.candidate or flexllm.candidate, {}
  for i, pair in ipairs(configurations) do
    for _, strategy in ipairs(strategies) do
      local row = candidate(case, pair, strategy, opt.batch_sizes[strategy.name] or case.workload.batch_size)
      row.configuration, row.provenance, row.devices = i - 1, row.provenance or "modelled", {}
      for j, device in ipairs(pair) do row.devices[j] = device.name end
      judge(row, opt.slo.s_per_token)
      rows[#rows + 1] = row
    end
  end
  return rows
end

-- The best of all plans beside the chosen one, which the equations have no plan of.
local function exact_of(case, configurations, strategies, chosen)
  local pair, own = configurations[chosen.configuration + 1], chosen
  for _, strategy in ipairs(strategies) do
    if strategy.name == chosen.strategy and not chosen.plan then
      own = plans.candidate(case, pair, strategy, chosen.batch_size)
    end
  end
  local exact, why = exact_beside(case, pair, own.plan, chosen.batch_size, chosen.usd_per_h)
  if exact and own.why then return exact, "by our memory the choice does not fit, so there is no gain: " .. own.why end
  return exact, not exact and "no plan to put beside it: " .. why.message or nil
end

return function(given)
  local opt = read(given)
  local strategies = strategies_of(opt.strategies)
  local names = known_names(strategies)
  check_formulas(opt)
  check_tables(opt, names)
  local model, workload = core.model(opt.model), core.workload(opt.workload)
  check_fit(opt, model, workload)
  local case, configurations = case_of(opt, model, workload), priced(pairs_of(opt.devices), opt)
  local found = setmetatable(ranked(rows_of(case, configurations, strategies, opt)), { __tostring = text_of })
  found.notes = notes_of(opt.correction, names)
  for _, row in ipairs(found) do found.notes[#found.notes + 1] = row.note end
  if found[1].reason then
    return nil, { code = "infeasible", candidates = found, message = ("%s: none of %d candidates fits and meets the "
      .. "SLO; the first: %s, %s"):format(path, #found, found[1].strategy, found[1].why) }
  end
  found.chosen = found[1]
  if opt.exact then
    local note
    found.exact, note = exact_of(case, configurations, strategies, found.chosen)
    found.notes[#found.notes + 1] = note
  end
  return found
end
