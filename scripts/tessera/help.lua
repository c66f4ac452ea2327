-- Topics of `tessera help` that only Lua knows: planners, and the names that can be asked for.

local core = require "tessera.core"

local function describe(card, lines)
  lines[#lines + 1] = ("  %s%s"):format(card.name, card.source ~= "" and ("  [%s]"):format(card.source) or "")
  lines[#lines + 1] = "      " .. card.doc
  local options = {}
  for name in pairs(card.options) do options[#options + 1] = name end
  table.sort(options)
  for _, name in ipairs(options) do
    local o = card.options[name]
    lines[#lines + 1] = ("      %s (default %s): %s"):format(name, tostring(o.default), o.doc or "")
  end
end

local function planners()
  local plan = { "Planners, for ts.plan(problem, { planner = \"name\" }):" }
  local improve = {
    "", "Heuristics improve a plan: { planner = { \"adabits\", \"name\" } }, or alone, from adabits:",
  }
  local both = {}
  for _, card in ipairs(require("tessera.planners").list()) do
    describe(card, card.kind == "heuristic" and improve or plan)
    if card.improves and card.kind == "planner" then both[#both + 1] = card.name end
  end
  if #both > 0 then improve[#improve + 1] = "  Also in a chain: " .. table.concat(both, ", ") end
  for _, file in ipairs(require("tessera.registry").broken()) do
    improve[#improve + 1] = "  Not loaded: " .. file
  end
  return table.concat(plan, "\n") .. "\n" .. table.concat(improve, "\n") .. "\n"
end

local function names(kind)
  return function() return table.concat(core.names(kind), "\n") .. "\n" end
end

local function words(topic)
  return function() return require("tessera.quality.words")[topic] end
end

local topics = {
  quality = { "What a plan does to perplexity and accuracy, and how to bound it.", words "quality" },
  omega = { "How much quality a plan loses, as the planner counts it.", words "omega" },
  theta = { "The price of omega, for research.", words "theta" },
  planners = { "Planners and the options of their own.", planners },
  models = { "Models that ship, or lie in TESSERA_PATH.", names "models" },
  devices = { "Devices that ship, or lie in TESSERA_PATH.", names "devices" },
  clusters = { "Clusters that ship, or lie in TESSERA_PATH.", names "clusters" },
  workloads = { "Workloads that ship, or lie in TESSERA_PATH.", names "workloads" },
  kernel_sets = { "Kernel sets: which bitwidths run where, and how fast.", names "kernel_sets" },
}

core.document {
  name = "ts.help_topic", doc = "What `tessera help TOPIC` prints of the topics that Lua knows.",
  parameters = { { "topic", "string",
    "planners, models, devices, clusters, workloads, kernel_sets, quality, omega or theta" } },
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
