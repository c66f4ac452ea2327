-- The comparison of figures with values can fail: planted mistakes in a page are found, and nothing in the clean one.

local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local figures = dofile(here .. "/figures.lua")

local page = [[
# A page

Of 1,021 runs 12.5 % and -3 % are
off, and +95 % once; 4 stages.

<!-- figures
1,021 runs = 1021.4
12.5 % and -3 % are off = 12.46, -3.2
+95 % = 95
0.23 [-0.24, 0.62] by experiments/none.lua, needs weights
of a GPU = gpu()
-->

0.23 [-0.24, 0.62] of a GPU

<!-- figures
0.23 [-0.24, 0.62] by experiments/none.lua, needs weights
of a GPU = gpu()
-->

| row | x | y |
|---|---|---|
| a | **2.0** | 1, 0.5 |
| b | 3.0 | |

<!-- figures
column x = x[row]
bold x = x[row] < 2.5
column y = y(row)
-->

```
lines 12 (3.1 ms)

more   7
```

<!-- figures
output = "lines  12 (99 s)\nmore 7"
-->
]]
page = page:gsub("0%.23 %[%-0%.24, 0%.62%] by [^\n]+\nof a GPU[^\n]+\n", "", 1)

local environment = {
  x = { a = 2.04, b = 2.96 }, gpu = function() error({ skip = "a GPU" }, 0) end,
  y = function(row) if row == "a" then return 1, 0.52 end end,
}

local function count(text)
  local verdicts, messages = { right = 0, wrong = 0, skipped = 0, empty = 0 }, {}
  figures.check({ path = "page", lines = figures.lines_of(text) }, environment, function(finding)
    verdicts[finding.verdict] = verdicts[finding.verdict] + 1
    if finding.verdict == "wrong" or finding.verdict == "empty" then messages[#messages + 1] = finding.message end
  end)
  return verdicts, table.concat(messages, "; ")
end

local num_failures = 0
local function expect(condition, text)
  if condition then return end
  num_failures = num_failures + 1
  print("FAILED: " .. text)
end

local clean, why = count(page)
expect(clean.wrong == 0 and clean.empty == 0 and clean.skipped == 2 and clean.right == 10,
  ("the clean page: %d right, %d wrong, %d skipped: %s"):format(clean.right, clean.wrong, clean.skipped, why))

-- what, text, its replacement everywhere, what must be said
local planted = {
  { "a digit", "12.5 %", "12.6 %", "right is '12.5 %" },
  { "a sign", "+95 %", "-95 %", "right is '95 %'" },
  { "thousands", "1,021", "1,022", "right is '1,021 runs'" },
  { "a digit in the text alone", "1,021 runs 12", "1,031 runs 12", "is not in the block above" },
  { "a figure that is there twice", "4 stages", "+95 % stages", "more than once" },
  { "a figure without values", "= 95\n", "= 1, 2\n", "1 numbers, but 2 values" },
  { "a wrong name", "= 95\n", "= nothing.at\n", "nil value" },
  { "a line that is no figure", "+95 % = 95", "+95 %: 95", "neither TEXT = VALUE" },
  { "a cell", "**2.0**", "**2.1**", "right is **2.0**" },
  { "a second number in a cell", "1, 0.5 |", "1, 0.6 |", "right is 1, 0.5" },
  { "a cell that is not bold", "**2.0**", "2.0", "not bold" },
  { "a cell that is bold", "3.0", "**3.0**", "wrongly bold" },
  { "a column that is not there", "column y", "column z", "no column 'z'" },
  { "a column of nothing", "y(row)", "nil", "nothing to compare" },
  { "a line of output", "more   7", "more   8", "does not print 'more   8'" },
  { "a comment that does not end", "95\n-->", "95\n", "TEXT = VALUE" },
}
for _, case in ipairs(planted) do
  local what, from, to, wanted = unpack(case)
  local text = page
  local at = text:find(from, 1, true)
  assert(at, "the page has no " .. from)
  while at do
    text = text:sub(1, at - 1) .. to .. text:sub(at + #from)
    at = text:find(from, at + #to, true)
  end
  local _, messages = count(text)
  expect(messages:find(wanted, 1, true), ("%s: found '%s', not '%s'"):format(what, messages, wanted))
end

-- Results that no comment accounts for; in comments, in words and without units there are none.
local function unaccounted(text)
  local texts = {}
  for i, number in ipairs(figures.unaccounted { lines = figures.lines_of(text) }) do texts[i] = number.text end
  return table.concat(texts, ", ")
end
expect(unaccounted(page) == "", "of the clean page: " .. unaccounted(page))
expect(unaccounted(page .. "\n1.5x and 3 % of 7 and Q8-3 s, 12 ms.\n") == "1.5x, 3 %, 12 ms.",
  "of more: " .. unaccounted(page .. "\n1.5x and 3 % of 7 and Q8-3 s, 12 ms.\n"))
expect(unaccounted "Up to 3 % and\n4 times.\n\n<!-- figures\nsetting: 3 % and 4 times\n-->\n" == "", "across lines")

-- What corrects a page leaves nothing to correct, and nothing else is touched.
local wrong = { lines = figures.lines_of((page:gsub("12%.5 %%", "77.7 %%"):gsub("%*%*2%.0", "**7.7"))) }
local changes = {}
figures.check(wrong, environment, function(finding) changes[#changes + 1] = finding.change end)
for i = #changes, 1, -1 do
  if not changes[i].by_hand and not changes[i].script then figures.apply(wrong, changes[i]) end
end
expect(table.concat(wrong.lines, "\n") .. "\n" == page, "the corrected page is another one")

for value, like in pairs { [1234567.4] = "1,234,568", [-0.2] = "-0", [12] = "+7" } do
  local wanted = { ["1,234,568"] = "1,234,567", ["-0"] = "0", ["+7"] = "+12" }
  expect(figures.as_printed(value, like) == wanted[like], ("%g like %s is %s"):format(value, like,
    figures.as_printed(value, like)))
end
print(("%d planted mistakes, %d failures"):format(#planted, num_failures))
os.exit(num_failures == 0 and 0 or 1)
