-- ts.plan_fleet of given columns, the object, its file, and the verb.
local core = require "tessera.core"
local host = require "tessera.host"
local ts = require "tessera"

local function instance(more)
  local given = {
    format = "tessera-fleet-1", objective = "cost",
    device_types = { { name = "A", usd_per_h = 1 }, { name = "B", usd_per_h = 3 } },
    node_classes = {
      { name = "2xA", count = 4, devices = { A = 2 }, usd_per_h = 2 },
      { name = "1xB", count = 2, devices = { B = 1 }, usd_per_h = 3 },
    },
    models = { { name = "m", demand = { 4 } } },
    columns = { { model = 0, devices = { A = 1 }, rate = { 1 } }, { model = 0, devices = { B = 1 }, rate = { 3.5 } } },
  }
  for key, value in pairs(more or {}) do given[key] = value end
  return given
end

describe("ts.plan_fleet", function()
  it("solves a table, and says what it found", function()
    local fleet = assert(ts.plan_fleet { instance = instance(), gap = 0 })
    assert.equal("optimal", fleet.status)
    assert.near(4, fleet.objective, 1e-9)
    assert.near(4, fleet.bound, 1e-5)
    assert.equal(fleet.objective, fleet.usd_per_h)
    assert.is_true(fleet.scale >= 1)
    assert.equal("m", fleet.models[1].name)
    local gpus = 0
    for _, row in ipairs(fleet.replicas) do gpus = gpus + row.count * row.gpus end
    assert.equal(fleet.gpus, gpus)
    assert.is_true(ts.check(fleet))
    assert.matches("4 USD/h", fleet:explain(), 1, true)
  end)

  it("keeps a fleet in a file, with its instance", function()
    local fleet = assert(ts.plan_fleet { instance = instance(), gap = 0 })
    local path = os.tmpname()
    fleet:save(path)
    local again = ts.load_plan(path)
    assert.equal(fleet.objective, again.objective)
    assert.equal(fleet.bound, again.bound)
    local diff = fleet:diff(again)
    assert.same({ 0, 0 }, { #diff.starts, #diff.stops })
    local text = core.read_file(path):gsub("tessera%-fleet%-plan%-1", "tessera-fleet-plan-9")
    core.write_file(path, text)
    assert.error_matches(function() ts.load_plan(path) end, "tessera%-fleet%-plan%-9")
    os.remove(path)
  end)

  it("says what changes", function()
    local few = assert(ts.plan_fleet { instance = instance(), gap = 0 })
    local more = assert(ts.plan_fleet { instance = instance { models = { { name = "m", demand = { 8 } } } }, gap = 0,
      start = few })
    local diff = few:diff(more)
    assert.near(more.usd_per_h - few.usd_per_h, diff.usd_per_h, 1e-9)
    local count = diff.kept
    for _, change in ipairs(diff.starts) do count = count + change.count end
    local replicas = 0
    for _, row in ipairs(more.replicas) do replicas = replicas + row.count end
    assert.equal(replicas, count)
  end)

  it("keeps what runs where moving it costs more than it saves", function()
    local before = assert(ts.plan_fleet { instance = instance(), gap = 0 })
    local dearer = instance { device_types = { { name = "A", usd_per_h = 1.01 }, { name = "B", usd_per_h = 3 } } }
    local more = instance { models = { { name = "m", demand = { 4.04 } } } }
    for _, given in ipairs { dearer, more } do
      local function planned(switch_usd)
        return assert(ts.plan_fleet { instance = given, gap = 0, current = before, switch_usd = switch_usd })
      end
      -- Of the fleet that moves least whatever it costs: no more money for moves than they save against it.
      local still, free = planned(1000), planned(0)
      for _, switch_usd in ipairs { 0.001, 0.3, 5 } do
        local fleet = planned(switch_usd)
        local moved, least = fleet.moves.starts + fleet.moves.stops, still.moves.starts + still.moves.stops
        assert.is_true(switch_usd * (moved - least) <= still.usd_per_h - fleet.usd_per_h + 1e-9)
        assert.is_true(fleet.usd_per_h >= free.usd_per_h - 1e-9)
        assert.near(fleet.objective, fleet.usd_per_h + switch_usd * moved, 1e-9)
        assert.is_true(ts.check(fleet))
      end
    end
    -- Over a day the same switch is a twenty-fourth of an hour's.
    local cheap = instance { device_types = { { name = "A", usd_per_h = 1.5 }, { name = "B", usd_per_h = 3 } } }
    local four = assert(ts.plan_fleet { instance = instance { columns = { { model = 0, devices = { A = 1 },
      rate = { 1 } }, { model = 0, devices = { B = 1 }, rate = { 0 } } } }, gap = 0 })
    local function switching(hours)
      return assert(ts.plan_fleet { instance = cheap, gap = 0, current = four, switch_usd = 0.5, hours = hours }).moves
    end
    assert.same({ 0, 4 }, { switching(1).starts + switching(1).stops, switching(24).starts + switching(24).stops })
    assert.error_matches(function()
      ts.plan_fleet { instance = instance { objective = "gpus" }, current = before, switch_usd = 1 }
    end, "switch_usd: money counts in objective cost")
    assert.error_matches(function() ts.plan_fleet { instance = instance(), current = {} } end, "current: a fleet")
  end)

  it("says in which order old and new change places", function()
    local one = instance { node_classes = { { name = "2xA", count = 1, devices = { A = 2 }, usd_per_h = 2 } },
      models = { { name = "m", demand = { 2 } }, { name = "n", demand = { 0 } } },
      columns = { { model = 0, devices = { A = 1 }, rate = { 1 } }, { model = 1, devices = { A = 2 }, rate = { 1 } } } }
    local before = assert(ts.plan_fleet { instance = one, gap = 0 })
    one.models = { { name = "m", demand = { 0 } }, { name = "n", demand = { 1 } } }
    local after = assert(ts.plan_fleet { instance = one, gap = 0, current = before })
    assert.same({ 1, 2, 0 }, { after.moves.starts, after.moves.stops, after.moves.kept })
    assert.same({ "2xA-0" }, after.moves.full_nodes)
    assert.is_false(after.moves.steps[1].starts)
    assert.same({ n = 0 }, after.moves.least_scale)
    assert.matches("the old has to stop first", after:explain(), 1, true)
  end)

  it("is the same object whatever its columns are of", function()
    local fleet = assert(ts.plan_fleet { instance = instance(), gap = 0 })
    local nodes, used = {}, 0
    for _, node in ipairs(fleet.nodes) do nodes[node.node_index], used = node, used + node.used end
    assert.equal(fleet.gpus, used)
    for _, row in ipairs(fleet.replicas) do
      for i, index in ipairs(row.node_indices) do assert.equal(nodes[index].name, row.node_names[i]) end
    end
    assert.near(fleet.models[1].capacity_per_s, fleet.models[1].scale * 4, 1e-9)
    assert.is_nil(fleet:to_table().solved)
    for _, name in ipairs { "replan", "losses", "export", "deployment" } do
      assert.error_matches(function() fleet[name](fleet, {}) end, "the columns were given")
    end
  end)

  it("shares classes of requests out as suits the replicas", function()
    -- An A serves 4 of the first class or 1 of the second, a B 4 or 3: B for the second, as far as that goes.
    local fleet = assert(ts.plan_fleet { gap = 0, instance = instance {
      node_classes = { { name = "2xA", count = 2, devices = { A = 2 }, usd_per_h = 2 },
        { name = "1xB", count = 2, devices = { B = 1 }, usd_per_h = 3 } },
      models = { { name = "m", demand = { 9, 4.5 } } },
      columns = { { model = 0, devices = { A = 1 }, rate = { 4, 1 } },
        { model = 0, devices = { B = 1 }, rate = { 4, 3 } } } } })
    -- Four A and one B; three A and one B serve 0.89 of it, two A and two B cost 8.
    assert.near(7, fleet.usd_per_h, 1e-9)
    assert.near(7 / 6.75, fleet.scale, 1e-6)
    local sums, mixed = { 0, 0 }, 0
    for _, row in ipairs(fleet.replicas) do
      local count = 0
      for _, part in ipairs(row.shares) do
        count = count + part.count
        local time = 0
        for b, share in ipairs(part.share) do
          sums[b] = sums[b] + part.count * share
          time = time + share * ({ 9, 4.5 })[b] / row.rates_per_s[b]
        end
        assert.near(1 / fleet.scale, time, 1e-6) -- all are equally full
        if part.share[1] > 0 and part.share[2] > 0 then mixed = mixed + part.count end
      end
      assert.equal(row.count, count)
    end
    assert.near(1, sums[1], 1e-9)
    assert.near(1, sums[2], 1e-9)
    assert.equal(1, mixed)
    assert.matches("class 0 requests of m: ", fleet:explain(), 1, true)
    assert.is_nil(fleet:explain():find("class 1 requests of m: none", 1, true)) -- a first row takes none of it
  end)

  it("keeps two nodes of a model with classes in reserve", function()
    local function planned(nodes)
      return ts.plan_fleet { gap = 0, instance = instance {
        reserve_nodes = nodes, node_classes = { { name = "1xA", count = 6, devices = { A = 1 }, usd_per_h = 1 } },
        models = { { name = "m", demand = { 4, 2 } } },
        columns = { { model = 0, devices = { A = 1 }, rate = { 4, 2 } } } } }
    end
    for nodes = 0, 3 do
      local fleet = assert(planned(nodes))
      assert.near(2 + nodes, fleet.usd_per_h, 1e-9) -- two serve the demand
      assert.is_true(ts.check(fleet))
    end
    assert.matches("served when any 2 nodes are lost", planned(2):explain(), 1, true)
    local none, why = planned(5)
    assert.is_nil(none)
    assert.equal("reserve", why.constraint)
  end)

  it("gives nil and what lacks", function()
    local fleet, why = ts.plan_fleet { instance = instance { max_usd_per_h = 3 } }
    assert.is_nil(fleet)
    assert.equal("infeasible", why.code)
    assert.equal("budget", why.constraint)
    assert.equal(4, why.least)
    fleet, why = ts.plan_fleet { instance = instance { models = { { name = "m", demand = { 30 } } } } }
    assert.is_nil(fleet)
    assert.equal("devices", why.constraint)
    assert.same({ "m" }, why.models)
    assert.near(0.5, why.have, 1e-6)
  end)

  it("asks a rule of rounding, and tells of better fleets", function()
    local asked, told = 0, 0
    local given = instance { models = { { name = "m", demand = { 4.4 } } } }
    local fleet = assert(ts.plan_fleet { instance = given, gap = 0,
      on_incumbent = function(news) told = told + 1; assert.is_number(news.objective) end,
      round = function(copies)
        asked = asked + 1
        assert.equal(2, #copies)
        return { 0, 2 }
      end })
    assert.is_true(asked >= 1 and told >= 1)
    assert.near(4, fleet.objective, 1e-6) -- a B beside an A, whatever the rule wants
    assert.error_matches(function()
      ts.plan_fleet { instance = given, on_incumbent = function() error "mine" end }
    end, "mine")
  end)

  it("goes on without a rule that is wrong, that fails, or that takes too long", function()
    local given = instance { models = { { name = "m", demand = { 4.4 } } } }
    local ends = os.clock
    local wrong = {
      ["it gave 1 numbers, one for each of 2 columns"] = function() return { 1 } end,
      ["-1 is outside"] = function() return { -1, 2 } end,
      ["a number belongs here"] = function() return { 1, 0 / 0 } end,
      ["a list of numbers"] = function() return nil end,
      ["it failed: "] = function() error "mine" end,
      ["it took more than"] = function()
        local from = ends()
        while ends() - from < 30 do end -- asks the system each time, so that it can be stopped
      end,
    }
    for reason, round in pairs(wrong) do
      local fleet = assert(ts.plan_fleet { instance = given, gap = 0, round = round, time_limit_s = 5 })
      assert.near(4, fleet.objective, 1e-6)
      local notes = table.concat(fleet.notes, "\n")
      assert.matches("round was left aside", notes, 1, true)
      assert.matches(reason, notes, 1, true)
      assert.matches(reason, fleet:explain(), 1, true)
    end
    assert.error_matches(function() ts.plan_fleet { instance = given, round = 3 } end, "round: a function belongs here")
  end)

  it("shows a rule the columns", function()
    local seen
    ts.plan_fleet { instance = instance { models = { { name = "m", demand = { 4.4 } } } }, gap = 0,
      round = function(copies, columns)
        seen = columns
        return copies
      end }
    assert.same({ { model = "m", label = "1xA", rates_per_s = { 1 } }, { model = "m", label = "1xB",
      rates_per_s = { 3.5 } } }, seen)
  end)

  it("refuses what it does not know", function()
    assert.error_matches(function() ts.plan_fleet { instance = instance(), colour = 1 } end, "colour")
    assert.error_matches(function() ts.plan_fleet { instance = instance { format = "tessera-fleet-2" } } end, "format")
    assert.error_matches(function() ts.plan_fleet {} end, "models: missing")
  end)
end)

describe("tessera fleet", function()
  local path = os.tmpname()
  core.write_file(path, core.to_json(instance()))
  local function run(...) return host.run_program({ host.program, "fleet", ... }, "") end

  it("prints models, replicas and prices", function()
    local status, text, err = run(path, "--gap", "0")
    assert.equal(0, status, err)
    assert.matches("4 USD/h", text, 1, true)
    assert.matches("one more req/s", text, 1, true)
  end)

  it("gives data, and a file to load", function()
    local out = os.tmpname()
    local status, text, err = run(path, "--json", "--save", out)
    assert.equal(0, status, err)
    assert.equal(4, core.from_json(text).usd_per_h)
    assert.equal(4, ts.load_plan(out).objective)
    os.remove(out)
  end)

  it("ends with 3 where there is none, and 2 without a file", function()
    core.write_file(path, core.to_json(instance { max_usd_per_h = 1 }))
    assert.equal(3, (run(path)))
    assert.equal(2, (run()))
  end)
end)
