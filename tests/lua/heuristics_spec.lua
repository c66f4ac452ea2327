-- ts.register_heuristic, the search object, chains, and the heuristics that ship.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local function problem(changes)
  local description = {
    model = "opt-13b", cluster = { { "T4-16G", 2, node = "a" }, { "V100-32G", 1, node = "b" }, link_gbps = 100 },
    workload = { prompt_tokens = 128, output_tokens = 32, batch_size = 8 }, bitwidths = { 4, 8, 16 },
  }
  for key, value in pairs(changes or {}) do description[key] = value end
  return ts.problem(support.settled(description))
end

local function register(improve, changes)
  local card = { name = "mine", doc = "For the tests", improve = improve }
  for key, value in pairs(changes or {}) do card[key] = value end
  return ts.register_heuristic(card)
end

-- Runs `improve` once on the plan of threshold.
local function with_search(improve, options)
  register(improve)
  local given = { planner = { "threshold", "mine" } }
  for key, value in pairs(options or {}) do given[key] = value end
  return ts.plan(problem(), given)
end

local function card_of(name)
  for _, card in ipairs(ts.planners()) do
    if card.name == name then return card end
  end
end

local function greedy(search, opt)
  while search:moves_made() < (opt.max_moves or 50) and not search:expired() do
    local best
    for move in search:moves() do
      if move.fits and move.objective_delta < (best and best.objective_delta or -1e-12) then best = move:keep() end
    end
    if not best then break end
    search:apply(best)
  end
end

describe("ts.register_heuristic", function()
  it("makes a heuristic that plans alone, in a chain and from every start", function()
    register(greedy, { options = { max_moves = { type = "integer", default = 20, min = 0, doc = "Steps" } } })
    assert.equal("heuristic", card_of("mine").kind)
    local p = problem()
    local adabits = assert(ts.plan(p, { planner = "adabits" }))
    local alone = assert(ts.plan(p, { planner = "mine" }))
    local chain = assert(ts.plan(p, { planner = { "adabits", "mine" } }))
    assert.equal(alone.objective, chain.objective)
    assert.equal("adabits + mine", chain.planner)
    assert.is_true(chain.objective < adabits.objective)
    assert.is_true(ts.check(chain))
    local none = assert(ts.plan(p, { planner = { "adabits", "mine" }, max_moves = 0 }))
    assert.equal(adabits.objective, none.objective)
    register(greedy, { starts = "every" })
    local every = assert(ts.plan(p, { planner = "mine" }))
    assert.is_true(every.objective <= chain.objective)
    assert.equal("mine", every.planner)
    assert.is_true(ts.check(every))
    assert.is_true(every.objective >= assert(ts.plan(p)).objective * (1 - 1e-9))
  end)

  it("refuses bad cards and chains", function()
    for _, case in ipairs {
      { { improve = 3 }, "improve: a function belongs here" }, { { plan = print }, "unknown field 'plan'" },
      { { starts = "some" }, "'some' is neither" }, { { name = "exact" }, "'exact' is built in" },
      { { name = "bitwidth_transfer" }, "is built in" }, { { name = "bitwidth_transfer_lua" }, "is built in" },
      { { options = { group = { type = "integer" } } }, "every planner has this option already" },
    } do
      raises("invalid_argument", case[2], function() return register(greedy, case[1]) end)
    end
    raises("invalid_argument", "not a nil", function() return ts.register_heuristic() end)
    register(greedy)
    local function plan(planner) return ts.plan(problem(), { planner = planner }) end
    raises("invalid_argument", "the list of planners is empty", function() return plan {} end)
    raises("invalid_argument", "ts.plan.planner: the list has gaps", function() return plan { nil, "adabits" } end)
    raises("invalid_argument", "it has the key 'x'", function() return plan { x = "adabits" } end)
    raises("invalid_argument", "ts.plan.planner[2]: 'exact' makes plans of its own",
      function() return plan { "adabits", "exact" } end)
    raises("not_found", "ts.plan.planner[2]: unknown planner 'mien'; did you mean 'mine'",
      function() return plan { "adabits", "mien" } end)
    raises("invalid_argument", "ts.plan.planner[1]: the name of a planner belongs here, not a number",
      function() return plan { 3 } end)
    raises("invalid_argument", "no option 'max_moves'",
      function() return ts.plan(problem(), { planner = "mine", max_moves = 3 }) end)
    raises("invalid_argument", "on_error",
      function() return ts.plan(problem(), { planner = "mine", on_error = "go" }) end)
  end)

  it("hands on the first planner's why", function()
    register(greedy)
    local _, why = ts.plan(problem { model = "opt-175b" }, { planner = { "adabits", "mine" } })
    assert.equal("infeasible", why.code)
    _, why = ts.plan(problem { model = "opt-175b" }, { planner = "bitwidth_transfer_lua" })
    assert.equal("infeasible", why.code)
  end)
end)

describe("a search", function()
  it("prices every move as a full evaluation does", function()
    local seen = {}
    assert(with_search(function(search)
      for _ = 1, 3 do
        for move in search:moves() do
          local full = search:evaluate(move)
          seen[move.kind] = (seen[move.kind] or 0) + 1
          assert.equal(full.fits, move.fits, tostring(move))
          for _, field in ipairs { "objective_delta", "prefill_delta_s", "decode_delta_s", "omega_delta" } do
            assert.near(full[field], move[field], 1e-9 * math.max(1, search:objective()), field)
          end
          assert.near(full.memory_delta_bytes, move.memory_delta_bytes, 1)
        end
        search:perturb(0.1)
      end
    end))
    for _, kind in ipairs { "shift", "swap", "retype", "rule", "micro_batch", "order" } do
      assert.is_true((seen[kind] or 0) > 0, kind .. " was never handed out")
    end
  end)

  it("applies, undoes, remembers the best and draws from its seed", function()
    local drawn = {}
    local function improve(search)
      local before, best = search:objective(), search:best().objective
      assert.near(before, best, 1e-9 * before)
      assert.is_false(search:undo())
      local moved
      for move in search:moves { kinds = { "shift", "retype" } } do
        if move.fits and move.objective_delta > 0 then moved = move:keep() break end
      end
      search:apply(moved)
      assert.equal(1, search:moves_made())
      assert.near(before + moved.objective_delta, search:objective(), 1e-9 * before)
      assert.equal(best, search:best().objective)
      assert.is_true(search:undo())
      assert.equal(before, search:objective())
      assert.equal(0, search:moves_made())
      search:perturb(0.2)
      drawn[#drawn + 1] = search:random() + search:objective()
      local stage = search:slowest_stage()
      for move in search:moves { from = stage, kinds = "shift" } do
        assert.equal(stage, move.from_stage)
        assert.equal("shift", move.kind)
      end
    end
    local a = assert(with_search(improve, { seed = 3 }))
    local b = assert(with_search(improve, { seed = 3 }))
    assert.equal(a.objective, b.objective)
    assert(with_search(improve, { seed = 4 }))
    assert.equal(drawn[1], drawn[2])
    assert.is_true(drawn[1] ~= drawn[3])
  end)

  it("draws moves of the kinds asked for, the same for a seed", function()
    local function improve_into(list)
      return function(search)
        for _ = 1, 40 do
          local move = search:random_move { kinds = { "retype", "shift" }, fits = true }
          assert.truthy(move.kind == "retype" or move.kind == "shift")
          assert.is_true(move.fits)
          assert.near(search:evaluate(move).objective_delta, move.objective_delta, 1e-9 * search:objective())
          list[#list + 1] = tostring(move)
          if #list % 4 == 0 then search:apply(move) end
        end
        local stage = search:slowest_stage()
        local all = 0
        for _ in search:moves { kinds = "swap", from = stage } do all = all + 1 end
        assert.equal(all, search:count { kinds = "swap", from = stage })
        assert.is_true(all < search:count())
        -- A draw neither ends a round nor changes what was drawn before.
        local first = search:random_move()
        local text = tostring(first)
        for _ in search:moves { kinds = "retype" } do search:random_move { kinds = "shift" } end
        assert.equal(text, tostring(first))
        assert.is_nil(search:random_move { kinds = "shift", from = 0, to = 0 })
      end
    end
    local a, b, c = {}, {}, {}
    assert(with_search(improve_into(a), { seed = 5 }))
    assert(with_search(improve_into(b), { seed = 5 }))
    assert(with_search(improve_into(c), { seed = 6 }))
    assert.same(a, b)
    assert.is_true(table.concat(a) ~= table.concat(c))
  end)

  it("shows the plan at hand", function()
    local function agree(search)
      local stages, layer, theta_omega = search:stages(), 0, search:objective()
      for k, stage in ipairs(stages) do
        assert.equal(layer, stage.first_layer)
        assert.equal(stage.num_layers, #stage.bitwidths)
        assert.is_true(stage.memory_left_bytes >= -1)
        assert.is_true(stage.prefill_s > 0 and stage.decode_s > 0, k)
        layer = layer + stage.num_layers
      end
      assert.equal(40, layer)
      assert.is_true(theta_omega > search:omega())
    end
    assert(with_search(function(search)
      local best, prefill, decode = search:best(), search:micro_batch_sizes()
      assert.equal(best.prefill_micro_batch_size, prefill)
      assert.equal(best.decode_micro_batch_size, decode)
      assert.near(best.omega, search:omega(), 1e-12)
      for k, stage in ipairs(search:stages()) do
        local shown = best.stages[k]
        assert.equal(shown.device, stage.device)
        assert.same(shown.bitwidths, stage.bitwidths)
        assert.near(shown.prefill_s, stage.prefill_s, 1e-12)
        assert.near(shown.decode_s, stage.decode_s, 1e-12)
        local memory = shown.memory
        assert.near(memory.capacity_bytes - memory.total_bytes, stage.memory_left_bytes, 16)
      end
      agree(search)
      local before = search:stages()
      local move = search:random_move { kinds = "retype", fits = true }
      search:apply(move)
      agree(search)
      local place = move.first_layer - before[move.from_stage + 1].first_layer + 1
      assert.equal(move.from_bitwidth, before[move.from_stage + 1].bitwidths[place])
      assert.equal(move.to_bitwidth, search:stages()[move.from_stage + 1].bitwidths[place])
    end))
  end)

  it("names what is wrong with a call", function()
    local checks = {
      { "unknown option 'fit'; did you mean 'fits'", function(s) s:random_move { fit = true } end },
      { "search:random_move.fits: true or false belongs here, not a number",
        function(s) s:random_move { fits = 1 } end },
      { "search:random_move.kinds[1]: no kind of move is called 'shfit'",
        function(s) s:random_move { kinds = "shfit" } end },
      { "unknown option 'fits'", function(s) s:count { fits = true } end },
      { "numbered from 0", function(s) s:count { from = 7 } end, "out_of_range" },
      { "call it with a colon", function(s) return s.stages() end },
      { "read-only", function(s) s.moves = 3 end }, { "search:mvoes does not exist; did you mean 'moves'",
        function(s) return s.mvoes end },
      { "call it with a colon", function(s) return s.objective() end },
      { "a move belongs here, not a table", function(s) s:apply {} end },
      { "a move belongs here, not a nil", function(s) s:evaluate() end },
      { "unknown option 'form'; did you mean 'from'", function(s) s:moves { form = 1 } end },
      { "no kind of move is called 'shfit'; did you mean 'shift'", function(s) s:moves { kinds = { "shfit" } } end },
      { "numbered from 0", function(s) s:moves { from = 7 } end, "out_of_range" },
      { "is out of range", function(s) s:moves { from = -1 } end, "out_of_range" },
      { "belongs here, not a number", function(s) s:moves(3) end },
      { "strength", function(s) s:perturb(-1) end, "out_of_range" }, { "strength", function(s) s:perturb "much" end },
      { "the plan changed", function(s)
        for move in s:moves { kinds = { "retype" } } do if move.fits then s:apply(move) end end
      end },
      { "another search:moves began", function(s) for _ in s:moves() do s:moves() end end },
      { "has no field 'fit'; did you mean 'fits'", function(s) return s:moves()().fit end },
    }
    for _, case in ipairs(checks) do
      raises(case[3] or "invalid_argument", case[1], function() return with_search(case[2]) end)
    end
    for _, change in ipairs {
      function(move) move.fits = true end, function(move) move.objective_delta = -1e9 end,
      function(move) move.kind = "shift" end, function(move) move:keep().fits = true end,
    } do
      local ok, err = pcall(with_search, function(search)
        for move in search:moves() do change(move) end
      end)
      assert.is_false(ok)
      assert.truthy(tostring(err):find "read%-only" or tostring(err):find "constant", tostring(err))
    end
  end)

  it("does not apply what does not fit or is out of date", function()
    local tried
    assert(with_search(function(search)
      local kept
      for move in search:moves { kinds = { "shift", "retype" } } do
        if not move.fits then kept = move:keep() break end
      end
      tried = kept ~= nil
      if kept then
        raises("invalid_argument", "does not fit", function() search:apply(kept) end)
        assert.equal(0, search:moves_made())
      end
    end, { prefill_micro_batch_size = 8 }))
    assert.is_boolean(tried)
  end)

  it("survives views and searches that outlive their time", function()
    local stale, old = {}, nil
    assert(with_search(function(search)
      old = search
      for move in search:moves() do stale[#stale + 1] = move end
    end))
    collectgarbage()
    collectgarbage()
    assert.is_number(stale[#stale].objective_delta)
    assert.is_number(old:objective())
  end)
end)

describe("a heuristic that misbehaves", function()
  it("stops the plan, or is passed over, as on_error says", function()
    local thrown = {}
    for _, bad in ipairs {
      { function() error "broken" end, "broken" }, { function() error(thrown) end, "table" },
      { function() return { stages = {} } end, "it returned a table" },
      { function() local x = nil; return x.y end, "index" },
      { function(search) search:apply "move" end, "a move belongs here" },
    } do
      local ok, err = pcall(with_search, bad[1])
      assert.is_false(ok)
      assert.truthy(err == thrown or tostring(err):find(bad[2], 1, true), tostring(err))
      local plan = assert(with_search(bad[1], { on_error = "continue" }))
      assert.is_true(ts.check(plan))
      assert.truthy(plan.notes[#plan.notes]:find("on_error = continue: heuristic 'mine' failed", 1, true))
      assert.truthy(plan.notes[#plan.notes]:find(bad[2], 1, true), plan.notes[#plan.notes])
    end
  end)

  it("keeps what it found before it failed", function()
    local plan = assert(with_search(function(search, opt)
      greedy(search, opt)
      error "late"
    end, { on_error = "continue" }))
    assert.is_true(plan.objective <= assert(ts.plan(problem(), { planner = "threshold" })).objective)
    assert.is_true(plan.objective == assert(with_search(greedy)).objective)
  end)

  it("is stopped at the time limit when it ignores it", function()
    local plan = assert(with_search(function(search)
      while true do search:perturb(0.1) end
    end, { time_limit_s = 0.2 }))
    assert.truthy(plan.notes[#plan.notes]:find "time limit")
    assert.equal("time_limit", plan.stopped_by)
    assert.truthy(tostring(plan):find("feasible", 1, true))
    assert.is_nil(assert(with_search(greedy)).stopped_by)
    assert.is_true(ts.check(plan))
    ts.register_planner { name = "slow", doc = "Never ends", plan = function(p)
      while true do p:micro_batch_sizes() end
    end }
    local none, why = ts.plan(problem(), { planner = "slow", time_limit_s = 0.1 })
    support.declines("time_limit", "planner 'slow' was stopped at its time limit of 0.1 s", none, why)
  end)

  it("may not lose the time limit in a pcall", function()
    local plan = assert(with_search(function(search)
      while true do pcall(function() while true do search:objective() end end) end
    end, { time_limit_s = 0.1 }))
    assert.truthy(plan.notes[#plan.notes]:find "stopped at its time limit")
  end)

  it("may raise from on_incumbent", function()
    raises("invalid_argument", "enough", function()
      return with_search(greedy, { on_incumbent = function()
        require("tessera.core").raise("invalid_argument", "enough", "here")
      end })
    end)
  end)
end)

describe("the heuristics that ship", function()
  it("are the same in Lua and in C++", function()
    for _, case in ipairs {
      { model = "opt-13b" }, { model = "opt-30b", cluster = "llmpq-3", bitwidths = { 3, 4, 8, 16 } },
      { model = "opt-13b", objective = "paper", memory = "llm-pq" },
    } do
      local p = problem(case)
      local cpp = assert(ts.plan(p, { planner = "bitwidth_transfer" }))
      local lua = assert(ts.plan(p, { planner = "bitwidth_transfer_lua" }))
      assert.equal(cpp.objective, lua.objective)
      assert.same(cpp:to_table().stages, lua:to_table().stages)
      assert.equal(cpp.prefill_micro_batch_size, lua.prefill_micro_batch_size)
      assert.equal(cpp.decode_micro_batch_size, lua.decode_micro_batch_size)
      assert.is_true(cpp.objective <= assert(ts.plan(p, { planner = "adabits" })).objective)
      local chain = assert(ts.plan(p, { planner = { "threshold", "bitwidth_transfer" } }))
      assert.is_true(chain.objective <= assert(ts.plan(p, { planner = "threshold" })).objective)
    end
  end)

  it("have Algorithm 2 as printed beside the extended one", function()
    for _, case in ipairs {
      { model = "opt-13b" }, { model = "opt-13b", objective = "paper", memory = "llm-pq" },
      { model = "opt-66b", cluster = "llmpq-5", objective = "paper", memory = "llm-pq", kernel_set = "llmpq_2023_08" },
    } do
      local p = problem(case)
      local plan = assert(ts.plan(p, { planner = "bitwidth_transfer_paper" }))
      assert.equal("bitwidth_transfer_paper", plan.planner)
      assert.is_true(ts.check(plan))
      assert.is_true(plan.objective <= assert(ts.plan(p, { planner = "adabits" })).objective * (1 + 1e-9))
      assert.is_true(plan.objective >= assert(ts.plan(p)).objective * (1 - 1e-6))
      local chain = assert(ts.plan(p, { planner = { "threshold", "bitwidth_transfer_paper" } }))
      assert.is_true(chain.objective <= assert(ts.plan(p, { planner = "threshold" })).objective)
    end
    raises("not_found", "unknown planner 'bitwidth_transfer_papr'; did you mean 'bitwidth_transfer_paper'",
      function() return ts.plan(problem(), { planner = "bitwidth_transfer_papr" }) end)
  end)

  it("have a template that works", function()
    local folder = require("tessera.host").installation.scripts_dir
    dofile(folder .. "/tessera/heuristics/_template.lua")
    assert.is_true(ts.check(assert(ts.plan(problem(), { planner = { "adabits", "my_heuristic" } }))))
  end)

  it("group layers", function()
    local p = problem()
    local best = assert(ts.plan(p))
    for _, size in ipairs { 2, 3, 7 } do
      local grouped = assert(ts.plan(p, { group = size }))
      assert.is_true(grouped.objective >= best.objective * (1 - 1e-9))
      assert.is_true(ts.check(grouped))
      for _, stage in ipairs(grouped.stages) do
        assert.equal(0, stage.first_layer % size)
        for i = 1, #stage.bitwidths do
          assert.equal(stage.bitwidths[i - (i - 1) % size], stage.bitwidths[i])
        end
      end
    end
    local exact = assert(ts.plan(p, { group = 2 }))
    local ilp = assert(ts.plan(p, { group = 2, planner = "ilp" }))
    assert.near(exact.objective, ilp.objective, 1e-6 * exact.objective)
    raises("invalid_argument", "planner 'uniform' decides layer by layer",
      function() return ts.plan(p, { planner = "uniform", group = 2 }) end)
    raises("out_of_range", "ts.plan.group: 0 is out of range", function() return ts.plan(p, { group = 0 }) end)
    local _, why = ts.plan(p, { group = 20 })
    assert.truthy(why.message:find "decided 20 together")
  end)
end)
