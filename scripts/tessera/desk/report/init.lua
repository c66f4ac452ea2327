-- `tessera report`: stored runs as one HTML file that needs no network and trusts nothing that it shows.

local core = require "tessera.core"
local data = require "tessera.desk.plot.data"
local html = require "tessera.desk.report.html"
local marks = require "tessera.desk.report.marks"
local options = require "tessera.options"
local section = require "tessera.desk.report.section"
local shell = require "tessera.desk.report.shell"
local store_module = require "tessera.store"
local stored_rows = require "tessera.desk.stored_rows"
local summary = require "tessera.desk.report.summary"
local units = require "tessera.desk.units"
local verdict = require "tessera.desk.experiment.verdict"

local h = html.h
local M = {}

local function fail(message, where) core.raise("not_found", message, where) end

-- The runs that were asked for, each with its rows.
local function of_ids(store, ids)
  local entries = {}
  for i, id in ipairs(ids) do
    local run = store:run(id)
    run.declaration = run.declaration or {}
    entries[i] = { run = run, rows = stored_rows.rows(store, run, { meta = true }) }
  end
  return entries
end

-- The runs to show, each with its rows: of all experiments or the named ones, the newest or the given one.
local function collect(store, opt)
  if opt.runs then return of_ids(store, opt.runs) end
  local newest, order = {}, {}
  for _, run in ipairs(store:runs()) do
    if not newest[run.experiment] then order[#order + 1] = run.experiment end
    newest[run.experiment] = run
  end
  if #order == 0 then
    fail(("report: '%s' holds no runs yet; `tessera run FILE` makes one"):format(opt.results), "report")
  end
  local names = opt.names and #opt.names > 0 and opt.names or order
  if opt.run and #names ~= 1 then
    core.raise("invalid_argument", "report.run: a run belongs to one experiment; name it", "report.run")
  end
  local entries = {}
  for i, name in ipairs(names) do
    if not newest[name] then
      fail(("report: no experiment '%s' in '%s'%s"):format(name, opt.results, core.did_you_mean(name, order)), "report")
    end
    local run = store:run(opt.run or newest[name].id)
    if run.experiment ~= name then
      core.raise("invalid_argument", ("report.run: run %d is of '%s', not of '%s'"):format(opt.run, run.experiment,
        name), "report.run")
    end
    run.declaration = run.declaration or {}
    entries[i] = { run = run, rows = stored_rows.rows(store, run, { meta = true }) }
  end
  return entries
end

-- "5 of 7 claims hold, 2 are not reproduced; 3 notes".
local function claims_words(all, count)
  return ("%d of %d claims hold%s%s"):format(count.pass, all - count.note, count.differs > 0
    and (", %d %s not reproduced"):format(count.differs, count.differs == 1 and "is" or "are") or "",
    count.note > 0 and ("; %d note%s"):format(count.note, count.note == 1 and "" or "s") or "")
end

local function claims_chip(run)
  local all, count = #(run.claims or {}), verdict.count(run.claims)
  if all == 0 then return nil end
  local class = count.fail > 0 and "chip bad" or count.pass + count.note == all and "chip good" or "chip"
  return h("span", { class = class }, claims_words(all, count))
end

-- Of a line of the summary: what fails stands out.
local function summary_cell(column, value)
  if column == "fail" and value > 0 then return h("span", { class = "chip bad" }, data.word(value)) end
  return value and data.word(value)
end

-- How near the papers are, one line per experiment; nil where no number stands beside a published one.
local function summary_table(entries)
  local lines, published = {}, false
  for i, entry in ipairs(entries) do
    local line = summary.of(entry.run, entry.rows)
    published = published or line.cells > 0
    local cells = { h("th", { scope = "row" }, h("a", { href = "#e" .. i }, line.experiment)) }
    local values = summary.line(line)
    for c = 2, #summary.columns do
      cells[c] = h("td", { class = "n" }, summary_cell(summary.columns[c], values[c]))
    end
    lines[i] = h("tr", nil, cells)
  end
  if not published or #entries < 2 then return nil end
  local head = {}
  for c, name in ipairs(summary.columns) do
    head[c] = h("th", { scope = "col", ["aria-sort"] = "none", class = c > 1 and "n" or nil },
      h("div", { class = "head" }, h("button", { type = "button", class = "sort" }, h("span", nil, name))))
  end
  return h("div", { class = "box", tabindex = "0", role = "region", ["aria-label"] = "Summary" },
    h("table", { id = "summary", class = "results" }, h("thead", nil, h("tr", nil, head)), h("tbody", nil, lines)))
end

local function contents(entries)
  local items, points, failed, all, total = {}, 0, 0, 0, verdict.count()
  for i, entry in ipairs(entries) do
    local run = entry.run
    points, failed, all = points + #entry.rows, failed + run.num_failed, all + #(run.claims or {})
    for status, num in pairs(verdict.count(run.claims)) do total[status] = total[status] + num end
    items[i] = h("li", nil, h("a", { href = "#e" .. i }, run.experiment), " ", claims_chip(run),
      run.num_failed > 0 and h("span", { class = "chip bad" }, ("%d failed"):format(run.num_failed)))
  end
  local text = ("%d %s, %s %s"):format(#entries, #entries == 1 and "experiment" or "experiments", units.number(points),
    points == 1 and "point" or "points")
  if failed > 0 then text = ("%s, %s of them failed"):format(text, units.number(failed)) end
  if all > 0 then text = ("%s; %s"):format(text, claims_words(all, total)) end
  return h("p", { class = "summary" }, text), h("nav", { ["aria-label"] = "Experiments" },
    summary_table(entries) or h("ol", nil, items))
end

local function draw_sections(store, entries)
  return stored_rows.with_bar(function(note)
    local sections, drawn_at = {}, core.clock()
    for i, entry in ipairs(entries) do
      sections[i] = section.draw(store, entry, "e" .. i, function(count)
        if core.clock() - drawn_at < 0.1 then return end
        drawn_at = core.clock()
        note(i - 1 + count / #entry.rows, #entries, ("writing experiment %d of %d: %d of %d rows"):format(i, #entries,
          count, #entry.rows))
      end)
    end
    return sections
  end)
end

local function page(store, entries)
  local title = #entries == 1 and entries[1].run.experiment or "Results"
  local counts, nav = contents(entries)
  return shell { title = title, summary = counts, before = { nav, marks.key() }, sections = draw_sections(store,
    entries) }
end

local read = options.card {
  name = "tessera.desk.report.write",
  doc = "Writes stored runs as one HTML file: claims, plots, sortable tables, pipelines, and how each was made.",
  parameters = {},
  options = {
    { name = "results", type = "string", default = "results.db", doc = "File of results" },
    { name = "names", type = "table", lua_type = "string[]", doc = "Experiments; default: all" },
    { name = "run", type = "integer", min = 1, doc = "Of the one named experiment; default: its newest" },
    { name = "runs", type = "table", lua_type = "integer[]", doc = "Ids of the runs to show, instead of names" },
    { name = "out", type = "string", default = "report.html", doc = "File to write" },
  },
}

--- Writes the file and returns what it holds: { experiments, points, bytes, out }.
function M.write(given)
  local opt = read(given)
  local store = store_module.open(opt.results, { read_only = true })
  local entries = collect(store, opt)
  local text = page(store, entries)
  store:close()
  core.write_file(opt.out, text)
  local points = 0
  for _, entry in ipairs(entries) do points = points + #entry.rows end
  return { experiments = #entries, points = points, bytes = #text, out = opt.out }
end

return M
