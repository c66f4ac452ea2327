-- `tessera results [NAME]`: what is stored, as tables and exports.

local best = require "tessera.cli.best"
local core = require "tessera.core"
local escape = require "tessera.desk.escape"
local host = require "tessera.host"
local latex = require "tessera.desk.latex"
local published = require "tessera.desk.published"
local one_repetition = require "tessera.desk.one_repetition"
local repeated = require "tessera.desk.repeated"
local store = require "tessera.store"
local rows = require "tessera.desk.rows"
local selection = require "tessera.cli.selection"
local sheet = require "tessera.desk.sheet"
local stored_rows = require "tessera.desk.stored_rows"
local terminal = require "tessera.terminal"
local text_table = require "tessera.desk.text_table"
local verdict = require "tessera.desk.experiment.verdict"

local M = {}

local to_bold = { latex = true, markdown = true }

local function fail(flag, text) core.raise("usage", ("%s: %s"):format(flag, text), flag) end

local function note(text) terminal.err:write("tessera: ", text, "\n") end

local function count(number, noun) return ("%d %s%s"):format(number, noun, number == 1 and "" or "s") end

-- To --out, or to stdout, where --json keeps print away.
local function deliver(text, given)
  if given.out then
    core.write_file(given.out, text)
    note("wrote " .. given.out)
  else
    terminal.out:write(text)
  end
end

local function format_of(given) return host.json and "json" or given.format or "table" end

-- A sheet of something else than rows.
local function written(page, given)
  local format = format_of(given)
  if format == "latex" then return latex.write(page, { caption = given.caption, label = given.label }) end
  return sheet[format](page)
end

-- "5 of 8 claims passed, 2 not reproduced, 1 skipped; 3 notes": of the claims' counts by status.
local function passed_text(tally, noun)
  local judged = tally.pass + tally.fail + tally.differs + tally.skipped
  local text = ("%d of %s passed"):format(tally.pass, noun and count(judged, noun) or judged)
  if tally.differs > 0 then text = ("%s, %d not reproduced"):format(text, tally.differs) end
  if tally.skipped > 0 then text = ("%s, %d skipped"):format(text, tally.skipped) end
  if tally.note > 0 then text = ("%s; %d %s"):format(text, tally.note, tally.note == 1 and "note" or "notes") end
  return text
end

-- Newest run of each experiment, in the order of their first runs.
local function experiments_of(file)
  local found, by_name = {}, {}
  for _, run in ipairs(file:runs()) do
    local entry = by_name[run.experiment]
    if not entry then
      entry = { experiment = run.experiment, runs = 0 }
      by_name[run.experiment], found[#found + 1] = entry, entry
    end
    entry.runs = entry.runs + 1
    entry.points, entry.failed, entry.changed_at = run.num_points, run.num_failed, run.changed_at
    local tally = verdict.count(run.claims)
    entry.claims, entry.claims_passed, entry.claims_failed = #run.claims, tally.pass, tally.fail
    entry.claims_skipped, entry.claims_not_reproduced, entry.claims_notes = tally.skipped, tally.differs, tally.note
  end
  return found
end

local function list(file, given)
  local found = experiments_of(file)
  if format_of(given) == "json" then return deliver(store.json(found), given) end
  local page = { columns = { "experiment", "runs", "points", "failed", "claims", "last change" }, lines = {} }
  for l, e in ipairs(found) do
    page.lines[l] = { e.experiment, e.runs, e.points, e.failed,
      e.claims > 0 and passed_text { pass = e.claims_passed, fail = e.claims_failed, skipped = e.claims_skipped,
        differs = e.claims_not_reproduced, note = e.claims_notes } or nil, rows.time_text(e.changed_at) }
  end
  if #found == 0 then note(given.results .. " holds no experiments yet") end
  deliver(written(page, given), given)
end

-- What the paper printed, where it is to stand beside the rows.
local function printed_of(run, given) return given.paper ~= false and published.of(run.declaration.paper) or nil end

-- Means over the key of --over, of the rows that --where leaves.
local function means_of(all, given)
  if given.failed or given.meta then fail("--over", "a mean of several rows has no --failed and no --meta") end
  local keys = rows.keys(all)
  if #all > 0 and all[1].point[given.over] == nil then
    fail("--over", ("no key '%s'%s"):format(given.over, core.did_you_mean(given.over, keys)))
  end
  local against = selection.point(all, given.against, "--against")
  local means = repeated(selection.where(all, given.where), given.over, against)
  local warning = one_repetition(means, given.over)
  if warning then note(warning) end
  return means
end

local function rows_of(file, run, given, printed)
  local options, asked = { meta = given.meta or given.failed }, given
  if not (selection.needs_all(given) or given.over) then options.failed, options.limit = given.failed, given.limit end
  local all = stored_rows.rows(file, run, options)
  local stored = all
  if given.over then
    all, asked = means_of(all, given), setmetatable({ where = {} }, { __index = given })
  end
  all = published.annotate(all, printed)
  given.columns = published.expand(given.columns, printed, all)
  local found = selection.select(all, asked)
  if #found == 0 and run.num_points > 0 then
    note(given.where and selection.why_none(stored, given.where) or ("none of the %d rows fits"):format(run.num_points))
  end
  return found
end

-- The rows as JSON shows them; with `columns` these alone beside what names a row.
local function json_rows(found, columns)
  local result = {}
  for i, row in ipairs(found) do
    local kept = row
    if columns then
      kept = { point = row.point, status = row.status, error = row.error, meta = row.meta }
      for _, name in ipairs(columns) do
        if row.point[name] == nil then kept[name] = row[name] end
      end
    end
    result[i] = published.nested(kept)
  end
  return result
end

local function point_text(point)
  local words = {}
  for _, key in ipairs(rows.keys { { point = point } }) do
    local value = point[key]
    words[#words + 1] = ("%s=%s"):format(key, type(value) == "table" and store.key(value) or tostring(value))
  end
  return table.concat(words, " ")
end

local function indented(text) return "    " .. escape.trimmed(text):gsub("\n", "\n    ") .. "\n" end

-- Beneath the table: why points failed; with --failed at length.
local function failures(found, at_length)
  local out = {}
  for _, row in ipairs(found) do
    if rows.failed(row) then
      out[#out + 1] = ("%s %s: %s\n"):format(row.status, point_text(row.point),
        escape.trimmed(row.error):gsub("\n", "\n  "))
      if at_length then
        for _, part in ipairs { "traceback", "log" } do
          local text = row.meta[part]
          if text and text ~= "" then out[#out + 1] = ("  %s:\n%s"):format(part, indented(text)) end
        end
      end
    end
  end
  return #out > 0 and "\n" .. table.concat(out) or ""
end

local claim_words = { pass = "pass", fail = "FAIL", skipped = "skip", differs = "diff", note = "note" }

-- Claims are about all rows of a run, whichever are shown.
local function claims_text(run, num_shown)
  if #run.claims == 0 or num_shown == 0 then return "" end
  local lines = {}
  for i, claim in ipairs(run.claims) do
    lines[i] = ("  %s  %s%s%s\n"):format(claim_words[verdict.status(claim)], claim.text or "",
      claim.numbers and ": " .. claim.numbers or "",
      verdict.why(claim) and "; " .. verdict.why(claim) or "")
  end
  return ("\n%s%s\n%s"):format(passed_text(verdict.count(run.claims), "claim"),
    num_shown < run.num_points and (" by all %d points"):format(run.num_points) or "", table.concat(lines))
end

-- What stands in the columns where --against asks for differences.
local function against_text(given)
  return ("differences to %s, %s by %s, with half of their 95 %% interval"):format(
    table.concat(given.against, " "), given.over, given.over)
end

local function heading(run, runs, given)
  local commit = run.git_commit ~= "" and ", commit " .. run.git_commit:sub(1, 12) or ""
  local script = run.script_hash ~= "" and ", script " .. run.script_hash:sub(1, 12) or ""
  local doc = (run.declaration.doc or "") ~= "" and run.declaration.doc .. "\n" or ""
  if given.against then doc = ("%s%s\n"):format(doc, against_text(given)) end
  return ("%s, run %d%s%s: %s%s%s, %s, %d failed\n%s\n"):format(run.experiment, run.id,
    #runs > 1 and (" (of %d runs)"):format(#runs) or "", run.quick and ", quick" or "",
    rows.time_text(run.changed_at), script, commit, count(run.num_points, "point"), run.num_failed, doc)
end

-- Names of the columns behind status: ours, with the paper's beside.
local function others_of(run, found, printed)
  local names, ours, is_key = {}, {}, {}
  for _, name in ipairs(rows.keys(found)) do is_key[name] = true end
  for _, name in ipairs(rows.columns(found)) do ours[name] = not is_key[name] and not published.split(name) or nil end
  local function add(name)
    if ours[name] then names[#names + 1], ours[name] = name, nil end
  end
  for _, name in ipairs(run.declaration.columns or {}) do
    for _, column in ipairs(printed and printed.columns or {}) do
      ours[name] = ours[name] or column == name or nil
    end
    add(name)
  end
  for _, name in ipairs(rows.columns(found)) do add(name) end
  return published.beside(names, found, printed)
end

local function caption_of(run, given)
  local label = given.label or latex.label(run.experiment)
  local commit = run.git_commit ~= "" and ", commit " .. run.git_commit:sub(1, 12) or ""
  local script = run.script_hash ~= "" and ", script " .. run.script_hash:sub(1, 12) or ""
  local caption = (run.declaration.doc or "") ~= "" and run.declaration.doc or run.experiment
  if given.against then caption = ("%s: %s"):format(caption, against_text(given)) end
  return {
    caption = given.caption or caption,
    label = label,
    source = ("%s, run %d%s%s"):format(run.experiment, run.id, script, commit),
  }
end

local function check_format_flags(format, given)
  if (given.caption or given.label) and format ~= "latex" then
    fail(given.caption and "--caption" or "--label", "only --format latex has one")
  end
  if given.best and not to_bold[format] then fail("--best", "it belongs to --format latex or markdown") end
end

local function show(file, name, given)
  local run, runs = selection.run(file, name, given.run)
  given.over = given.over or given.against and run.declaration.over
  if given.against and not given.over then fail("--against", "it is of repetitions: say --over KEY, too") end
  local printed, format = not given.against and printed_of(run, given) or nil, format_of(given)
  check_format_flags(format, given)
  local found = rows_of(file, run, given, printed)
  if format == "json" then return deliver(store.json(json_rows(found, given.columns)), given) end
  local page = rows.sheet(found, { keys = run.declaration.keys, others = others_of(run, found, printed),
    columns = given.columns, meta = given.meta, spread = given.over ~= nil and format ~= "csv",
    error = format == "csv" and not given.columns and run.num_failed > 0 })
  best.mark(page, given)
  local text
  if format == "latex" then
    text = latex.write(page, caption_of(run, given))
  elseif format == "table" then
    local beneath = failures(found, given.failed) .. claims_text(run, given.over and run.num_points or #found)
    local fitted = given.out and function(lines) return lines end or terminal.wrapped
    text = fitted(heading(run, runs, given)) .. sheet.table(page, given.out and math.huge) .. fitted(beneath)
  else
    text = sheet[format](page)
  end
  deliver(text, given)
end

local function as_number(text)
  local number = tonumber(text)
  return number and number == math.floor(number) and number or nil
end

-- Rows to compare and what they are called: a run's number, or another file.
local function side(file, name, word)
  local id = as_number(word)
  local from = id and file or store.open(word, { read_only = true })
  local run = selection.run(from, name, id)
  return stored_rows.rows(from, run, {}), id and "run " .. id or ("%s (run %d)"):format(word, run.id)
end

local function diff(file, name, given)
  local rows_diff = require "tessera.desk.rows_diff"
  local words = given.diff
  if #words > 2 then fail("--diff", "two runs, one run, or one other results file belong here") end
  local newest = selection.run(file, name, given.run)
  local first, first_name = side(file, name, words[1])
  local second, second_name = side(file, name, words[2] or tostring(newest.id))
  local kept, other = selection.where(first, given.where), selection.where(second, given.where)
  if given.where and #kept + #other == 0 then note(selection.why_none(first, given.where)) end
  local result = rows_diff.compare(kept, other, given.columns)
  local format = format_of(given)
  if format == "json" then
    deliver(store.json(result), given)
  elseif format == "table" then
    deliver(rows_diff.text(result, first_name, second_name), given)
  else
    deliver(written(rows_diff.sheet(result), given), given)
  end
end

local function merge(given)
  local paths = {}
  for _, some in ipairs { given.merge, given.names } do
    for _, path in ipairs(some) do paths[#paths + 1] = path end
  end
  for _, path in ipairs(paths) do store.open(path, { read_only = true }):close() end
  local into = store.open(given.results)
  local report = stored_rows.with_bar(function(note_share)
    local function progress(share) note_share(share, 1, ("merging: %.0f %%"):format(100 * share)) end
    return into:merge(paths, { prefer = given.prefer, progress = progress })
  end)
  into:close()
  if #report.contradictions > 0 and not given.prefer then
    local shown = {}
    for i = 1, math.min(#report.contradictions, 20) do
      local item = report.contradictions[i]
      shown[i] = { experiment = item.experiment, point = item.key, ["in"] = item.where }
    end
    terminal.err:write(text_table(shown, { columns = { "experiment", "point", "in" } }))
    return nil, core.why("contradiction", ("the files disagree on %s%s; nothing was merged. "
      .. "Choose with --prefer first or --prefer last"):format(count(#report.contradictions, "point"),
      #shown < #report.contradictions and (" (%d shown)"):format(#shown) or ""))
  end
  if host.json then
    host.set_result(report)
  else
    print(("merged %s into %s: %s added (%s), %d replaced, %s left out"):format(count(#paths, "file"), given.results,
      count(report.num_rows, "row"), count(report.num_runs, "new run"), report.num_replaced,
      count(report.num_duplicates, "duplicate")))
  end
end

--- Lists experiments, shows one, compares two runs, or merges files.
function M.main(given)
  given.results = given.results or "results.db"
  if given.merge then return merge(given) end
  if given.prefer then fail("--prefer", "it belongs to --merge") end
  if #given.names > 1 then
    fail("tessera results", ("one experiment at a time, got %d names; files are merged with --merge A,B --results OUT")
      :format(#given.names))
  end
  local file = store.open(given.results, { read_only = true })
  local name = given.names[1]
  if not name and given.diff then fail("--diff", "name the experiment: tessera results NAME --diff 1,2") end
  if not name then
    list(file, given)
  elseif given.diff then
    diff(file, name, given)
  else
    show(file, name, given)
  end
  file:close()
  return 0
end

return M
