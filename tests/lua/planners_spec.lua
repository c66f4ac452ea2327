-- ts.planners and ts.register_planner.
local ts = require "tessera"
local support = require "support"
local raises, declines = support.raises, support.declines

local function answer()
  local bits = {}
  for i = 1, 12 do bits[i] = 8 end
  return { stages = { { device = "V100-32G", bitwidths = bits } }, prefill_micro_batch_size = 1,
    decode_micro_batch_size = 4 }
end

local function card(changes)
  local description = { name = "mine", doc = "For the tests", plan = answer }
  for key, value in pairs(changes or {}) do description[key] = value end
  return description
end

local function plan(options) return ts.plan(support.small_problem(), options or { planner = "mine" }) end

-- Registers a planner that answers `value` (and `why`), and plans with it.
local function answering(value, why)
  ts.register_planner(card { plan = function() return value, why end })
  return plan()
end

local function find(name)
  for _, p in ipairs(ts.planners()) do
    if p.name == name then return p end
  end
end

describe("ts.planners", function()
  it("lists cards, sorted", function()
    local names = {}
    for i, p in ipairs(ts.planners()) do
      names[i] = p.name
      assert.is_string(p.doc)
      assert.is_string(p.source)
      assert.is_table(p.options)
    end
    for _, name in ipairs { "exact", "ilp", "manual", "uniform", "het" } do assert.is_table(find(name)) end
    local sorted = { unpack(names) }
    table.sort(sorted)
    assert.same(sorted, names)
  end)

  it("gives copies", function()
    find "het".options.max_orders.default = -5
    find "het".name = "other"
    assert.equal(200, find "het".options.max_orders.default)
  end)
end)

describe("ts.register_planner", function()
  it("makes a planner of a function", function()
    local given = card { source = "a paper", options = {
      slack = { type = "number", default = 0.05, min = 0, max = 1, doc = "Memory left free, as a ratio" },
      deep = { type = "boolean" }, tries = { type = "integer", default = 3 }, note = { type = "string", default = "" },
    } }
    local seen
    given.plan = function(problem, opt)
      seen = { problem = problem, opt = opt }
      return answer()
    end
    assert.equal(given, ts.register_planner(given))
    local made = assert(plan { planner = "mine", tries = 7, time_limit_s = 3 })
    assert.equal("mine", made.planner)
    assert.equal("feasible", made.status)
    assert.is_true(made.solve_s >= 0)
    assert.is_true(ts.check(made))
    assert.equal("tessera.Problem", getmetatable(seen.problem))
    assert.equal(0.05, seen.opt.slack)
    assert.equal(7, seen.opt.tries)
    assert.equal(3, seen.opt.time_limit_s)
    assert.is_nil(seen.opt.deep)
    assert.equal("a paper", find "mine".source)
  end)

  it("copies the card and replaces its own kind only", function()
    local given = card { options = { x = { type = "number", default = 1 } } }
    ts.register_planner(given)
    given.plan, given.options.x.default = nil, 99
    assert.is_truthy(plan())
    assert.equal(1, find "mine".options.x.default)
    ts.register_planner(card { doc = "Newer" })
    assert.equal("Newer", find "mine".doc)
    for _, name in ipairs { "exact", "ilp", "manual", "uniform", "het" } do
      raises("invalid_argument", "is built in", function() return ts.register_planner(card { name = name }) end)
    end
  end)

  it("refuses bad cards by field", function()
    for _, value in ipairs { 3, "mine", print, true } do
      raises("invalid_argument", "ts.register_planner", function() return ts.register_planner(value) end)
    end
    raises("invalid_argument", "not a nil", function() return ts.register_planner() end)
    for _, field in ipairs { "name", "doc", "plan" } do
      local given = card()
      given[field] = nil
      local err = raises("invalid_argument", "missing", function() return ts.register_planner(given) end)
      assert.equal("ts.register_planner." .. field, err.where)
    end
    for _, case in ipairs {
      { { nam = "x" }, "unknown field 'nam'; did you mean 'name'" },
      { { [3] = "x" }, "unknown field '3'" },
      { { name = 3 }, "name: a string belongs here" },
      { { name = "" }, "name: a name has letters" },
      { { name = "a b" }, "name: a name has letters" },
      { { name = "\255" }, "name: a name has letters" },
      { { plan = "f" }, "plan: a function belongs here, not a string" },
      { { options = 3 }, "options: a table belongs here" },
      { { options = { 3 } }, "an option has a name, got the key 1" },
      { { options = { x = 3 } }, "options.x: give { type =" },
      { { options = { x = {} } }, "options.x: give { type =" },
      { { options = { x = { type = "table" } } }, "options.x: give { type =" },
      { { options = { x = { type = "number", defualt = 3 } } }, "options.x: unknown field 'defualt'" },
      { { options = { x = { type = "number", min = "0" } } }, "options.x.min: a number belongs here" },
      { { options = { x = { type = "number", min = 2, max = 1 } } }, "options.x: min is above max" },
      { { options = { x = { type = "number", default = 3, max = 1 } } }, "options.x.default: 3 is out of range",
        "out_of_range" },
      { { options = { x = { type = "integer", default = 0.5 } } }, "options.x.default: 0.5 is not an integer" },
      { { options = { x = { type = "string", default = 3 } } },
        "options.x.default: the number 3 has the wrong type; give a string" },
      { { options = { seed = { type = "integer" } } }, "options.seed: every planner has this option already" },
    } do
      raises(case[3] or "invalid_argument", case[2], function() return ts.register_planner(card(case[1])) end)
    end
  end)

  it("checks the options that are passed", function()
    ts.register_planner(card { options = {
      slack = { type = "number", default = 0, min = 0, max = 1 }, tries = { type = "integer" },
      deep = { type = "boolean" }, word = { type = "string" },
    } })
    for _, case in ipairs {
      { { slakc = 0.5 }, "no option 'slakc'; did you mean 'slack'" }, { { [1] = 3 }, "no option '1'" },
      { { slack = 2 }, "ts.plan.slack: 2 is out of range; give a number in [0, 1]", "out_of_range" },
      { { slack = support.nan }, "NaN is not a number" },
      { { slack = support.inf }, "inf is not finite" }, { { slack = "0.5" }, "the string '0.5' is not a number" },
      { { tries = 3.7 }, "3.7 is not an integer" }, { { tries = 2 ^ 53 + 2 }, "beyond 2^53", "out_of_range" },
      { { deep = 1 }, "true or false" }, { { word = 3 }, "the number 3 has the wrong type; give a string" },
    } do
      case[1].planner = "mine"
      raises(case[3] or "invalid_argument", case[2], function() return plan(case[1]) end)
    end
  end)

  it("hands on why there is no plan", function()
    declines("infeasible", "planner 'mine' found no plan", answering(nil))
    declines("infeasible", "nothing fits", answering(nil, "nothing fits"))
    declines("infeasible", "5", answering(nil, 5))
    declines("infeasible", "table", answering(nil, {}))
    declines("time_limit", "too slow", answering(nil, { code = "time_limit", message = "too slow" }))
  end)

  it("hands on the plan of another planner", function()
    ts.register_planner(card { plan = function(problem) return ts.plan(problem, { planner = "uniform" }) end })
    local made = assert(plan())
    assert.equal("mine", made.planner)
    assert.equal(assert(plan { planner = "uniform" }).objective, made.objective)
  end)

  it("keeps the note", function()
    local noted = answer()
    noted.note = "by luck"
    assert.same({ "by luck" }, answering(noted).notes)
    noted.note = 3
    raises("invalid_argument", "note", function() return answering(noted) end)
    noted.note = "\255"
    raises("invalid_argument", "not UTF-8", function() return answering(noted) end)
  end)

  it("checks what the planner answers", function()
    local function changed(changes)
      local given = answer()
      for key, value in pairs(changes) do given[key] = value end
      return given
    end
    for _, value in ipairs { 3, "plan", true, print } do
      raises("invalid_argument", "must return a table with stages", function() return answering(value) end)
    end
    raises("invalid_argument", "must return a table with stages", function() return answering(false) end)
    raises("invalid_argument", "planner 'mine'.stages: missing", function() return answering {} end)
    raises("invalid_argument", "planner 'mine'.stages[1].device: missing",
      function() return answering(changed { stages = { {} } }) end)
    raises("invalid_argument", "did you mean 'stages'", function() return answering(changed { stage = {} }) end)
    raises("invalid_argument", "3.7 is not an integer",
      function() return answering(changed { prefill_micro_batch_size = 3.7 }) end)
    raises("not_found", "the cluster has no 'B100'",
      function() return answering(changed { stages = { { device = "B100", bitwidths = {} } } }) end)
    declines("infeasible", "layers 0 to 1 of 0 to 12",
      answering(changed { stages = { { device = "T4-16G", bitwidths = { 8 } } } }))
    local cycle = answer()
    cycle.stages[2] = cycle.stages
    raises("invalid_argument", "planner 'mine'.stages[2]", function() return answering(cycle) end)
  end)

  it("lets errors of the planner through", function()
    ts.register_planner(card { plan = function() error "broken" end })
    local ok, err = pcall(plan)
    assert.is_false(ok)
    assert.matches("planners_spec%.lua:%d+: broken", tostring(err))
    local thrown = {}
    ts.register_planner(card { plan = function() error(thrown) end })
    ok, err = pcall(plan)
    assert.is_false(ok)
    assert.equal(thrown, err)
    ts.register_planner(card { plan = function(problem) problem.theta = 3 end })
    raises("invalid_argument", "read-only", plan)
  end)
end)

describe("the baselines", function()
  it("stop at the time limit and say so", function()
    local problem = ts.problem(support.settled {
      model = "opt-125m", cluster = "4xT4-16G", workload = { prompt_tokens = 16, output_tokens = 4, batch_size = 4096 },
    })
    for _, name in ipairs { "uniform", "het" } do
      local none, why = ts.plan(problem, { planner = name, time_limit_s = 0 })
      assert.is_nil(none)
      assert.equal("time_limit", why.code)
    end
  end)
end)
