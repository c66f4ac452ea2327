-- Side constraints, the options of the ILP planner, and its programme as a file.
local ts = require "tessera"
local support = require "support"
local raises, declines = support.raises, support.declines

local small = { prefill_micro_batch_size = 2, decode_micro_batch_size = 4 }
local function with(changes) return support.changed(small, changes) end

local function row(terms, sense, rhs) return { name = "mine", terms = terms, sense = sense, rhs = rhs } end

local function count(plan, matches)
  local n, layer = 0, 0
  for k, stage in ipairs(plan.stages) do
    for _, bitwidth in ipairs(stage.bitwidths) do
      if matches(k, stage.device, bitwidth, layer) then n = n + 1 end
      layer = layer + 1
    end
  end
  return n
end

describe("problem:add_constraint", function()
  after_each(support.remove_files)

  it("returns a new problem and leaves the old one alone", function()
    local p = support.small_problem()
    local given = row({ { stage = 1, bitwidth = 8, coefficient = 2 }, { layer = 0 } }, "<=", 5)
    local q = p:add_constraint(given)
    assert.same({}, p.constraints)
    assert.same({ {
      name = "mine", terms = { { stage = 1, bitwidth = 8, coefficient = 2 }, { layer = 0, coefficient = 1 } },
      sense = "<=", rhs = 5,
    } }, q.constraints)
    assert.equal(2, #q:add_constraint { name = "other", terms = given.terms, sense = ">=", rhs = 0 }.constraints)
    assert.equal(1, #q:with { theta = 3 }.constraints)
    assert.same({}, q:with { constraints = {} }.constraints)
    assert.same(q.constraints, support.small_problem { constraints = q.constraints }.constraints)
    assert.same(q.constraints, q:to_table().constraints)
  end)

  it("is kept by plans, which say who made them", function()
    local p = support.small_problem()
    local free = ts.plan(p, small)
    for _, case in ipairs {
      { { { bitwidth = 4 } }, "==", 0, function(_, _, b) return b == 4 end, 0, 0 },
      { { { stage = 1 } }, "==", 2, function(k) return k == 1 end, 2, 2 },
      { { { boundary = 1 } }, ">=", 9, function(k) return k == 1 end, 9, 12 },
      { { { device = "T4-16G" } }, ">=", 8, function(_, d) return d == "T4-16G" end, 8, 12 },
      { { { device = "T4-16G@a", bitwidth = 8 } }, "==", 3,
        function(_, d, b) return d == "T4-16G" and b == 8 end, 3, 3 },
      { { { layer = 5, bitwidth = 16 } }, "==", 1, function(_, _, b, i) return i == 5 and b == 16 end, 1, 1 },
      { { { layer = 0, stage = 1, device = "T4-16G" } }, "==", 1,
        function(k, d, _, i) return i == 0 and k == 1 and d == "T4-16G" end, 1, 1 },
    } do
      local q = p:add_constraint(row(case[1], case[2], case[3]))
      local plan = assert(ts.plan(q, small))
      assert.equal("ilp", plan.planner)
      assert.equal("optimal", plan.status)
      assert.is_true(plan.objective >= free.objective * (1 - 1e-6))
      assert.matches("planned with 'ilp', which keeps side constraints", table.concat(plan.notes, "\n"))
      local n = count(plan, case[4])
      assert.is_true(n >= case[5] and n <= case[6], n .. " layers")
      assert.is_true(ts.check(plan))
      for _, form in ipairs { "base", "paper" } do
        assert.near(plan.objective, ts.plan(q, with { form = form, planner = "ilp" }).objective, 1e-6)
      end
    end
  end)

  it("is checked in plans from anywhere", function()
    local p = support.small_problem()
    local plan = ts.plan(p, small)
    local q = p:add_constraint(row({ { stage = 1 } }, "<=", plan.stages[1].num_layers - 1))
    local text = ("constraint 'mine': the left side is %d, it must be <= %d"):format(
      plan.stages[1].num_layers, plan.stages[1].num_layers - 1)
    local by_hand = with { planner = "manual", stages = plan.stages }
    local why = declines("infeasible", text, ts.plan(q, by_hand))
    assert.equal("row", why.constraint)
    local priced = q:evaluate(with { stages = plan.stages })
    assert.is_false(priced.fits)
    assert.equal("row", priced.constraint)
    assert.near(plan.objective, priced.objective, 1e-9)
    local none = p:add_constraint(row({ { bitwidth = 4 }, { bitwidth = 8 }, { bitwidth = 16 } }, "<=", 11))
    declines("infeasible", "constraint 'mine'", ts.plan(none, { planner = "uniform" }))
    raises("unsupported", "planner 'exact' cannot keep side constraints ('mine')",
      function() return ts.plan(q, { planner = "exact" }) end)
    raises("unsupported", "heuristic 'bitwidth_transfer' cannot keep side constraints", function()
      return ts.plan(q, { planner = { "ilp", "bitwidth_transfer" } })
    end)
  end)

  it("is saved with the plan", function()
    local q = support.small_problem():add_constraint(row({ { stage = 2 } }, "==", 3))
    local plan = assert(ts.plan(q, small))
    local path = support.temporary()
    plan:save(path)
    local loaded = ts.load_plan(path)
    assert.same(q.constraints, loaded:problem().constraints)
    assert.is_true(ts.check(loaded))
    local file = support.read(path):gsub('"rhs": 3.0', '"rhs": 4.0')
    local why = declines("row", "it must be == 4", ts.check(ts.load_plan(support.temporary(file))))
    assert.equal("row", why.constraint)
    file = support.read(path):gsub('"stage": 2', '"stage": 20')
    raises("out_of_range", "problem.constraints[1].terms[1].stage",
      function() return ts.load_plan(support.temporary(file)):problem() end)
  end)

  it("is named when it leaves no plan", function()
    local p = support.small_problem()
    local q = p:add_constraint { name = "all 4", terms = { { bitwidth = 4 } }, sense = "==", rhs = 12 }
    q = q:add_constraint { name = "harmless", terms = { { stage = 1 } }, sense = "<=", rhs = 12 }
    q = q:add_constraint { name = "one 16", terms = { { layer = 3, bitwidth = 16 } }, sense = ">=", rhs = 1 }
    local why = declines("infeasible", "no plan keeps the constraints 'all 4', 'one 16' together", ts.plan(q, small))
    assert.equal("row", why.constraint)
    declines("infeasible", "no plan keeps the constraint 'mine'; without it plans fit",
      ts.plan(p:add_constraint(row({ { stage = 1 } }, ">=", 13)), small))
  end)

  it("leaves the quality floor to the baseline's quality", function()
    local p = support.small_problem { quality = { at_least = "uniform" } }
    local floor = ts.plan(p, small)
    local plan = assert(ts.plan(p:add_constraint(row({ { stage = 1 } }, "==", 1)), small))
    assert.equal(1, plan.stages[1].num_layers)
    assert.same({ plan.notes[2] }, floor.notes)
  end)

  it("refuses what it cannot mean", function()
    local p = support.small_problem()
    local function refuses(code, text, given)
      raises(code, text, function() return p:add_constraint(given) end)
    end
    local one = { { stage = 1 } }
    refuses("invalid_argument", "a table of options is needed", nil)
    refuses("invalid_argument", "name: missing", { terms = one, sense = "<=", rhs = 1 })
    refuses("invalid_argument", "name: it is empty", { name = "", terms = one, sense = "<=", rhs = 1 })
    refuses("invalid_argument", "terms: missing", { name = "x", sense = "<=", rhs = 1 })
    refuses("invalid_argument", "sense: missing", { name = "x", terms = one, rhs = 1 })
    refuses("invalid_argument", "rhs: missing", { name = "x", terms = one, sense = "<=" })
    refuses("invalid_argument", "did you mean 'rhs'", { name = "x", terms = one, sense = "<=", rsh = 1 })
    refuses("invalid_argument", "'=' is not a choice", row(one, "=", 1))
    refuses("invalid_argument", "NaN", row(one, "<=", support.nan))
    refuses("invalid_argument", "inf is not finite", row(one, "<=", support.inf))
    refuses("out_of_range", "rhs", row(one, "<=", 1e16))
    refuses("invalid_argument", "list of 1 to", row({}, "<=", 1))
    refuses("invalid_argument", "terms[1]", row({ 3 }, "<=", 1))
    refuses("invalid_argument", "terms", row({ a = one[1] }, "<=", 1))
    for _, case in ipairs {
      { {}, "invalid_argument", "says nothing about which layers count" },
      { { stage = 1, boundary = 1 }, "invalid_argument", "not both" },
      { { stage = 0 }, "out_of_range", "terms[1].stage: 0 is out of range" },
      { { stage = 3 }, "out_of_range", "terms[1].stage: stage 3, but 2 devices make 2 stages at most" },
      { { boundary = 3 }, "out_of_range", "terms[1].boundary" },
      { { stage = 1.5 }, "invalid_argument", "1.5 is not an integer" },
      { { layer = 12 }, "out_of_range", "layer 12, but the last one is 11 (the first is 0)" },
      { { layer = -1 }, "out_of_range", "terms[1].layer" },
      { { bitwidth = 3 }, "invalid_argument", "3 is not one of the problem's bitwidths (4, 8, 16)" },
      { { device = "T4" }, "not_found", "the cluster has no 'T4'; did you mean 'T4-16G'" },
      { { device = "T4-16G@b" }, "not_found", "no 'T4-16G@b'" },
      { { device = 3 }, "invalid_argument", "wrong type" },
      { { stage = 1, bitwidht = 4 }, "invalid_argument", "did you mean 'bitwidth'" },
      { { stage = 1, coefficient = support.nan }, "invalid_argument", "NaN" },
    } do
      refuses(case[2], case[3], row({ case[1] }, "<=", 1))
    end
    local q = p:add_constraint(row(one, "<=", 12))
    raises("invalid_argument", "has a constraint 'mine' already", function() q:add_constraint(row(one, "<=", 1)) end)
    raises("out_of_range", "problem.constraints[1].terms[1].stage", function()
      return p:add_constraint(row({ { stage = 2 } }, "<=", 12)):with { cluster = "1xV100-32G" }
    end)
    raises("invalid_argument", "ts.problem.constraints[2].name", function()
      return support.small_problem { constraints = { row(one, "<=", 1), row(one, ">=", 1) } }
    end)
    raises("invalid_argument", "ts.problem.constraints", function()
      return support.small_problem { constraints = "mine" }
    end)
  end)
end)

describe("the ILP planner", function()
  it("starts from a plan", function()
    local p = support.small_problem()
    local best = ts.plan(p, small)
    local bits = {}
    for i = 1, 12 do bits[i] = 16 end
    local poor = assert(ts.plan(p, with { planner = "manual", stages = { { device = "V100-32G", bitwidths = bits } } }))
    for _, form in ipairs { "tightened", "base", "paper" } do
      local seen = {}
      local plan = ts.plan(p:with { allow_empty_stage = true }, {
        planner = "ilp", start = poor, form = form, on_incumbent = function(i) seen[#seen + 1] = i.objective end,
      })
      assert.equal("optimal", plan.status)
      assert.near(poor.objective, seen[1], 1e-9 * poor.objective)
      assert.is_true(plan.objective <= best.objective * (1 + 1e-6))
    end
    local kept = ts.plan(p, with { planner = "ilp", start = best, time_limit_s = 0 })
    assert.near(best.objective, kept.objective, 1e-9 * best.objective)
  end)

  it("refuses a start that does not fit", function()
    local p = support.small_problem()
    local best = ts.plan(p, small)
    local function refuses(text, problem, options)
      options.planner = options.planner or "ilp"
      raises("invalid_argument", text, function() return ts.plan(problem, options) end)
    end
    refuses("only planner = \"ilp\" takes it", p, { planner = "exact", start = best })
    refuses("only planner = \"ilp\" takes it", p, { planner = "exact", form = "base" })
    refuses("'bas' is not a choice", p, { form = "bas" })
    refuses("leave out group", p, { start = best, group = 2 })
    refuses("leave out group", p:add_constraint(row({ { stage = 1 } }, "==", 6)), { group = 2 })
    refuses("ts.plan.start", p, { start = 3 })
    refuses("ts.plan.start", p, { start = {} })
    refuses("ts.plan.start", p, { start = p })
    refuses("its prefill micro-batch size is 2, 1 was asked for", p, { start = best, prefill_micro_batch_size = 1 })
    refuses("its decode micro-batch size is 4, 2 was asked for", p, { start = best, decode_micro_batch_size = 2 })
    local order = { best.device_order[2], best.device_order[1] }
    refuses("another order than device_order says", p, { start = best, device_order = order })
    refuses("the plan is none of this problem", p:with { cluster = "1xV100-32G" }, { start = best })
    refuses("the plan is none of this problem", p:with { bitwidths = { 3 } }, { start = best })
    refuses("the plan breaks this problem", p:with { model = "opt-350m" }, { start = best })
    refuses("constraint 'mine'", p:add_constraint(row({ { stage = 1 } }, "==", 12)), { start = best })
    raises("invalid_argument", "only planner = \"ilp\" takes it", function()
      return ts.plan(p, { planner = "uniform", start = best })
    end)
  end)
end)

describe("problem:write_model", function()
  after_each(support.remove_files)

  local function path_of(extension) return os.tmpname() .. extension end

  it("writes what the name says", function()
    local p = support.small_problem():add_constraint(row({ { stage = 1 } }, "<=", 7))
    for extension, marks in pairs {
      [".lp"] = { "Minimize", "prefill_max", "layers_done_after_stage1", "count_stage1_T4_16G_8bit", "side1_mine" },
      [".mps"] = { "ROWS", "objective_s", "layers_done_after_stage2", "memory_stage1_group0", "ENDATA" },
    } do
      for _, form in ipairs { "base", "tightened" } do
        local path = path_of(extension)
        assert.is_true(p:write_model(path, with { form = form, device_order = { "T4-16G", "V100-32G" } }))
        local text = support.read(path)
        os.remove(path)
        for _, mark in ipairs(marks) do assert.truthy(text:find(mark, 1, true), mark) end
      end
    end
  end)

  it("writes eqs. (4) to (16) as the papers print them, of one order", function()
    local p = support.small_problem():add_constraint(row({ { stage = 1 } }, "<=", 7))
    for _, extension in ipairs { ".lp", ".mps" } do
      local path = path_of(extension)
      assert.is_true(p:write_model(path, with { form = "paper", device_order = { "T4-16G", "V100-32G" } }))
      local text = support.read(path)
      os.remove(path)
      for _, mark in ipairs { "z_layer7_stage2_8bit", "y_layer7_8bit", "u_layer7_stage2", "once_layer7",
        "order_layer1_stage2_stage1", "memory_stage1", "prefill_time_stage2", "side1" } do
        assert.truthy(text:find(mark, 1, true), mark)
      end
    end
    raises("invalid_argument", "problem:write_model.device_order: form \"paper\" is the programme of one order",
      function() p:write_model(path_of ".lp", with { form = "paper" }) end)
  end)

  it("says why there is nothing to write", function()
    local path = path_of ".lp"
    local p = support.small_problem { cluster = "1xT4-16G", model = "opt-66b" }
    declines("infeasible", "GiB", p:write_model(path, small))
    assert.is_nil(io.open(path))
    local p2 = support.small_problem()
    raises("invalid_argument", "neither in .lp nor in .mps", function() p2:write_model("model.txt", small) end)
    raises("invalid_argument", "neither in .lp nor in .mps", function() p2:write_model("model", small) end)
    raises("not_found", "/no/such/folder", function() p2:write_model("/no/such/folder/model.lp", small) end)
    raises("invalid_argument", "prefill_micro_batch_size: missing", function() p2:write_model(path, {}) end)
    raises("invalid_argument", "needed", function() p2:write_model(path) end)
    raises("invalid_argument", "path", function() p2:write_model(nil, small) end)
    raises("out_of_range", "more than the batch of 4", function()
      p2:write_model(path, with { decode_micro_batch_size = 5 })
    end)
    raises("invalid_argument", "'tight' is not a choice", function() p2:write_model(path, with { form = "tight" }) end)
    raises("not_found", "device_order[1]", function() p2:write_model(path, with { device_order = { "T5" } }) end)
    raises("invalid_argument", "did you mean 'form'", function() p2:write_model(path, with { forms = "base" }) end)
  end)
end)
