-- ts.experiment { ... }: declares points, what is computed at each, and what is claimed of the rows. It runs nothing:
-- `tessera run` lists, filters, runs, resumes and checks it.

local core = require "tessera.core"
local options = require "tessera.options"
local grid = require "tessera.desk.experiment.grid"

local type_name = "tessera.Experiment"

local fail = core.refuse

local read = options.card {
  name = "ts.experiment",
  doc = "Declares an experiment. A script that returns it is swept by `tessera run`.",
  returns = type_name,
  options = {
    { name = "name", type = "string", required = true, doc = "Under which results are stored: llmpq/table4" },
    { name = "doc", type = "string", default = "", doc = "One line" },
    { name = "paper", type = "table", doc = "Published cells, from ts.paper" },
    { name = "seed", type = "integer", default = 0, doc = "Every point's own seed comes from it and the point" },
    {
      name = "grid", type = "table", required = true, lua_type = "table<string, any[]>|table[]",
      doc = "Values by key, of which every combination is a point; or a list of points",
    },
    { name = "quick", type = "table", lua_type = "table<string, any[]>", doc = "Other values for --quick, by key" },
    {
      name = "run", type = "any", required = true, lua_type = "fun(point: table, context: table): table",
      doc = "Computes the columns of one point; context has seed, quick, point_index and output_dir",
    },
    { name = "check", type = "any", lua_type = "fun(t: tessera.Claims)", doc = "The claims; t:expect_best and so on" },
    { name = "columns", type = "table", lua_type = "string[]", doc = "Columns to show, in order; default: all" },
    { name = "over", type = "string", doc = "A key of the grid that counts repetitions: the table printed after a run, "
      .. "and its plots, have means over it (ts.repeated)" },
    {
      name = "notes", type = "table", lua_type = "string[]",
      doc = "Said beneath the table: settings, and what the numbers are not",
    },
    { name = "plots", type = "table", lua_type = "table[]", doc = "For the report: options of ts.plot without rows" },
    {
      name = "time_limit_s", type = "number", default = 300, min = 0.001, max = 1e7, unit = "s",
      doc = "Of one point, beyond which it is stopped",
    },
  },
}

core.document_object {
  name = type_name, doc = "A declared experiment: what ts.experiment was given, and its points.",
  fields = {
    { "name", "string", "Under which results are stored" }, { "doc", "string", "One line" },
    { "keys", "string[]", "Of a point, in order" }, { "points", "table[]", "All of them, in order" },
    { "quick_points", "table[]", "Those of --quick" }, { "seed", "integer", "As given" },
  },
  methods = {},
}

-- Of every claim but t:expect.
local common = "where: table?, means: boolean?, against: table?, not_reproduced: string?, here: any, note: string?, "
  .. "may_differ: string? })"

core.document_object {
  name = "tessera.Claims", doc = "What `check` of an experiment is given: the rows, and ways to say what should hold. "
    .. "A claim with `not_reproduced` says why it does not hold here, and in `here` what comes out instead, "
    .. "{ lowest, highest } or a text: it counts apart, and fails once it holds or leaves that interval. One with "
    .. "`note` says why no data could overturn it, and counts apart as well. "
    .. "One with `may_differ` counts apart where it does not hold. With `means = true` claims compare means over the "
    .. "repetitions, with `against` means of paired differences.",
  methods = {
    { "expect_best", "(options: { column: string, is: table, lowest: boolean?, highest: boolean?, within: number?, "
      .. common, "The best row of each group of points is one with these values" },
    { "expect_close", "(options: { column: string, to: any, rel: number?, abs: number?, " .. common,
      "A column is within a ratio or a distance of the published one, another column, or a number" },
    { "expect_all", "(options: { column: string, at_least: number?, at_most: number?, equals: any, "
      .. "interval: boolean?, " .. common, "Every row's column is within bounds, or equals a value" },
    { "expect_order", "(options: { column: string, by: string, order: any[], lowest: boolean?, highest: boolean?, "
      .. "within: number?, " .. common, "The values of a key come in this order, the best first" },
    { "expect_ratio", "(options: { column: string, of: table, over: table, mean: string?, at_least: number?, "
      .. "at_most: number?, to: number?, rel: number?, confidence: number?, " .. common,
      "The mean ratio between two sets of points (geometric, arithmetic, highest or lowest) is within bounds, or a "
      .. "factor of 1 + rel of the expected one; with confidence = 0.95 its interval over the pairs is, by "
      .. "Student's t" },
    { "expect_that", "(options: { text: string, holds: fun(at: (fun(point: table): table), rows: table[]): (boolean, "
      .. "string?, any), " .. common,
      "A claim in words, judged once all of its points have run; at { key = value } is the row of one" },
    { "expect", "(text: string, condition: any, numbers: any, options: { value: any, "
      .. "not_reproduced: string?, here: any, note: string?, may_differ: string? }?)",
      "A claim in words, whether it holds, the numbers, and what `here` is about" },
    { "note", "(text: string, numbers: any)", "Says something of the rows that claims nothing" },
    { "skip", "(text: string)", "Says what cannot be checked, and why: a claim that waits for data" },
    { "rows", "(where: table?): table[]", "Rows that are stored, to compute with" },
    { "published", "(point: table, column: string): any", "The paper's value of a point" },
  },
}

local function check_list(list, item_type, path)
  if list ~= nil then options.list(list, path, "a list", options.item_of(item_type)) end
end

-- What ts.plot would refuse is better known before the run than in its report.
local function check_plots(plots)
  check_list(plots, "table", "ts.experiment.plots")
  for i, spec in ipairs(plots or {}) do
    local path = ("ts.experiment.plots[%d]"):format(i)
    if spec.rows ~= nil then fail(path .. ".rows", "a declared plot is of the rows of its run; leave rows away") end
    local copy = { rows = {} }
    for key, value in pairs(spec) do copy[key] = value end
    local ok, problem = pcall(require "tessera.desk.plot", copy)
    if not ok then fail(path, (tostring(problem):gsub("^ts%.plot", "", 1):gsub("^[.:] *", "", 1))) end
  end
end

-- Declared plots, of means over a key that counts repetitions.
local function plots_over(plots, over)
  if not plots or not over then return plots end
  local list = {}
  for i, spec in ipairs(plots) do
    list[i] = { over = over }
    for name, value in pairs(spec) do list[i][name] = value end
  end
  return list
end

local function check(fields)
  if #fields.name > 100 or not fields.name:find "^[%w][%w_./-]*$" or fields.name:find("..", 1, true)
    or fields.name:sub(-1) == "/" then
    fail("ts.experiment.name", ("'%s' is no name: letters, digits, '_', '-', '.' and '/', at most 100"):format(
      fields.name))
  end
  check_list(fields.columns, "string", "ts.experiment.columns")
  check_list(fields.notes, "string", "ts.experiment.notes")
  check_plots(fields.plots)
  if math.abs(fields.seed) > 2 ^ 52 then fail("ts.experiment.seed", "beyond 2^52") end
  if fields.paper ~= nil and (type(fields.paper.rows) ~= "table" or type(fields.paper.keys) ~= "table") then
    fail("ts.experiment.paper", "give what ts.paper returns")
  end
  fields.keys, fields.points = grid.expand(fields.grid, "ts.experiment.grid")
  fields.quick_points = grid.quick(fields.grid, fields.quick, "ts.experiment.quick")
  if fields.over and fields.points[1][fields.over] == nil then
    fail("ts.experiment.over", ("no key '%s' in the grid%s"):format(fields.over,
      core.did_you_mean(fields.over, fields.keys)))
  end
  fields.plots = plots_over(fields.plots, fields.over)
  for _, key in ipairs(fields.paper and fields.paper.keys or {}) do
    if fields.points[1][key] == nil then
      fail("ts.experiment.paper", ("its rows are named by '%s', which is no key of the grid%s"):format(key,
        core.did_you_mean(key, fields.keys)))
    end
  end
end

return function(given)
  if type(given) ~= "table" then fail("ts.experiment", "give one table, not a " .. type(given)) end
  local fields = read(given)
  check(fields)
  return setmetatable({}, {
    __metatable = type_name,
    __index = fields,
    __newindex = function(_, key) fail(type_name, ("it is read-only: cannot set '%s'"):format(tostring(key))) end,
    __tostring = function()
      return ("experiment %s: %d points"):format(fields.name, #fields.points)
    end,
  })
end
