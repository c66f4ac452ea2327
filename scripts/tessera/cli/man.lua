-- `tessera man`: pages to read. Each is a Markdown file; markdown.lua lays it out for the terminal. A line
-- "@flags tessera run" stands for the flags of that verb, from the table that parses them.

local core = require "tessera.core"
local files = require "tessera.files"
local flags_of = require "tessera.cli.flags"
local host = require "tessera.host"
local markdown = require "tessera.cli.markdown"
local terminal = require "tessera.terminal"

local M = {}

local scripts = host.installation.scripts_dir
local own = scripts .. "/tessera/man/"
local types = host.program:match "^(.*)/[^/]+/[^/]+$" .. "/share/tessera/types" -- written when the program is built

-- Topic, one line, and where its page may be: the first that is there.
local pages = {
  { "tutorial", "From the first plan to a table of your own, in six scripts",
    { host.installation.experiments_dir .. "/tutorial/README.md" } },
  { "planner", "What the planner decides, who plans, and how sure the answers are",
    { own .. "planner.md", scripts .. "/../solver/README.md" } },
  { "indicator", "How much quality a layer loses at a bitwidth, and how to find out", { own .. "indicator.md" } },
  { "statistics", "The file of what a model's operators read", { own .. "statistics.md" } },
  { "experiments", "Declaring a sweep, running, resuming and checking it", { own .. "experiments.md" } },
  { "results", "What is stored, and how to list, compare, export and merge it", { own .. "results.md" } },
  { "report", "Stored results and plots as one HTML file", { own .. "report.md" } },
  { "sandbox", "Running a script that someone else wrote", { own .. "sandbox.md" } },
  { "repl", "The prompt: history, completion, help, describe, reload", { own .. "repl.md" } },
  { "profiles", "How long a layer takes: fitted models, kernel sets, your own GPU", { own .. "profiles.md" } },
  { "launch", "From a plan to servers that run it: export, detect, support, compare", { own .. "launch.md" } },
  { "tasks", "Ten things an engineer comes with, each in a few commands", { own .. "tasks.md" } },
  { "serving", "A stream of requests under latency targets: traffic, engines, SLOs", { own .. "serving.md" } },
  { "iserve", "One request at a time: configurations, fingerprints, intents, placement", { own .. "iserve.md" } },
  { "strategies", "A fast and a slow GPU: three strategies, and the best plan", { own .. "strategies.md" } },
  { "fleets", "Many models on many nodes: which replicas of which shape, for what money", { own .. "fleets.md" } },
  { "data", "Models, devices, clusters and workloads, and files of your own", { own .. "data.md" } },
  { "models", "Which models are read, which run, and how to describe one by hand", { own .. "models.md" } },
  { "weights", "Reading the weights of a model: formats, names, tensors", { own .. "weights.md" } },
  { "serve", "A model behind OpenAI's HTTP interface", { own .. "serve.md" } },
  { "execute", "Running a plan: stages as processes, faults, other machines", { own .. "execute.md" } },
  { "language_models", "Running a model on disk: bitwidths, texts, speed, quality", { own .. "language_models.md" } },
  { "units", "Words, units and indices", { own .. "units.md" } },
  { "editor", "Completion and checks in an editor", { own .. "editor.md" } },
  { "python", "Calling it from Python, and results in pandas", { own .. "python.md" } },
  { "reference", "Every function, object, option and flag", {} },
}

local function read(paths)
  for _, path in ipairs(paths) do
    local text = files.text(path)
    if text then return text end
  end
  core.raise("not_found", ("the page %s is missing; reinstall"):format(paths[1]), paths[1])
end

local function flags(verb)
  local lines = {}
  for i, item in ipairs(flags_of.of(host.cards().options[verb].options)) do
    lines[i] = ("- `%s%s`: %s"):format(item.flag, item.value == "" and "" or " " .. item.value, item.said)
  end
  return table.concat(lines, "\n")
end

--- Names of the pages.
function M.topics()
  local names = {}
  for i, page in ipairs(pages) do names[i] = page[1] end
  return names
end

local function page_of(topic)
  for _, page in ipairs(pages) do
    if page[1] == topic then
      if topic == "reference" then return require("tessera.cli.reference_page").text(host.cards()) end
      return (read(page[3]):gsub("@flags ([%w ]+)", flags):gsub("@types", types))
    end
  end
  core.raise("not_found", ("there is no page '%s'%s; `tessera man` lists them"):format(topic,
    core.did_you_mean(topic, M.topics())), topic)
end

local function list()
  local rows = {}
  for _, page in ipairs(pages) do rows[#rows + 1] = { topic = page[1], doc = page[2] } end
  if host.json then return host.set_result(rows) end
  for _, row in ipairs(rows) do print(("%-15s %s"):format(row.topic, row.doc)) end
  print "\n`tessera man TOPIC` shows a page; `tessera help NAME` explains a function, an\nobject or a verb."
end

--- @param given table names
function M.main(given)
  if #given.names == 0 then return list() end
  local shown = {}
  for i, topic in ipairs(given.names) do shown[i] = { topic = topic, text = page_of(topic) } end
  if host.json then return host.set_result(#shown == 1 and shown[1] or shown) end
  local facts = host.terminal()
  for _, page in ipairs(shown) do
    terminal.say(markdown.text(page.text, { width = math.min(facts.columns, 100), bold = facts.colour }))
  end
end

return M
