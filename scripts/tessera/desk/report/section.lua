-- One experiment's part of the report.

local data = require "tessera.desk.plot.data"
local html = require "tessera.desk.report.html"
local one_repetition = require "tessera.desk.one_repetition"
local paths = require "tessera.desk.report.paths"
local pictures = require "tessera.desk.report.pictures"
local repeated = require "tessera.desk.repeated"
local results_table = require "tessera.desk.report.results_table"
local rows = require "tessera.desk.rows"
local units = require "tessera.desk.units"
local verdict = require "tessera.desk.experiment.verdict"

local h = html.h
local M = {}

local verdicts = {
  pass = { "chip good", "✓ holds" }, fail = { "chip bad", "✗ fails" }, skipped = { "chip", "– not checked" },
  differs = { "chip", "≠ not reproduced" }, note = { "chip", "· note" },
}

local function claims(run)
  if #(run.claims or {}) == 0 then return nil end
  local items = {}
  for i, claim in ipairs(run.claims) do
    local status = verdict.status(claim)
    items[i] = h("li", nil, h("span", { class = verdicts[status][1] }, verdicts[status][2]), " ", claim.text or "",
      claim.numbers and h("span", { class = "muted" }, ": " .. data.word(claim.numbers)),
      claim.lines and #claim.lines > 0 and h("pre", nil, table.concat(claim.lines, "\n")),
      verdict.why(claim) and h("p", { class = "muted" }, verdict.why(claim)))
  end
  return { h("h3", nil, "Claims"), h("ul", { class = "claims" }, items) }
end

-- What the script says of its settings, and of what its numbers are not.
local function notes(run)
  if #(run.declaration.notes or {}) == 0 then return nil end
  local items = {}
  for i, note in ipairs(run.declaration.notes) do items[i] = h("li", nil, note) end
  return { h("h3", nil, "Notes"), h("ul", nil, items) }
end

-- "cores 2, cpu Xeon": the fields of a table of facts by name.
local function words_of(value)
  if type(value) ~= "table" then return value ~= nil and data.word(value) or nil end
  local names, parts = {}, {}
  for name in pairs(value) do names[#names + 1] = tostring(name) end
  table.sort(names)
  for i, name in ipairs(names) do
    local item = value[name]
    local text = type(item) == "table" and words_of(item) or data.word(item)
    if type(item) == "number" and name:find "_bytes$" then text = units.value(item, units.of(name, item)) end
    parts[i] = ("%s %s"):format(name:gsub("_bytes$", ""):gsub("_", " "), text)
  end
  return table.concat(parts, ", ")
end

local function durations(list)
  local sum, longest, counted = 0, 0, 0
  for _, row in ipairs(list) do
    local took = (row.meta or {}).duration_s
    if took then
      sum, longest, counted = sum + took, math.max(longest, took), counted + 1
    end
  end
  if counted == 0 then return nil end
  return ("%s s over all points, the longest %s s"):format(units.number(sum), units.number(longest))
end

-- Files that the points read, each once.
local function inputs(list)
  local seen, items = {}, {}
  for _, row in ipairs(list) do
    for _, input in ipairs((row.meta or {}).inputs or {}) do
      local path, hash = input.path or input[1], input.sha256 or input[2]
      local text = ("%s (sha256 %s)"):format(paths.shown(data.word(path)), data.word(hash):sub(1, 12))
      if not seen[text] then items[#items + 1] = text end
      seen[text] = true
    end
  end
  return #items > 0 and table.concat(items, ", ") or nil
end

-- Rows that another script or commit than the run's made.
local function mixed(run, list)
  local others = 0
  for _, row in ipairs(list) do
    local meta = row.meta or {}
    if meta.script_hash ~= run.script_hash or meta.git_commit ~= run.git_commit then others = others + 1 end
  end
  if others == 0 then return nil end
  return ("%d of %d rows come from another version of the script or the code"):format(others, #list)
end

local function day(seconds)
  return type(seconds) == "number" and os.date("!%Y-%m-%d %H:%M UTC", math.floor(seconds)) or nil
end

local function origin(run, list)
  local declared = run.declaration
  local script = run.script_path ~= "" and paths.shown(run.script_path) or "a script"
  return h("details", nil, h("summary", nil, "How it was made: " .. script),
    html.facts {
      { "run", ("%d, started %s%s"):format(run.id, day(run.created_at) or "at an unknown time",
        run.quick and ", quick: a part of the grid" or "") },
      { "script", ("%s (sha256 %s)"):format(script, (run.script_hash or ""):sub(1, 12)) },
      { "commit", run.git_commit }, { "seed", data.word(run.seed) }, { "shard", run.shard },
      { "machine", words_of(run.machine) }, { "build", words_of(run.build) }, { "time", durations(list) },
      { "time limit", declared.time_limit_s and units.number(declared.time_limit_s) .. " s per point" or nil },
      { "inputs", inputs(list) }, { "paper", words_of(declared.paper_source) }, { "mixed", mixed(run, list) },
    },
    run.script_text and run.script_text ~= "" and h("pre", { class = "script", tabindex = "0" }, run.script_text))
end

local function summary(run, list)
  local failed = 0
  for _, row in ipairs(list) do failed = failed + (rows.failed(row) and 1 or 0) end
  local declared = run.declaration.points
  local text = ("%d %s"):format(#list, #list == 1 and "point" or "points")
  if type(declared) == "number" and declared > #list then text = ("%d of %d points"):format(#list, declared) end
  return h("p", { class = "muted" }, text,
    failed > 0 and h("span", { class = "chip bad" }, ("%d failed"):format(failed)),
    run.quick and h("span", { class = "chip" }, "quick"))
end

-- The rows; where they are repetitions, their means first.
local function results(run, list, id, on_row)
  local over = run.declaration.over
  local all = results_table.draw(run, list, id .. "-rows", on_row)
  if type(over) ~= "string" or #list == 0 or list[1].point[over] == nil then return { h("h3", nil, "Results"), all } end
  local means, keys = repeated(list, over), {}
  for _, key in ipairs(run.declaration.keys or {}) do
    if key ~= over then keys[#keys + 1] = key end
  end
  local of_means = setmetatable({ declaration = setmetatable({ keys = keys }, { __index = run.declaration }) },
    { __index = run })
  local warning = one_repetition(means, over)
  return {
    h("h3", nil, "Results"),
    h("p", { class = "muted" }, ("Means over %s, with half of their 95 %% interval."):format(over)),
    warning and h("p", { class = "problem" }, warning) or false,
    results_table.draw(of_means, means, id .. "-means", function() end, results_table.with_spread),
    h("details", nil, h("summary", nil, ("All %d repetitions"):format(#list)), all),
  }
end

--- The section of one run. entry: run, rows; `id`: of the section in the page; on_row(count): how far its table is.
function M.draw(store, entry, id, on_row)
  local run, list = entry.run, entry.rows
  local plots = pictures.plots(run, list)
  local plans = pictures.artefacts(store, run, list)
  return h("section", { id = id, ["aria-labelledby"] = id .. "-title" },
    h("h2", { id = id .. "-title" }, run.experiment),
    run.declaration.doc and h("p", { class = "doc" }, run.declaration.doc),
    summary(run, list), claims(run),
    #plots > 0 and h("div", { class = "plots" }, plots),
    results(run, list, id, on_row), notes(run),
    #plans > 0 and { h("h3", nil, "Plans"), plans },
    h("h3", nil, "Origin"), origin(run, list))
end

return M
