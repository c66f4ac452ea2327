-- ts.plan_fleet of named models: what comes keeps to what was asked for, and says what it cannot.
local core = require "tessera.core"
local folders = require "launch_folders"
local support = require "support"
local ts = require "tessera"

folders.keep(setup, teardown)

local slo = { ttft_s = { p99 = 1 }, tpot_s = { p99 = 0.08 } }

local function chat(changes)
  local model = { name = "chat", model = "llama-3.1-8b", slo = slo, num_requests = 300,
    traffic = { rate_per_s = 6, prompt_tokens = 300, output_tokens = 40 } }
  for name, value in pairs(changes or {}) do model[name] = value end
  return model
end

local function code()
  return { name = "code", model = "qwen2.5-14b", slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.1 } },
    num_requests = 300, traffic = { rate_per_s = 1.5, prompt_tokens = 800, output_tokens = 40 } }
end

local function fleet_of(changes)
  local options = { cluster = "2x(4xL4)+2x(2xA100-40G)", models = { chat(), code() }, gap = 0 }
  for name, value in pairs(changes or {}) do options[name] = value end
  if options.rent then options.cluster = nil end
  return ts.plan_fleet(options)
end

describe("ts.plan_fleet of named models", function()
  it("adds up: devices, money, rates", function()
    local fleet = assert(fleet_of())
    local gpus, usd_per_h, used = 0, 0, {}
    for _, row in ipairs(fleet.replicas) do
      gpus = gpus + row.count * row.gpus
      for _, devices in ipairs(row.devices) do
        for _, device in ipairs(devices) do
          assert.is_nil(used[device])
          used[device] = true
        end
      end
    end
    for _, model in ipairs(fleet.models) do
      usd_per_h = usd_per_h + model.usd_per_h
      assert.truthy(model.capacity_per_s >= model.demand_per_s and model.load_ratio > 0.3, model.name)
    end
    assert.equal(fleet.gpus, gpus)
    assert.near(fleet.usd_per_h, usd_per_h, 1e-6)
    assert.truthy(fleet.bound <= fleet.objective + 1e-9 and fleet.bound > 0.9 * fleet.objective)
    assert.truthy(fleet:explain():find("USD/h", 1, true))
    assert.truthy(ts.check(fleet))
  end)

  it("is exported model by model, each engine with the devices that it has", function()
    local fleet, folder = assert(fleet_of()), folders.fresh()
    local written = assert(fleet:export("vllm", folder))
    assert.equal(#fleet.models, #written.models)
    assert.truthy(core.read_file(folder .. "/README.md"):find("- `chat`: chat", 1, true))
    local engines, gpus = 0, 0
    for _, model in ipairs(written.models) do
      for _, name in ipairs(model.files) do
        if name:find "^engine%-" then
          local visible = core.read_file(model.folder .. "/" .. name):match "CUDA_VISIBLE_DEVICES=([%d,]+)"
          engines, gpus = engines + 1, gpus + select(2, visible:gsub("%d+", ""))
        end
      end
    end
    local replicas = 0
    for _, model in ipairs(fleet.models) do replicas = replicas + model.replicas end
    assert.same({ replicas, fleet.gpus }, { engines, gpus })
    assert(fleet:export("vllm", folder, { overwrite = true }))
    support.raises("invalid_argument", "overwrite", function() fleet:export("vllm", folder) end)
  end)

  it("keeps its promise where it is simulated whole, and with a node less", function()
    local fleet = assert(fleet_of { reserve = { nodes = 1 } })
    local served = ts.serve(fleet, {}, { duration_s = 60 })
    assert.truthy(served.keeps)
    for _, model in ipairs(served.models) do assert.truthy(model.attainment_ratio >= 0.99, model.name) end
    local lost = ts.serve(fleet, {}, { duration_s = 60, lost_node = fleet.nodes[1].node_index, lost_at_s = 0 })
    for _, model in ipairs(lost.models) do assert.truthy(model.attainment_ratio >= 0.95, model.name) end
  end)

  it("takes a fleet of other prices and limits", function()
    local fleet = assert(fleet_of { models = { chat() },
      rent = { { "4xL4", limit = 1, usd_per_h = 0.4, spot = true }, { "2xA100-40G", limit = 3, usd_per_h = 8 } } })
    -- 0.4 USD/h a node of L4, 8 of A100: what the demand needs beyond the one node of L4 is A100.
    assert.truthy(fleet.usd_per_h < 8.4 and fleet.usd_per_h > 0.09, tostring(fleet.usd_per_h))
    local free = assert(fleet_of { models = { chat() }, rent = { { "4xL4", limit = 3, usd_per_h = 0 } } })
    assert.equal(0, free.usd_per_h)
    local million = assert(fleet_of { models = { chat() }, rent = { { "4xL4", limit = 1000000, usd_per_h = 4 } } })
    assert.equal(2, million.usd_per_h) -- two L4 of a node
    local none, why = fleet_of { models = { chat() }, rent = { { "4xL4", limit = 0 } } }
    assert.is_nil(none)
    assert.equal("infeasible", why.code)
  end)

  it("says which model lacks what", function()
    local none, why = fleet_of { models = { chat(), chat { name = "fast", slo = { ttft_s = { p99 = 1e-4 } } } } }
    assert.is_nil(none)
    assert.equal("infeasible", why.code)
    assert.same({ "fast" }, why.models)
    assert.truthy(why.message:find("latency", 1, true), why.message)
    local _, many = fleet_of { models = { chat { traffic = { rate_per_s = 1e5, prompt_tokens = 300,
      output_tokens = 40 } } } }
    assert.equal("infeasible", many.code)
    assert.truthy(many.have and many.have < 0.1)
    local _, dear = fleet_of { models = { chat() }, cluster = "2x(4xL4)", max_usd_per_h = 0.01 }
    assert.same({ "budget", { "chat" } }, { dear.constraint, dear.models })
    assert.truthy(dear.least > 0.01 and dear.message:find("count at their bounds", 1, true), dear.message)
    local _, bare = fleet_of { models = { chat() }, cluster = "(4xL4)", reserve = { nodes = 1 } }
    assert.same({ "reserve", 1 }, { bare.constraint, bare.least })
    local _, few = fleet_of { models = { chat { min_nodes = 3 } }, cluster = "2x(4xL4)" }
    assert.equal("constraint", few.constraint)
  end)

  it("refuses what contradicts itself", function()
    support.raises("invalid_argument", "is called 'chat' already", function()
      fleet_of { models = { chat(), chat() } }
    end)
    support.raises("invalid_argument", "rate_per_s", function()
      fleet_of { models = { chat { traffic = { prompt_tokens = 300, output_tokens = 40 } } } }
    end)
    support.raises("invalid_argument", "one belongs here", function()
      fleet_of { rent = { { "4xL4+4xL4", limit = 2 } } }
    end)
    support.raises("invalid_argument", "no model is called", function()
      fleet_of { constraints = { { model = "none", min_nodes = 2 } } }
    end)
  end)

  it("tells what changes from one fleet to the next", function()
    local before = assert(fleet_of { models = { chat() } })
    local same = before:diff(assert(fleet_of { models = { chat() } }))
    assert.equal(0, #same.starts + #same.stops)
    local more = before:diff(assert(fleet_of { models = { chat { traffic = { rate_per_s = 40, prompt_tokens = 300,
      output_tokens = 40 } } } }))
    assert.truthy(#more.starts > 0 and more.usd_per_h > 0)
  end)

  it("plans again from what runs: a lost node, other demands", function()
    local before = assert(fleet_of { reserve = { nodes = 1 } })
    local lost = assert(before:replan { lost_nodes = { before.nodes[1].node_index }, time_limit_s = 20 })
    for _, node in ipairs(lost.nodes) do assert.not_equal(before.nodes[1].name, node.name) end
    assert.truthy(ts.check(lost))
    local same = assert(before:replan {})
    assert.near(before.objective, same.objective, 1e-6)
    assert.equal(0, same.pricing.simulated)
    -- Without a reserve nothing moves that need not, within the gap.
    local plain = assert(fleet_of { gap = 0.5 })
    local change = plain:diff(assert(plain:replan { demand_per_s = { chat = 6.5 } }))
    assert.equal(0, #change.stops)
    local more = assert(before:replan { demand_per_s = { chat = 12 } })
    assert.equal(12, more.models[1].demand_per_s)
    assert.truthy(more.models[1].capacity_per_s >= 12)
    support.raises("invalid_argument", "there is no node", function() before:replan { lost_nodes = { 99 } } end)
    support.raises("invalid_argument", "no model is called", function()
      before:replan { demand_per_s = { x = 1 } }
    end)
  end)

  it("is what it was when it is read from a file", function()
    local fleet, path = assert(fleet_of { reserve = { nodes = 1 } }), os.tmpname()
    fleet:save(path)
    local again = ts.load_plan(path)
    assert.same(fleet:to_table(), again:to_table())
    assert.truthy(ts.check(again))
    local diff = fleet:diff(again)
    assert.same({ 0, 0 }, { #diff.starts, #diff.stops })
    -- What is made of it: files that start it, a run of it, a plan from it.
    local one, other = folders.fresh(), folders.fresh()
    local files, same = assert(fleet:export("vllm", one)).models, assert(again:export("vllm", other)).models
    for i, model in ipairs(files) do
      assert.same(model.files, same[i].files)
      for _, name in ipairs(model.files) do
        assert.equal(core.read_file(model.folder .. "/" .. name), core.read_file(same[i].folder .. "/" .. name), name)
      end
    end
    assert.same(ts.serve(fleet, {}, { duration_s = 20 }).models[1].attainment_ratio,
      ts.serve(again, {}, { duration_s = 20 }).models[1].attainment_ratio)
    local function replanned(from) return assert(from:replan { lost_nodes = { from.nodes[1].node_index } }) end
    local here, there = replanned(fleet), replanned(again)
    assert.near(here.objective, there.objective, 1e-6)
    -- And again, of a fleet that has lost a node.
    there:save(path)
    local third = ts.load_plan(path)
    assert.same(there:to_table(), third:to_table())
    assert.near(there.objective, assert(third:replan {}).objective, 1e-6)
    local text = core.read_file(path):gsub("tessera%-fleet%-plan%-1", "tessera-fleet-plan-9")
    core.write_file(path, text)
    assert.error_matches(function() ts.load_plan(path) end, "tessera%-fleet%-plan%-9")
    os.remove(path)
  end)

  it("moves replicas for no less than that saves", function()
    local before = assert(fleet_of())
    local function beside(changes, switch_usd)
      local options = { current = before, switch_usd = switch_usd }
      for name, value in pairs(changes) do options[name] = value end
      return assert(fleet_of(options))
    end
    local more = { models = { chat { traffic = { rate_per_s = 6.06, prompt_tokens = 300, output_tokens = 40 } },
      code() } }
    -- The same nodes, of which an L4 costs 1 % more.
    local dearer = { cluster = "2x(2xA100-40G)", rent = { { "4xL4", limit = 2, usd_per_h = 4.04 } } }
    for _, changes in ipairs { more, dearer } do
      local still = beside(changes, 1000)
      for _, switch_usd in ipairs { 0.01, 0.5 } do
        local fleet = beside(changes, switch_usd)
        local moved = fleet.moves.starts + fleet.moves.stops - still.moves.starts - still.moves.stops
        assert.truthy(switch_usd * moved <= still.usd_per_h - fleet.usd_per_h + 1e-6, "moved " .. moved)
        assert.truthy(fleet.objective >= fleet.usd_per_h)
      end
    end
    local same = beside({}, 0.5)
    assert.same({ 0, 0 }, { same.moves.starts, same.moves.stops })
    assert.equal(0, #same:diff(before).starts)
    assert.equal(0, same.moves.loading_s)
  end)

  it("says how long what starts takes to load, and what moves first", function()
    local small = assert(fleet_of { models = { chat() } })
    local large = assert(small:replan { demand_per_s = { chat = 60 } })
    assert.truthy(large.moves.starts > 0)
    -- 16 GB of weights at 2 GB/s, at 16 bits; a node may load several.
    assert.truthy(large.moves.loading_s > 1 and large.moves.loading_s < 100, tostring(large.moves.loading_s))
    assert.truthy(#large.moves.assumed_disks > 0)
    assert.truthy(large:explain():find("from what runs", 1, true))
    local steps = { true, [false] = 0 }
    steps[true] = 0
    for _, step in ipairs(large.moves.steps) do steps[step.starts] = steps[step.starts] + 1 end
    assert.same({ large.moves.starts, large.moves.stops }, { steps[true], steps[false] })
  end)

  it("follows the demand of a day, and knows what that saves", function()
    local day = { periods = { { hours = 8, scale = 0.3 }, { hours = 8, scale = 3 },
      { hours = 8, demand_per_s = { chat = 6, code = 0 } } }, switch_usd = 0.1, time_limit_s = 40, gap = 0.01 }
    local plan = assert(fleet_of(day))
    assert.equal(3, #plan.fleets)
    local usd, before = 0, nil
    for t, fleet in ipairs(plan.fleets) do
      assert.truthy(ts.check(fleet))
      for _, model in ipairs(fleet.models) do
        assert.near(plan.rows[t].demand_per_s[model.name], model.demand_per_s, 1e-9)
        assert.truthy(model.capacity_per_s >= model.demand_per_s * (1 - 1e-9))
      end
      usd = usd + 8 * fleet.usd_per_h
      local diff = before and before:diff(fleet) or { starts = {}, stops = {} }
      for _, list in ipairs { diff.starts, diff.stops } do
        for _, change in ipairs(list) do usd = usd + 0.1 * change.count end
      end
      before = fleet
    end
    assert.near(usd, plan.usd, 1e-6)
    assert.truthy(plan.bound_usd <= plan.usd + 1e-9 and plan.usd <= plan.peak_usd + 1e-9)
    assert.truthy(plan.usd < 0.9 * plan.peak_usd) -- a third of the day at a tenth of the peak
    -- As it is read from its folder; and what losing each node does in each period.
    local folder = folders.fresh()
    plan:save(folder)
    local again = ts.load_plan(folder)
    assert.same(plan:to_table(), again:to_table())
    for t, fleet in ipairs(plan.fleets) do assert.same(fleet:to_table(), again.fleets[t]:to_table()) end
    local lost, nodes = plan:losses { time_limit_s = 1, gap = 0.2 }, {}
    for _, row in ipairs(lost) do nodes[row.period] = (nodes[row.period] or 0) + row.count end
    for t, fleet in ipairs(plan.fleets) do assert.equal(#fleet.nodes, nodes[t]) end
    support.raises("invalid_argument", "is called as plan:losses(...)", function() plan.losses {} end)
    -- Where each switch costs more than a day, nothing moves: the fleet for the peak.
    day.switch_usd = 1e6
    local still = assert(fleet_of(day))
    assert.equal(0, still.switched)
    assert.near(still.peak_usd, still.usd, 1e-6)
    assert.truthy(still:explain():find("a fleet for the peak", 1, true))
  end)

  it("refuses periods that say nothing", function()
    local function refused(words, periods, more)
      support.raises("invalid_argument", words, function()
        local options = { periods = periods }
        for name, value in pairs(more or {}) do options[name] = value end
        fleet_of(options)
      end)
    end
    refused("1 to 1000 belong", {})
    refused("no model is called 'x'", { { demand_per_s = { x = 1 } } })
    refused("is asked for in no period", { { scale = 0 } })
    refused("objective = \"cost\"", { {} }, { objective = "gpus" })
    support.raises("out_of_range", "hours", function() fleet_of { periods = { { hours = 0 } } } end)
  end)

  it("says what losing each node does", function()
    local fleet = assert(fleet_of { reserve = { nodes = 1 } })
    local rows, nodes = fleet:losses { time_limit_s = 10 }, 0
    for _, row in ipairs(rows) do
      nodes = nodes + row.count
      for name, scale in pairs(row.least_scale) do assert.truthy(scale >= 1 - 1e-9, name) end -- what the reserve is
      assert.truthy(row.why or row.usd_per_h > 0)
    end
    assert.equal(#fleet.nodes, nodes)
    local bare = assert(fleet_of { models = { chat() } })
    local least = 1
    for _, row in ipairs(bare:losses {}) do least = math.min(least, row.least_scale.chat) end
    assert.truthy(least < 1)
  end)

  it("takes kinds of replicas of a script at their word", function()
    local asked = {}
    local function fast(model, node)
      asked[#asked + 1] = model.name .. " on " .. node.name
      if not node.devices.L4 or model.name ~= "chat" then return nil end
      return { { devices = { L4 = 1 }, rate_per_s = 50, label = "miracle" } }
    end
    local fleet = assert(fleet_of { columns = fast })
    assert.equal(4, #asked)
    assert.same({ "miracle" }, (function()
      local labels = {}
      for _, row in ipairs(fleet.replicas) do
        if row.model == "chat" then labels[#labels + 1] = row.label end
      end
      return labels
    end)())
    assert.truthy(table.concat(fleet.notes):find("given by a script", 1, true))
    support.raises("unsupported", "nobody knows which engine", function() fleet:deployment "chat" end)
    local path = os.tmpname()
    fleet:save(path)
    assert.near(fleet.objective, assert(ts.load_plan(path):replan {}).objective, 1e-6)
    os.remove(path)
  end)

  it("goes on without kinds of replicas that cannot be", function()
    local plain = assert(fleet_of())
    local wrong = {
      ["a node of 4xL4 has none"] = function() return { { devices = { H100 = 1 }, rate_per_s = 1 } } end,
      ["is outside"] = function() return { { devices = { L4 = 9 }, rate_per_s = 1 } } end,
      ["rate_per_s: -1 is outside"] = function() return { { devices = { L4 = 1 }, rate_per_s = -1 } } end,
      ["takes at least one device"] = function() return { { devices = {}, rate_per_s = 1 } } end,
      ["more than 1000"] = function(_, node)
        local list = {}
        for i = 1, 1001 do list[i] = { devices = { [next(node.devices)] = 1 }, rate_per_s = i } end
        return list
      end,
      ["it failed: "] = function() error "mine" end,
      ["it took more than"] = function()
        while os.clock() >= 0 do end
      end,
    }
    for reason, columns in pairs(wrong) do
      local fleet = assert(fleet_of { columns = columns, time_limit_s = 20 })
      assert.near(plain.objective, fleet.objective, 1e-6)
      local notes = table.concat(fleet.notes, "\n")
      assert.truthy(notes:find("columns was left aside", 1, true) and notes:find(reason, 1, true), notes)
    end
  end)
end)
