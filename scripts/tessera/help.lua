-- Topics of `tessera help` that only Lua knows: planners, and the names that can be asked for.

local core = require "tessera.core"
local host = require "tessera.host"

-- What is known about a planner, scheduler or router.
local function add_card(card, lines)
  lines[#lines + 1] = host.paragraph(card.name .. (card.source ~= "" and ("  [%s]"):format(card.source) or ""), 2)
  lines[#lines + 1] = host.paragraph(card.doc, 6)
end

local function describe(card, lines)
  add_card(card, lines)
  local options = {}
  for name in pairs(card.options) do options[#options + 1] = name end
  table.sort(options)
  for _, name in ipairs(options) do
    local o = card.options[name]
    lines[#lines + 1] = host.paragraph(("%s (default %s): %s"):format(name, tostring(o.default), o.doc or ""), 8)
  end
end

local function planners()
  local plan = { "Planners, for ts.plan(problem, { planner = \"name\" }):" }
  local improve = {
    "", "Heuristics improve a plan: { planner = { \"adabits\", \"name\" } }, or alone,\nfrom adabits:",
  }
  local both = {}
  for _, card in ipairs(require("tessera.planning.planners").list()) do
    describe(card, card.kind == "heuristic" and improve or plan)
    if card.improves and card.kind == "planner" then both[#both + 1] = card.name end
  end
  if #both > 0 then improve[#improve + 1] = host.paragraph("Also in a chain: " .. table.concat(both, ", "), 2) end
  for _, file in ipairs(require("tessera.plugins.planners").broken()) do
    improve[#improve + 1] = "  Not loaded: " .. file
  end
  return table.concat(plan, "\n") .. "\n" .. table.concat(improve, "\n") .. "\n"
end

local function names(kind)
  return function() return table.concat(core.names(kind), "\n") .. "\n" end
end

local function words(topic)
  return function() return require("tessera.models.quality_words")[topic] end
end

local function moves()
  return [[
A heuristic changes a plan by moves: search:moves { kinds = { "shift" } } hands
out all of a kind, priced; search:random_move { kinds = ..., fits = true } draws
one, each as likely as the others.

  shift        1, 2, 4 or 8 layers next to a boundary go to the neighbouring
               stage, with their bitwidths
  retype       one layer gets another bitwidth
  swap         two layers, of one stage or of two, trade bitwidths
  rule         bitwidth transfer, Algorithm 2 of LLM-PQ: layers of one bitwidth
               leave a slow stage (the straggler) for any other (the pioneer),
               which gives fewer layers of a wider bitwidth back, or narrows
               some of its own to make room. It reaches in one step what shift
               and retype reach through plans that do not fit
  micro_batch  another size of the micro-batches of prefill or decode
  order        two stages trade devices

What the caller of ts.plan fixed (device_order, micro-batch sizes) has no moves.
Rules are handed out only where they fit; of the others move.fits says so. The
fields of a move: `tessera help tessera.Move`; the search: `tessera help
tessera.Search`.
]]
end

local function presets()
  return [[
ts.problem { preset = "name" } and `tessera plan --preset name` set what a
description leaves out.

  recommended  the default: kernel_set "auto" (the best measured set of a public
               runtime that has kernels on the devices: vLLM's), bitwidths 4, 8
               and 16, a KV cache of 16 bits, or of 8 where the kernels are
               known to read it; powers of two of tensor parallelism, one for
               all stages of a pipeline; any number of replicas; devices may be
               left out
  splitquant   as the custom backend of SplitQuant (Sec. VI-A): kernel set
               llmpq_2023_08, bitwidths 3, 4, 8 and 16, a KV cache of 16 bits,
               one pipeline in which every device holds layers on its own,
               LLM-PQ's memory model
  llm-pq       the same with objective "paper" and theta in milliseconds per raw
               omega, as LLM-PQ prints them

Any option beside it counts: ts.problem { preset = "splitquant", kernel_set =
"vllm", ... }. One step back from the recommended: use_all_devices = true or
tensor_parallel = 1, kv_bitwidth = 16. Who names one of the first two gets one
pipeline; ts.plan(problem, { replicas = "all" }) looks for any number again.
]]
end

local function heuristics()
  return [[
A heuristic improves a plan that fits. ts.register_heuristic { name =, doc =,
options =, improve = function(search, opt) end } adds one; ts.plan(problem, {
planner = { "adabits", name } }) runs it. In a folder `heuristics` of
TESSERA_PATH it is found by itself.

  tessera help moves                   what a step is
  tessera help tessera.Search          what improve is given: moves,
                                       random_move, apply, undo, stages, best
  tessera help planners                those that are there, with their options
  tessera examples tutorial/04_heuristic examples/09_annealing   two to copy

The seed of ts.plan decides what search:random and search:random_move draw, so a
run can be repeated; one that a time limit cut short cannot, and its plan says
so: plan.stopped_by, and the column stopped_by of an experiment's row.
]]
end

--- Cards of schedulers or routers.
local function cards_of(heading, list, closing)
  return function()
    local lines = { heading, "" }
    for _, card in ipairs(list()) do add_card(card, lines) end
    return table.concat(lines, "\n") .. "\n\n" .. closing
  end
end

local schedulers = cards_of("Schedulers, for ts.engine { scheduler = \"name\" }: what an engine computes in\n"
  .. "each step.", function() return require("tessera.plugins.schedulers").list() end, [[
The limits that they share, and those of one of them, are options of the engine:
`tessera help ts.engine`. What they are held against, what is not modelled, and
how to add one: `tessera man serving`.
]])

local routers = cards_of("Routers, for ts.deployment { router = \"name\" }: which engine gets a request.",
  function() return require("tessera.plugins.routers").list() end, [[
A table sets more: router = { name = "prefix_aware", signal_age_s = 0.1, ... };
`tessera help ts.deployment.router`. Equal engines go by number. router = {
choose = function(replicas, request) return position end } is one of your own;
ts.register_router gives it a name. More: `tessera man serving`.
]])

local strategies = cards_of("Strategies, for ts.deployment { models =, strategy = \"name\" }: where each\n"
  .. "of several models goes on the GPUs that they share.",
  function() return require("tessera.plugins.strategies").list() end, [[
A table sets more: strategy = { name = "iserve", theta = 0.3, ... }; what all of
them have: `tessera help ts.deployment.strategy`. ts.register_strategy adds one
of your own; the template is scripts/tessera/strategies/_template.lua. More:
`tessera man serving`.
]])

local function families()
  local runs = {}
  for _, name in ipairs(core.names "families_that_run") do runs[name] = true end
  local lines = { "The model_type of a config.json that is read. All are planned; those with \"runs\"",
    "are run here too, by `tessera execute` and `tessera serve`.", "" }
  for _, name in ipairs(core.names "families") do
    lines[#lines + 1] = runs[name] and ("%-20s runs"):format(name) or name
  end
  return table.concat(lines, "\n") .. "\n"
end

local topics = {
  moves = { "What heuristics change a plan by: shift, retype, swap, rule, micro_batch, order.", moves },
  heuristics = { "How to write one, and where to look.", heuristics },
  quality = { "What a plan does to perplexity and accuracy, and how to bound it.", words "quality" },
  omega = { "How much quality a plan loses, as the planner counts it.", words "omega" },
  theta = { "The price of omega, for research.", words "theta" },
  presets = { "What a problem is made of where nothing is said: recommended, splitquant, llm-pq.", presets },
  planners = { "Planners and the options of their own.", planners },
  schedulers = { "What an engine computes in each step, for ts.engine.", schedulers },
  routers = { "Which engine of a deployment gets a request.", routers },
  strategies = { "Where models go on the GPUs that they share.", strategies },
  models = { "Models that ship, or lie in TESSERA_PATH.", names "models" },
  families = { "Families of models: the model_type of a config.json that is read, and which run.", families },
  devices = { "Devices that ship, or lie in TESSERA_PATH.", names "devices" },
  clusters = { "Clusters that ship, or lie in TESSERA_PATH.", names "clusters" },
  workloads = { "Workloads that ship, or lie in TESSERA_PATH.", names "workloads" },
  kernel_sets = { "Kernel sets: which bitwidths run where, and how fast.", names "kernel_sets" },
}

core.document {
  name = "ts.help_topic", doc = "What `tessera help TOPIC` prints of the topics that Lua knows.",
  parameters = { { "topic", "string",
    "presets, planners, heuristics, moves, schedulers, routers, strategies, models, families, devices, clusters, "
      .. "workloads, kernel_sets, quality, omega or theta",
  } },
  returns = "string?",
}
core.document {
  name = "ts.help_topics", doc = "The topics that ts.help_topic knows, each with one line.",
  returns = "table<string, string>",
}

local M = {}

function M.topic(name)
  local topic = topics[name]
  return topic and topic[2]()
end

function M.topics()
  local lines = {}
  for name, topic in pairs(topics) do lines[name] = topic[1] end
  return lines
end

return M
