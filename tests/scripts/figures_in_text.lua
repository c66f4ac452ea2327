-- tessera figures_in_text.lua [--write] RESULTS ROOT: the figures of pages are what a results file's experiments say.
--
-- Every page below ROOT that has a comment of figures (figures.lua says how one looks) is judged; --write corrects the
-- pages. What needs models, GPUs or data that are not here is listed and not judged. Each figure that is right has to
-- be able to be wrong: with its last digit changed it must be found.

local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local figures = dofile(here .. "/figures.lua")
local figure_values = dofile(here .. "/figure_values.lua")
local add_papers = dofile(here .. "/figures_of_papers.lua")
local core = require "tessera.core"
local text_of = require "tessera.files".text

local arguments, write = { ... }, false
if arguments[1] == "--write" then
  write = true
  table.remove(arguments, 1)
end
local results, root = arguments[1], arguments[2]
assert(results and root, "usage: tessera figures_in_text.lua [--write] RESULTS ROOT")

-- Pages of results, whose every percentage, factor, time and size a comment must account for.
local pages_of_results = {
  "README.md", "experiments/llmpq/README.md", "experiments/splitquant/README.md", "scripts/tessera/man/indicator.md",
}

local function pages_with_figures()
  local pipe = assert(io.popen("cd '" .. root .. "' && grep -rl --include=*.md --exclude-dir=build --exclude-dir=.git "
    .. "'^ *<!-- figures$' . | sort"))
  local found = {}
  for line in pipe:lines() do found[#found + 1] = line:gsub("^%./", "") end
  pipe:close()
  return found
end

-- With its last digit changed; a line of output with its first one, since a time may be the last.
local function with_another_digit(change)
  local function other(digit) return tostring((digit + 1) % 10) end
  if change.by_hand then return (change.text:gsub("%d", other, 1)) end
  return (change.text:gsub("(%d)(%D*)$", function(digit, rest) return other(digit) .. rest end))
end

-- Whether a page with this one figure changed is found wrong.
local function can_fail(path, text, change, environment)
  local page = { path = path, lines = figures.lines_of(text) }
  figures.apply(page, {
    entry = change.entry and { text = change.entry.text, line = change.entry.line }, comment = change.comment,
    line = change.line, from = change.from, to = change.to, text = with_another_digit(change),
  })
  local found = false
  figures.check(page, environment, function(finding) found = found or finding.verdict == "wrong" end)
  return found
end

local environment = figure_values.environment(results)
add_papers(environment)
local num_wrong = 0

local function complain(path, line, message)
  num_wrong = num_wrong + 1
  print(("%s:%d: %s"):format(path, line, message))
end

local function judge(path)
  local text = text_of(root .. "/" .. path)
  local page = { path = path, lines = figures.lines_of(text) }
  local count, changes, skipped = { right = 0, wrong = 0, skipped = 0 }, {}, {}
  figures.check(page, environment, function(finding)
    local verdict = finding.verdict
    if verdict == "empty" and count.skipped > 0 then return end -- all of the column was skipped
    count[verdict == "empty" and "wrong" or verdict] = count[verdict == "empty" and "wrong" or verdict] + 1
    if verdict == "wrong" or verdict == "empty" then
      complain(path, finding.line, finding.message)
      if finding.change and not finding.change.by_hand then changes[#changes + 1] = finding.change end
    elseif verdict == "skipped" then
      skipped[#skipped + 1] = ("  %s:%d: %s"):format(path, finding.line, finding.message)
      local script = finding.change and finding.change.script
      if script and not core.file_kind(root .. "/" .. script) then
        complain(path, finding.line, script .. " is not there")
      end
    elseif finding.change and not can_fail(path, text, finding.change, environment) then
      complain(path, finding.line, "cannot fail: " .. finding.message)
    end
  end)
  print(("%s: %d figures are right, %d are not, %d skipped"):format(path, count.right, count.wrong, count.skipped))
  for _, line in ipairs(skipped) do print(line) end
  if write and #changes > 0 then
    for i = #changes, 1, -1 do figures.apply(page, changes[i]) end
    core.write_file(root .. "/" .. path, table.concat(page.lines, "\n") .. "\n")
    print(("wrote %s: %d figures"):format(path, #changes))
  end
end

for _, path in ipairs(pages_with_figures()) do judge(path) end
for _, path in ipairs(pages_of_results) do
  for _, number in ipairs(figures.unaccounted { lines = figures.lines_of(text_of(root .. "/" .. path)) }) do
    complain(path, number.line, ("no comment says where '%s' comes from"):format(number.text))
  end
end
os.exit(num_wrong == 0 and 0 or 1)
