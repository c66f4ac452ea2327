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
end)
