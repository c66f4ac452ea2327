-- The claims of an experiment: what `check = function(t)` gets. Each claim passes, fails, or is skipped because points
-- that it is about have not been run, differs as it said it would, or is a note; and says so with the numbers.

local core = require "tessera.core"
local grouped = require "tessera.grouped"
local host = require "tessera.host"
local options = require "tessera.options"
local rows = require "tessera.desk.rows"
local comparing = require "tessera.desk.experiment.comparing"
local grid = require "tessera.desk.experiment.grid"
local means = require "tessera.desk.experiment.means"
local trace = require "tessera.desk.experiment.trace"
local verdict = require "tessera.desk.experiment.verdict"

local M = {}

local fail = core.refuse
local compared, missing, wrong = comparing.compared, comparing.missing, comparing.wrong
local is_better, is_member = comparing.is_better, comparing.is_member
local number_text, shown, within_text = comparing.number_text, comparing.shown, comparing.within_text

-- "cluster=llmpq-3|llmpq-4 planner=exact"
local function where_text(where, keys)
  local parts = {}
  for _, key in ipairs(keys) do
    local values = where[key]
    if values ~= nil then
      local texts = {}
      for i, value in ipairs(type(values) == "table" and values or { values }) do texts[i] = tostring(value) end
      parts[#parts + 1] = key .. "=" .. table.concat(texts, "|")
    end
  end
  return table.concat(parts, " ")
end

local Claims = {}
Claims.__index = Claims
Claims.__metatable = "tessera.Claims"

-- Declares a method of `t`: its options and what judges it.
local function claim(name, specs, judge)
  specs.where = { type = "table", doc = "Only points with these values" }
  for _, common in ipairs { verdict.options, means.options } do
    for key, spec in pairs(common) do specs[key] = spec end
  end
  local path = "t:" .. name
  local read = options.reader(path, specs)
  Claims[name] = function(self, given)
    if type(given) ~= "table" then fail(path, "give a table of options, not a " .. type(given)) end
    local opt = read(given)
    local result = { lines = {}, values = {}, checked = 0, skipped = 0, failed = 0 }
    verdict.read(opt, result, path)
    if opt.against and not opt.means then fail(path .. ".against", "it goes with means = true") end
    local judged = opt.means and means.of(self, opt.against, path) or self
    for _, cell in ipairs(judged:cells(opt.where, path)) do
      result.broken = result.broken or (cell.row and cell.row.error ~= nil)
    end
    judge(judged, opt, result, path)
    if opt.means then result.text = result.text .. means.text(self, opt.against) end
    if opt.where then result.text = result.text .. ", for " .. where_text(opt.where, self.keys) end
    self:add(result)
  end
end

-- Every declared or stored point with these values: { point, row or nil }.
function Claims:cells(where, path)
  if where ~= nil and type(where) ~= "table" then
    fail(path .. ".where", "{ key = value } belongs here, not a " .. type(where))
  end
  for key, values in pairs(where or {}) do
    if not self.is_key[key] then
      fail(path .. ".where", ("no key '%s'%s"):format(tostring(key), core.did_you_mean(tostring(key), self.keys)))
    end
    local known = {}
    for _, value in ipairs(type(values) == "table" and values or { values }) do
      if #grid.select(self.points, { [key] = value }) == 0 then
        for _, point in ipairs(self.points) do known[#known + 1] = tostring(point[key]) end
        fail(path .. ".where", ("no point has %s = %s%s"):format(key, tostring(value),
          core.did_you_mean(tostring(value), known)))
      end
    end
  end
  local cells = {}
  for _, point in ipairs(grid.select(self.points, where or {})) do
    cells[#cells + 1] = { point = point, row = self.row_of[core.to_json(point)] }
  end
  return cells
end

-- Cells by the values of all keys but `without`: a list of { text, cells }.
function Claims:groups(cells, without)
  local kept, list = {}, {}
  for _, key in ipairs(self.keys) do
    if not without[key] then kept[#kept + 1] = key end
  end
  for i, group in ipairs(grouped(cells, function(cell) return grid.text(cell.point, kept) end)) do
    list[i] = { text = group.key == "" and "all points" or group.key, cells = group }
  end
  return list
end

-- A declared column may be that of rows without data.
function Claims:check_column(column, path)
  local known, num_without, declared = rows.columns(self.rows, self.experiment.columns), 0, false
  for _, name in ipairs(known) do
    if name == column then return end
  end
  for _, name in ipairs(self.experiment.columns or {}) do declared = declared or name == column end
  for _, row in ipairs(self.rows) do
    if row.status == "no_data" then num_without = num_without + 1 end
  end
  if num_without == #self.rows or declared and num_without > 0 then return end
  fail(path .. ".column", ("no row has a column '%s'%s"):format(column, core.did_you_mean(column, known)))
end

function Claims:check_key(key, path)
  if not self.is_key[key] then
    fail(path, ("no key '%s'%s"):format(tostring(key), core.did_you_mean(tostring(key), self.keys)))
  end
end

local column_spec = { type = "string", required = true, doc = "Name of a column" }

local within_spec = { type = "number", default = 0, min = 0, doc = "Ratio by which others may be better" }

local function check_point(point, path)
  if type(point) ~= "table" then fail(path, "a point, { key = value }, belongs here, not a " .. type(point)) end
end

claim("expect_best", {
  column = column_spec,
  is = { type = "table", required = true, doc = "Values that the best point has: { planner = \"exact\" }" },
  lowest = { type = "boolean" }, highest = { type = "boolean" },
  within = within_spec,
}, function(self, opt, result, path)
  self:check_column(opt.column, path)
  local better = comparing.direction(opt, path)
  for key in pairs(opt.is) do self:check_key(key, path .. ".is") end
  result.text = ("%s is %s where %s%s"):format(opt.column, better == "lower" and "lowest" or "highest",
    grid.text(opt.is), within_text(opt.within))
  self:cells(opt.is, path)
  for _, group in ipairs(self:groups(self:cells(opt.where, path), opt.is)) do
    if not missing(group.cells, result) then
      result.checked = result.checked + 1
      local values = comparing.measures(group, opt.column, better, result)
      local best, other
      for i in ipairs(values or {}) do
        if is_member(group.cells[i].point, opt.is) then
          if not best or is_better(values[i], values[best], better) then best = i end
        elseif not other or is_better(values[i], values[other], better) then
          other = i
        end
      end
      if best and other then
        compared(result, values[best] / values[other])
        if is_better(values[other], comparing.with_slack(values[best], opt.within, better), better) then
          wrong(result, ("%s: %s, but %s with %s"):format(group.text, shown(values[best], group.cells[best]),
            shown(values[other], group.cells[other]), grid.text(group.cells[other].point)))
        end
      end
    end
  end
end)

-- What a value is compared with: the published one, another column, or a number.
local function target_of(self, opt, cell)
  if opt.to == "paper" then return self:published(cell.point, opt.column) end
  if type(opt.to) == "string" then return rows.value(cell.row, opt.to) end
  return opt.to
end

claim("expect_close", {
  column = column_spec,
  to = { type = "any", lua_type = "string|number", required = true, doc = "\"paper\", a column, or a number" },
  rel = { type = "number", min = 0 }, abs = { type = "number", min = 0 },
}, function(self, opt, result, path)
  self:check_column(opt.column, path)
  if not opt.rel and not opt.abs then fail(path, "give rel or abs, how far apart they may be") end
  if opt.to == "paper" and not self.experiment.paper then fail(path .. ".to", "the experiment has no paper") end
  result.text = ("%s is close to %s (%s)"):format(opt.column, opt.to == "paper" and "the paper" or number_text(opt.to),
    opt.rel and ("%g %%"):format(100 * opt.rel) or ("%g"):format(opt.abs))
  for _, cell in ipairs(self:cells(opt.where, path)) do
    local applies = opt.to ~= "paper" or self:published(cell.point, opt.column) ~= nil
    if applies and not missing({ cell }, result) then
      local target = target_of(self, opt, cell)
      local value, why = comparing.measure(cell, opt.column, "higher")
      if not value then
        wrong(result, ("%s: %s"):format(grid.text(cell.point, self.keys), why))
      elseif target ~= nil then
        result.checked = result.checked + 1
        local distance = math.abs(value - target)
        compared(result, target ~= 0 and value / target or value)
        if distance > math.max((opt.rel or 0) * math.abs(target), opt.abs or 0) then
          wrong(result, ("%s: %s against %s (%s)"):format(grid.text(cell.point, self.keys), shown(value, cell),
            number_text(target), target ~= 0 and distance < math.huge
            and ("%+.1f %%"):format(100 * (value / target - 1)) or "no number"))
        end
      end
    end
  end
end)

claim("expect_all", {
  column = column_spec, at_least = { type = "number" }, at_most = { type = "number" }, equals = { type = "any" },
  interval = { type = "boolean", doc = "With means: not the mean alone but its 95 % interval is within the bounds" },
}, function(self, opt, result, path)
  if opt.column ~= "status" then self:check_column(opt.column, path) end
  local words = {}
  if opt.at_least then words[#words + 1] = ">= " .. number_text(opt.at_least) end
  if opt.at_most then words[#words + 1] = "<= " .. number_text(opt.at_most) end
  if opt.equals ~= nil then words[#words + 1] = "= " .. number_text(opt.equals) end
  if #words == 0 then fail(path, "give at_least, at_most or equals") end
  if opt.interval and not opt.means then fail(path .. ".interval", "it goes with means = true") end
  result.text = ("%s %s%s"):format(opt.column, table.concat(words, " and "),
    opt.interval and " (its 95 % interval)" or "")
  for _, cell in ipairs(self:cells(opt.where, path)) do
    if not missing({ cell }, result) then
      result.checked = result.checked + 1
      local value = rows.value(cell.row, opt.column)
      local is_number = type(value) == "number"
      if value ~= nil then compared(result, value) end
      local half = opt.interval and rows.value(cell.row, opt.column .. "_half") or 0
      local known = not opt.interval or half ~= 0 or cell.row.repetitions > 1
      local holds = known and (not opt.at_least or is_number and value - half >= opt.at_least)
        and (not opt.at_most or is_number and value + half <= opt.at_most)
        and (opt.equals == nil or value == opt.equals)
      if not holds or (cell.row.error and opt.column ~= "status") then
        wrong(result, ("%s: %s"):format(grid.text(cell.point, self.keys),
          value ~= nil and number_text(value) .. comparing.half_text(half, known) or cell.row.error or cell.row.status))
      end
    end
  end
end)

claim("expect_order", {
  column = column_spec, by = { type = "string", required = true, doc = "A key" },
  order = { type = "table", required = true, doc = "Its values, the best first" },
  lowest = { type = "boolean" }, highest = { type = "boolean" }, within = within_spec,
}, function(self, opt, result, path)
  self:check_column(opt.column, path)
  self:check_key(opt.by, path .. ".by")
  local better = comparing.direction(opt, path)
  if #opt.order < 2 then fail(path .. ".order", "give at least two values, the best first") end
  local sign = better == "lower" and " <= " or " >= "
  local texts = {}
  for i, value in ipairs(opt.order) do texts[i] = tostring(value) end
  result.text = ("%s in the order %s%s"):format(opt.column, table.concat(texts, sign), within_text(opt.within))
  local cells = self:cells(opt.where, path)
  self:cells({ [opt.by] = opt.order }, path)
  for _, group in ipairs(self:groups(cells, { [opt.by] = true })) do
    local ranked = { text = group.text, cells = {} }
    for _, value in ipairs(opt.order) do
      for _, cell in ipairs(group.cells) do
        if cell.point[opt.by] == value then ranked.cells[#ranked.cells + 1] = cell end
      end
    end
    if not missing(ranked.cells, result) then
      result.checked = result.checked + 1
      local values = comparing.measures(ranked, opt.column, better, result) or {}
      for i = 2, #values do
        compared(result, values[i] / values[i - 1])
        if is_better(values[i], comparing.with_slack(values[i - 1], opt.within, better), better) then
          wrong(result, ("%s: %s %s, but %s %s"):format(group.text, tostring(ranked.cells[i - 1].point[opt.by]),
            shown(values[i - 1], ranked.cells[i - 1]), tostring(ranked.cells[i].point[opt.by]),
            shown(values[i], ranked.cells[i])))
        end
      end
    end
  end
end)

claim("expect_ratio", {
  column = column_spec, of = { type = "table", required = true, doc = "Values of the points above the line" },
  over = { type = "table", required = true, doc = "Values of the points below it" },
  mean = {
    type = "choice", choices = { "geometric", "arithmetic", "highest", "lowest" }, default = "geometric",
    doc = "What is made of the ratios of several pairs",
  },
  at_least = { type = "number" }, at_most = { type = "number" },
  to = { type = "number", min = 1e-9, doc = "The ratio that is expected" },
  rel = { type = "number", min = 0, doc = "With to: the mean is within a factor of 1 + rel" },
  confidence = { type = "number", min = 0.5, max = 0.9999,
    doc = "A paired test: not the mean alone but its interval by Student's t is within the bounds" },
}, function(self, opt, result, path)
  self:check_column(opt.column, path)
  local low, high = comparing.ratio_interval(opt, path)
  self:cells(opt.of, path)
  self:cells(opt.over, path)
  local without, ratios = {}, {}
  for key in pairs(opt.of) do without[key] = true end
  for key in pairs(opt.over) do without[key] = true end
  for _, group in ipairs(self:groups(self:cells(opt.where, path), without)) do
    local above, below = comparing.member(group, opt.of), comparing.member(group, opt.over)
    if above and below and not missing({ above, below }, result) then
      result.checked = result.checked + 1
      local a, b = rows.value(above.row, opt.column), rows.value(below.row, opt.column)
      if type(a) == "number" and type(b) == "number" and a > 0 and b > 0 then
        ratios[#ratios + 1] = a / b
      elseif type(a) ~= "number" or above.row.error then
        wrong(result, ("%s: %s is %s"):format(group.text, grid.text(opt.of), above.row.status))
      end
    end
  end
  result.text = ("%s of %s over %s is %s%s"):format(opt.column, grid.text(opt.of), grid.text(opt.over),
    opt.mean ~= "geometric" and ("in the %s "):format(opt.mean == "arithmetic" and "mean" or opt.mean) or "",
    comparing.interval_text(opt))
  if opt.confidence then result.text = ("%s (paired, %g %%)"):format(result.text, 100 * opt.confidence) end
  if #ratios == 0 then
    if result.checked > 0 then wrong(result, "no pair has both numbers") end
    return
  end
  local mean = comparing.mean_of[opt.mean](ratios)
  local least, most = mean, mean
  result.numbers = #ratios == 1 and ("%.4g"):format(mean) or ("%s %.4g, %.4g to %.4g over %d pairs"):format(
    opt.mean:find "est$" and opt.mean or opt.mean .. " mean", mean, math.min(unpack(ratios)),
    math.max(unpack(ratios)), #ratios)
  if opt.confidence then
    least, most = comparing.interval_of(ratios, opt, path)
    if not least then return wrong(result, "one pair tells nothing of the spread") end
    result.numbers = ("%s; %g %% interval %.4g to %.4g"):format(result.numbers, 100 * opt.confidence, least, most)
  end
  if result.skipped > 0 then return end -- a mean of some of them says nothing of all
  compared(result, mean)
  if (low and least < low) or (high and most > high) then result.failed = result.failed + 1 end
end)

claim("expect_that", {
  text = { type = "string", required = true, doc = "The claim in words" },
  holds = {
    type = "any", lua_type = "function", required = true,
    doc = "A function of at, and of the rows: whether it holds, the numbers in words, and what `here` is about",
  },
}, function(self, opt, result, path)
  result.text = opt.text
  local cells = self:cells(opt.where, path)
  if missing(cells, result) then return end
  local list = {}
  for i, cell in ipairs(cells) do
    list[i] = cell.row
    if cell.row.error then
      result.checked = result.checked + 1
      wrong(result, ("%s: %s"):format(grid.text(cell.point), cell.row.status))
    end
  end
  if result.failed > 0 then return end -- `holds` counts on numbers
  -- The row of one point: at { planner = "exact", cluster = "llmpq-3" }.
  local function at(wanted)
    check_point(wanted, path)
    local found
    for _, row in ipairs(list) do
      if is_member(row.point, wanted) then
        if found then fail(path, ("more than one point has %s"):format(grid.text(wanted))) end
        found = row
      end
    end
    return found or fail(path, ("no point has %s"):format(grid.text(wanted)))
  end
  local holds, numbers, value = opt.holds(at, list)
  result.checked, result.failed = #list, holds and 0 or 1
  if value ~= nil then compared(result, value) end
  result.numbers = numbers ~= nil and tostring(numbers) or nil
end)

local expect_options = { value = { type = "any", doc = "What `here` is about: a number or a text" } }
for key, spec in pairs(verdict.options) do expect_options[key] = spec end
local read_expect = options.reader("t:expect", expect_options)

--- t:expect("what is claimed", condition, "the numbers", { value, not_reproduced, here, note, may_differ }), the last
--- two left out where there is nothing to say.
function Claims:expect(text, condition, numbers, given)
  if type(text) ~= "string" then fail("t:expect", "the claim in words comes first, not a " .. type(text)) end
  if given ~= nil and type(given) ~= "table" then
    fail("t:expect", "the fourth is a table of options, not a " .. type(given))
  end
  local opt = read_expect(given or {})
  local result = {
    text = text, numbers = numbers ~= nil and tostring(numbers) or nil, lines = {}, values = { opt.value }, checked = 1,
    skipped = 0, failed = condition and 0 or 1,
  }
  verdict.read(opt, result, "t:expect")
  missing(self:cells(), result)
  self:add(result)
end

--- t:skip("what cannot be checked, and why"): a claim that waits for data.
function Claims:skip(text)
  if type(text) ~= "string" then fail("t:skip", "what is not checked, and why, in words, not a " .. type(text)) end
  self:add { text = text, lines = {}, values = {}, checked = 0, skipped = 0, failed = 0, waits = true }
end

--- t:note("what is worth saying of the rows", "the numbers"): it claims nothing.
function Claims:note(text, numbers)
  if type(text) ~= "string" then fail("t:note", "words come first, not a " .. type(text)) end
  if numbers ~= nil and type(numbers) ~= "string" and type(numbers) ~= "number" then
    fail("t:note", "the numbers come second, a text or a number, not a " .. type(numbers))
  end
  self:add {
    text = text, numbers = numbers and tostring(numbers), note = verdict.remark,
    lines = {}, values = {}, checked = 1, skipped = 0, failed = 0,
  }
end

--- t:rows { planner = "exact" }: rows that are stored, to compute with.
function Claims:rows_where(where)
  local found = {}
  for _, cell in ipairs(self:cells(where, "t:rows")) do
    if cell.row then found[#found + 1] = cell.row end
  end
  return found
end

function Claims:published(point, column)
  check_point(point, "t:published")
  for _, row in ipairs(self.experiment.paper and self.experiment.paper.rows or {}) do
    if is_member(point, row.point) then return row[column] end
  end
end

function Claims:add(result)
  result.status = verdict.of(result)
  self.list[#self.list + 1] = result
end

--- The claims of an experiment on its rows: a list of { text, status = "pass" | "fail" | "skipped" | "differs"
--- | "note", numbers, lines, values, checked, skipped, not_reproduced, here, note }. `quick`: its points count beside
--- those of the grid.
function M.check(experiment, all_rows, quick)
  local self = setmetatable({}, { __index = Claims, __metatable = "tessera.Claims" })
  self.experiment, self.keys, self.rows, self.list = experiment, experiment.keys, all_rows, {}
  self.is_key, self.row_of, self.points = {}, {}, {}
  for _, key in ipairs(experiment.keys) do self.is_key[key] = true end
  for _, row in ipairs(all_rows) do self.row_of[core.to_json(row.point)] = row end
  local seen = {}
  for _, points in ipairs { experiment.points, quick and experiment.quick_points or {} } do
    for _, point in ipairs(points) do
      local key = core.to_json(point)
      if not seen[key] then seen[key], self.points[#self.points + 1] = true, point end
    end
  end
  local t = setmetatable({}, {
    __metatable = "tessera.Claims",
    __index = function(_, name)
      if name == "rows" then return function(_, where) return self:rows_where(where) end end
      if type(name) == "string" and (name:find "^expect" or name == "published" or name == "note"
        or name == "skip") and Claims[name] then
        return function(_, ...) return Claims[name](self, ...) end
      end
      fail("t." .. tostring(name), "no such claim" .. core.did_you_mean(tostring(name), { "expect", "expect_all",
        "expect_best", "expect_close", "expect_order", "expect_ratio", "expect_that", "note", "published", "rows",
        "skip" }))
    end,
  })
  local ok, err = host.without_exit(xpcall, experiment.check, function(problem)
    if host.interrupted() then return problem end
    return { text = core.error_text(problem), trace = trace() }
  end, t)
  if not ok then
    if not err.text then error(err, 0) end
    self.list[#self.list + 1] = {
      text = "check raised an error", status = "fail", numbers = err.text,
      lines = err.trace ~= "" and { err.trace } or {}, checked = 0, skipped = 0, failed = 1, raised = true,
    }
  end
  return self.list
end

-- What no row could mend.
local mistakes = { "no such claim", "unknown option", "no key '" }

--- Refuses a `check` that asks for claims, options or keys that there are none of, before anything has run.
function M.refuse_mistakes(experiment, quick)
  for _, result in ipairs(M.check(experiment, {}, quick)) do
    for _, mistake in ipairs(result.raised and mistakes or {}) do
      if result.numbers:find(mistake, 1, true) then fail("check", result.numbers) end
    end
  end
end

return M
