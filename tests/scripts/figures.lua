-- Figures in a text: pairs of what is printed and how it is computed, in comments that Markdown does not show. A
-- comment belongs to the paragraph, list or table above it:
--
--   <!-- figures
--   22 %, 55 % = 100 * median(differences("llmpq/table4", "llm_pq")), 100 * worst(differences(...))
--   column print = printed_speedup(row)       every cell of a table's column; `row` is the text of its first cell
--   bold print = printed_speedup(row) > 2     whether the cells are in bold
--   0.23 [-0.24, 0.62] by experiments/quality/indicators.lua, needs smollm2-135m
--   output = plan_text()                      every line of the code block above is among those of this text
--   table by experiments/indicator/indicators.lua, needs smollm2-135m
--   setting: 60 s                             chosen, not computed; `print: 2.34x`: of the paper's own text
--   -->
--
-- The words before `=` stand in the block above once; its numbers are compared, one by one, with the values of the Lua
-- expression after it, rounded to the digits that are printed. `by` names the script that prints what cannot be
-- computed from the stored rows, and what it needs. Nothing here touches the disk.

local M = {}

local number_pattern = "[+-]?%d[%d,]*%.?%d*"

local function trimmed(text) return (text:gsub("^%s+", ""):gsub("%s+$", "")) end

-- Positions and texts of the numbers in a text: "1,021", "-0.2", "+95".
local function numbers_of(text)
  local found, at = {}, 1
  while true do
    local from, to = text:find(number_pattern, at)
    if not from then return found end
    local number = text:sub(from, to):gsub("[,.]+$", "")
    -- A sign counts where a number may begin: "4-bit" and "Q4-1" have none.
    if number:find "^[+-]" and text:sub(from - 1, from - 1):find "[%w]" then from, number = from + 1, number:sub(2) end
    found[#found + 1] = { from = from, to = from + #number - 1, text = number }
    at = from + #number
  end
end

-- A value with the digits, sign and separators of a printed number.
local function as_printed(value, like)
  local decimals = #(like:match "%.(%d*)$" or "")
  local text = ("%." .. decimals .. "f"):format(value)
  if tonumber(text) == 0 then text = text:gsub("^-", "") end
  if like:find(",", 1, true) then
    local whole, rest = text:match "^(-?%d+)(.*)$"
    text = whole:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^(-?),", "%1") .. rest
  end
  if like:sub(1, 1) == "+" and value >= 0 then text = "+" .. text end
  return text
end
M.as_printed = as_printed

--- The printed text with the right numbers, and whether it was right; nil and why where values do not fit. `some`: the
--- last values need not be printed.
function M.corrected(text, values, some)
  local numbers, out, last = numbers_of(text), {}, 1
  if #numbers ~= #values and not (some and #numbers > 0 and #numbers < #values) then
    return nil, ("%d numbers, but %d values"):format(#numbers, #values)
  end
  for i, number in ipairs(numbers) do
    if type(values[i]) ~= "number" or values[i] ~= values[i] then return nil, ("value %d is no number"):format(i) end
    out[#out + 1] = text:sub(last, number.from - 1) .. as_printed(values[i], number.text)
    last = number.to + 1
  end
  local right = table.concat(out) .. text:sub(last)
  return right, right == text
end

-- The block above line `at`: first and last line with text.
local function block_above(lines, at)
  local last = at - 1
  while last > 0 and not lines[last]:find "%S" do last = last - 1 end
  local first = last
  local function is_part(line) return line:find "%S" and not line:find "%-%->%s*$" end
  if last > 0 and lines[last]:find "^```" then is_part = function(line) return not line:find "^```" end end
  while first > 1 and is_part(lines[first - 1]) do first = first - 1 end
  return first, last
end

local function lines_of(text)
  local lines = {}
  for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  if lines[#lines] == "" then lines[#lines] = nil end
  return lines
end
M.lines_of = lines_of

local function entry_of(line, number)
  local text, script, need
  local kind, name, rule = line:match "^(%l+) (.-) = (.+)$"
  if kind == "column" or kind == "bold" then return { kind = kind, name = name, rule = rule, line = number } end
  kind, text = line:match "^(%l+): (.+)$"
  if kind == "setting" or kind == "print" then return { kind = "said", text = trimmed(text), line = number } end
  rule = line:match "^output = (.+)$"
  if rule then return { kind = "output", rule = rule, line = number } end
  text, script, need = line:match "^(.-) by (%S+), needs (.+)$"
  if text then return { kind = "elsewhere", text = text, script = script, need = need, line = number } end
  text, rule = line:match "^(.-) = (.+)$"
  if text then return { kind = "figure", text = trimmed(text), rule = rule, line = number } end
end

--- The comments of a page: { first, last (lines of the block), entries }, and findings of lines that are none.
function M.comments(lines)
  local found, findings, open = {}, {}, nil
  for l, line in ipairs(lines) do
    if line:find "^%s*<!%-%- figures%s*$" then
      open = { entries = {} }
      open.first, open.last = block_above(lines, l)
    elseif open and line:find "^%s*%-%->%s*$" then
      found[#found + 1], open = open, nil
    elseif open then
      local entry = entry_of(trimmed(line), l)
      if entry then
        open.entries[#open.entries + 1] = entry
      else
        findings[#findings + 1] = { line = l, message = "neither TEXT = VALUE nor TEXT by SCRIPT, needs WHAT" }
      end
    end
  end
  if open then findings[#findings + 1] = { line = #lines, message = "a comment of figures does not end" } end
  return found, findings
end

-- Where the words of a figure stand in the block, across line breaks and once: from, to.
local function find_words(block, words)
  local pattern = words:gsub("%p", "%%%0"):gsub("%s+", "%%s+")
  -- A figure is not the end or the beginning of a longer number.
  local guarded = (words:find "^[%d+-]" and "%f[%d.+-]" or "") .. pattern
  local places, at = {}, 1
  while true do
    local from, to = block:find(guarded, at)
    if not from then break end
    local after = block:sub(to + 1, to + 2)
    if not (words:find "%d$" and (after:find "^%d" or after:find "^[.,]%d")) then places[#places + 1] = { from, to } end
    at = from + 1
  end
  if #places == 1 then return places[1][1], places[1][2] end
  return nil, #places == 0 and "is not in the block above" or "is there more than once: give more words"
end

-- What an expression gives, as a list; nil and why; or nil, nil and what it needs.
local function evaluate(rule, environment)
  local chunk, why = loadstring("return " .. rule)
  if not chunk then return nil, why end
  setfenv(chunk, environment)
  local function list(ok, ...)
    if ok then return { ... } end
    local failure = ...
    if type(failure) == "table" and failure.skip then return nil, nil, failure.skip end
    return nil, tostring(failure)
  end
  return list(pcall(chunk))
end

-- The cells of a Markdown row, each { from, to, text } without the spaces around it.
local function cells_of(line)
  local cells, at = {}, (line:find("|", 1, true) or 0) + 1
  while true do
    local bar = line:find("|", at, true)
    if not bar then return cells end
    local inner = line:sub(at, bar - 1)
    local from, text = inner:match "^%s*()(.-)%s*$"
    cells[#cells + 1] = { from = at + from - 1, to = at + from - 2 + #text, text = text }
    at = bar + 1
  end
end

local function with_row(environment, row)
  return setmetatable({ row = row }, { __index = environment })
end

local function check_column(page, comment, entry, environment, report)
  local lines, column = page.lines, nil
  for c, cell in ipairs(cells_of(lines[comment.first])) do
    if cell.text == entry.name then column = c end
  end
  if not column then return report("wrong", entry.line, ("no column '%s' in the table above"):format(entry.name)) end
  local num_compared = 0
  for l = comment.first + 2, comment.last do
    local cells = cells_of(lines[l])
    local cell, row = cells[column], cells[1] and cells[1].text:gsub("%*%*", "")
    local values, why, skip = evaluate(entry.rule, with_row(environment, row))
    if skip then
      report("skipped", l, ("column '%s' needs %s"):format(entry.name, skip))
    elseif not values then
      report("wrong", l, ("%s: %s"):format(entry.rule, why))
    elseif #values > 0 and entry.kind == "bold" then
      num_compared = num_compared + 1
      local is_bold = cell.text:find("**", 1, true) ~= nil
      report(is_bold == values[1] and "right" or "wrong", l, ("%s is %s bold in column '%s'"):format(cell.text,
        values[1] and "not" or "wrongly", entry.name))
    elseif #values > 0 and values[1] ~= nil then
      num_compared = num_compared + 1
      local right, is_right = M.corrected(cell.text, values, true)
      if not right then
        report("wrong", l, ("column '%s', '%s': %s"):format(entry.name, cell.text, is_right))
      else
        report(is_right and "right" or "wrong", l, ("column '%s' of row %s prints %s, right is %s"):format(entry.name,
          row, cell.text, right), { line = l, from = cell.from, to = cell.to, text = right })
      end
    end
  end
  if num_compared == 0 then report("empty", entry.line, ("column '%s': nothing to compare"):format(entry.name)) end
end

-- What differs from run to run: times in parentheses, and spaces, since columns are as wide as the widest time.
local function steady(line) return (line:gsub("%([%l ]*[%d.]+ %l*s%)", "(TIME)"):gsub("%s+", " ")) end

local function check_output(page, comment, entry, environment, report)
  local values, why, skip = evaluate(entry.rule, environment)
  if skip then return report("skipped", entry.line, ("the output needs %s"):format(skip)) end
  if not values then return report("wrong", entry.line, ("%s: %s"):format(entry.rule, why)) end
  local printed = {}
  for _, line in ipairs(lines_of(values[1])) do printed[steady(line)] = true end
  for l = comment.first, comment.last - 1 do
    local line = page.lines[l]
    if line:find "%S" then
      report(printed[steady(line)] and "right" or "wrong", l, ("the program does not print '%s'"):format(line),
        line:find "%d" and { line = l, from = 1, to = #line, text = line, by_hand = true } or nil)
    end
  end
end

local function check_figure(page, comment, entry, environment, report)
  local block = table.concat(page.lines, "\n", comment.first, comment.last)
  local from, to = find_words(block, entry.text)
  if not from then return report("wrong", entry.line, ("'%s' %s"):format(entry.text, to)) end
  if entry.kind == "said" then return end
  local line = comment.first + select(2, block:sub(1, from):gsub("\n", ""))
  if entry.kind == "elsewhere" then
    return report("skipped", line, ("'%s' is printed by %s, which needs %s"):format(entry.text, entry.script,
      entry.need), { script = entry.script })
  end
  local values, why, skip = evaluate(entry.rule, environment)
  if skip then return report("skipped", line, ("'%s' needs %s"):format(entry.text, skip)) end
  if not values then return report("wrong", entry.line, ("%s: %s"):format(entry.rule, why)) end
  local right, is_right = M.corrected(entry.text, values)
  if not right then return report("wrong", line, ("'%s': %s"):format(entry.text, is_right)) end
  report(is_right and "right" or "wrong", line, ("printed '%s', right is '%s'"):format(entry.text, right),
    { entry = entry, comment = comment, text = right })
end

--- Judges a page, { path, lines }. `environment` has what expressions may use; an error { skip = what } of theirs says
--- what they need. Calls visit { verdict = "right" | "wrong" | "skipped" | "empty", line, message, change }.
function M.check(page, environment, visit)
  local comments, findings = M.comments(page.lines)
  local function report(verdict, line, message, change)
    visit { verdict = verdict, line = line, message = message, change = change }
  end
  for _, finding in ipairs(findings) do report("wrong", finding.line, finding.message) end
  for _, comment in ipairs(comments) do
    for _, entry in ipairs(comment.entries) do
      if entry.kind == "output" then
        check_output(page, comment, entry, environment, report)
      elseif entry.kind == "column" or entry.kind == "bold" then
        check_column(page, comment, entry, environment, report)
      elseif entry.kind == "elsewhere" and entry.text == "table" then
        report("skipped", comment.first, ("the table is printed by %s, which needs %s"):format(entry.script,
          entry.need), { script = entry.script })
      else
        check_figure(page, comment, entry, environment, report)
      end
    end
  end
end

-- What makes a number a result in the eyes of a reader.
local units = { "^ ?%%", "^x%f[^%w]", "^ s%f[^%w]", "^ ms%f[^%w]", "^ times%f[^%w]", "^ MB%f[^%w]", "^ nats%f[^%w]" }

-- By line, the ranges of columns that comments account for; true: all of it.
local function accounted(page, comments)
  local of_line = {}
  local function add(line, from, to)
    of_line[line] = of_line[line] or {}
    table.insert(of_line[line], { from, to })
  end
  for _, comment in ipairs(comments) do
    local block = table.concat(page.lines, "\n", comment.first, comment.last)
    for _, entry in ipairs(comment.entries) do
      if entry.kind == "column" or entry.kind == "bold" or entry.kind == "output" or entry.text == "table" then
        for l = comment.first, comment.last do add(l, 1, math.huge) end
      else
        local at, to = find_words(block, entry.text)
        local line, start = comment.first, 1 -- of the line's first character in the block
        while at and start <= to do
          local length = #page.lines[line]
          if start + length >= at then add(line, at - start + 1, to - start + 1) end
          line, start = line + 1, start + length + 1
        end
      end
    end
  end
  return of_line
end

--- The percentages, factors, times and sizes of a page that no comment accounts for: { line, text }.
function M.unaccounted(page)
  local comments, found, inside = M.comments(page.lines), {}, false
  local of_line = accounted(page, comments)
  for l, line in ipairs(page.lines) do
    if line:find "^%s*<!%-%-" then inside = true end
    for _, number in ipairs(inside and {} or numbers_of(line)) do
      local rest, is_result = line:sub(number.to + 1), false
      for _, unit in ipairs(units) do is_result = is_result or rest:find(unit) ~= nil end
      is_result = is_result and not line:sub(1, number.from - 1):find "[%w_-]$"
      for _, range in ipairs(of_line[l] or {}) do
        if number.from >= range[1] and number.to <= range[2] then is_result = false end
      end
      if is_result then found[#found + 1] = { line = l, text = number.text .. rest:match "^ ?%S+" } end
    end
    if line:find "%-%->%s*$" then inside = false end
  end
  return found
end

--- Puts what is right in the place of what is printed, in the block and before `=`.
function M.apply(page, change)
  local lines = page.lines
  if not change.entry then
    local line = lines[change.line]
    lines[change.line] = line:sub(1, change.from - 1) .. change.text .. line:sub(change.to + 1)
    return
  end
  local comment, entry = change.comment, change.entry
  local block = table.concat(lines, "\n", comment.first, comment.last)
  local from, to = find_words(block, entry.text)
  local numbers, new_numbers = numbers_of(block:sub(from, to)), numbers_of(change.text)
  local printed = block:sub(from, to)
  for i = #numbers, 1, -1 do -- words and line breaks stay as they are
    printed = printed:sub(1, numbers[i].from - 1) .. new_numbers[i].text .. printed:sub(numbers[i].to + 1)
  end
  for i, line in ipairs(lines_of(block:sub(1, from - 1) .. printed .. block:sub(to + 1))) do
    lines[comment.first + i - 1] = line
  end
  local own = lines[entry.line]
  local at = own:find(entry.text, 1, true)
  lines[entry.line] = own:sub(1, at - 1) .. change.text .. own:sub(at + #entry.text)
  entry.text = change.text
end

return M
