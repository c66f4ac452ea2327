-- Classes of requests of a fleet's models: as cheap as any fleet, and served by their shares.
local core = require "tessera.core"
local folders = require "launch_folders"
local support = require "support"
local ts = require "tessera"

folders.keep(setup, teardown)

local slo = { ttft_s = { p99 = 1 }, tpot_s = { p99 = 0.08 } }

local function code()
  return { name = "code", model = "qwen2.5-14b", slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.1 } },
    num_requests = 300, traffic = { rate_per_s = 1.5, prompt_tokens = 800, output_tokens = 40 } }
end

-- Short questions with long answers, and long questions with short ones.
local function by_size(changes)
  local model = { name = "chat", model = "llama-3.1-8b", slo = slo, num_requests = 300, classes = {
    { name = "short", traffic = { rate_per_s = 6, prompt_tokens = 60, output_tokens = 120 } },
    { name = "long", traffic = { rate_per_s = 5, prompt_tokens = 1200, output_tokens = 10 },
      slo = { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.1 } } },
  } }
  for name, value in pairs(changes or {}) do model[name] = value end
  return model
end

-- The multiple of two demands that so many replicas of each kind serve: kinds that are best at the first class against
-- the second take that one, up to the kind whose time both share. By bisection, and so by no linear programme.
local function multiple_of(columns, counts, demand)
  local order = {}
  for c, count in pairs(counts) do
    if count > 0 then order[#order + 1] = c end
  end
  local function ratio(c)
    local rates = columns[c].rates_per_s
    return rates[2] > 0 and rates[1] / rates[2] or math.huge
  end
  table.sort(order, function(a, b) return ratio(a) > ratio(b) end)
  local function serves(x)
    local first, second = x * demand[1], x * demand[2]
    for _, c in ipairs(order) do
      local rates, left = columns[c].rates_per_s, counts[c]
      if first > 0 and rates[1] > 0 then
        local time = math.min(left, first / rates[1])
        first, left = first - time * rates[1], left - time
      end
      second = second - left * rates[2]
    end
    return first <= 1e-9 and second <= 1e-9
  end
  local low, high = 0, 100
  for _ = 1, 60 do
    local middle = (low + high) / 2
    if serves(middle) then low = middle else high = middle end
  end
  return low
end

describe("classes of requests of a fleet", function()
  it("lets classes of requests go to the replicas that suit them: as cheap as any fleet", function()
    for _, cluster in ipairs { "(2xL4)+(1xA100-40G)", "2x(1xL4)+(1xL40S)", "2x(1xA10G)+2x(1xL4)" } do
      local fleet = assert(ts.plan_fleet { cluster = cluster, models = { by_size() }, gap = 0, simulate_all = true })
      assert.truthy(ts.check(fleet))
      local demand, columns = fleet.instance.models[1].demand, fleet.columns
      -- Every number of replicas of each kind that is of one node, where they fit.
      local room, per_h, kinds = {}, {}, {}
      for _, class in ipairs(fleet.instance.node_classes) do
        for name, count in pairs(class.devices) do room[name] = (room[name] or 0) + count * class.count end
      end
      for _, type in ipairs(fleet.instance.device_types) do per_h[type.name] = type.usd_per_h end
      for c, column in ipairs(columns) do
        local name, gpus = next(fleet.instance.columns[c].devices)
        local rates = column.rates_per_s
        if rates[1] + rates[2] > 0 then kinds[#kinds + 1] = { column = c, name = name, gpus = gpus, rates = rates } end
      end
      -- What is no better at anything than another one on as many devices of the type is left out.
      local useful = {}
      for i, kind in ipairs(kinds) do
        local is_best = true
        for k, other in ipairs(kinds) do
          local is_as_good = other.name == kind.name and other.gpus <= kind.gpus and other.rates[1] >= kind.rates[1]
            and other.rates[2] >= kind.rates[2]
          local is_same = other.gpus == kind.gpus and other.rates[1] == kind.rates[1]
            and other.rates[2] == kind.rates[2]
          if k ~= i and is_as_good and (not is_same or k < i) then is_best = false end
        end
        if is_best then useful[#useful + 1] = kind end
      end
      local least, counts = math.huge, {}
      local function enumerate(i, usd_per_h)
        if usd_per_h >= least then return end
        if i > #useful then
          if multiple_of(columns, counts, demand) >= 1 - 1e-6 then least = usd_per_h end
          return
        end
        local kind = useful[i]
        local had, count = room[kind.name], 0
        while room[kind.name] >= 0 do
          counts[kind.column] = count
          enumerate(i + 1, usd_per_h + count * kind.gpus * per_h[kind.name])
          count, room[kind.name] = count + 1, room[kind.name] - kind.gpus
        end
        counts[kind.column], room[kind.name] = 0, had
      end
      enumerate(1, 0)
      assert.near(least, fleet.usd_per_h, 1e-6, cluster)
      -- And it serves the multiple that it says.
      local multiple = multiple_of(columns, (function()
        local placed = {}
        for _, row in ipairs(fleet.replicas) do
          placed[row.column_index + 1] = (placed[row.column_index + 1] or 0) + row.count
        end
        return placed
      end)(), demand)
      assert.near(fleet.scale, multiple, 1e-4)
    end
  end)

  it("realises the shares of classes: a run, files that start it, a file, a lost node", function()
    local fleet = assert(ts.plan_fleet { cluster = "2x(4xL4)+2x(2xA100-40G)", models = { by_size(), code() },
      reserve = { nodes = 1 }, gap = 0.01 })
    local served = ts.serve(fleet, {}, { duration_s = 60 })
    for _, model in ipairs(served.models) do assert.truthy(model.attainment_ratio >= 0.99, model.name) end
    local lost = ts.serve(fleet, {}, { duration_s = 60, lost_node = fleet.nodes[1].node_index, lost_at_s = 20 })
    for _, model in ipairs(lost.models) do assert.truthy(model.attainment_ratio >= 0.9, model.name) end
    for _, row in ipairs(fleet:losses { time_limit_s = 5, gap = 0.1 }) do
      for name, scale in pairs(row.least_scale) do assert.truthy(scale >= 1 - 1e-6, name) end
    end
    local written = assert(fleet:export("vllm", folders.fresh()))
    local folder = written.models[1].folder
    local router = core.read_file(folder .. "/router.sh")
    assert.matches([[map \$http_x_request_class \$engines {]], router, 1, true)
    for b, name in ipairs { "short", "long" } do
      assert.matches(('"%s" engines_%d;'):format(name, b - 1), router, 1, true)
      assert.matches(("upstream engines_%d {"):format(b - 1), router, 1, true)
    end
    assert.matches("X-Request-Class", core.read_file(folder .. "/README.md"), 1, true)
    assert(ts.load_launch(folder))
    local path = os.tmpname()
    fleet:save(path)
    local again = ts.load_plan(path)
    assert.same(fleet:to_table(), again:to_table())
    local more = assert(again:replan { demand_per_s = { chat = 22 } })
    assert.same({ 12, 10 }, more.instance.models[1].demand)
    os.remove(path)
  end)

  it("is a page, whose reserves are those that classes may have", function()
    local model = by_size()
    for _, class in ipairs(model.classes) do class.traffic.rate_per_s = class.traffic.rate_per_s / 4 end
    local fleet = assert(ts.plan_fleet { cluster = "2x(2xL4)", models = { model }, gap = 0.1, time_limit_s = 10 })
    local path = os.tmpname()
    ts.report(fleet, path)
    local page = core.read_file(path)
    os.remove(path)
    assert.matches("What reserves and limits cost", page, 1, true)
    assert.matches("nodes that may be lost", page, 1, true)
  end)

  it("refuses classes of requests that say nothing", function()
    local function refused(words, changes)
      support.raises("invalid_argument", words, function()
        ts.plan_fleet { cluster = "1xL4", models = { by_size(changes) } }
      end)
    end
    refused("one of the two", { traffic = { rate_per_s = 1, prompt_tokens = 1, output_tokens = 1 } })
    refused("the list is empty", { classes = {} })
    local traffic = { rate_per_s = 1, prompt_tokens = 10, output_tokens = 10 }
    local twice = { { name = "a", traffic = traffic }, { name = "a", traffic = traffic } }
    refused("is called 'a' already", { classes = twice })
    refused("rate_per_s", { classes = { { traffic = { prompt_tokens = 10, output_tokens = 10 } } } })
    support.raises("invalid_argument", "limits here, or the model's", function()
      ts.plan_fleet { cluster = "1xL4", models = { { name = "a", model = "opt-125m",
        classes = { { traffic = traffic } } } } }
    end)
    support.raises("invalid_argument", "one of the two", function()
      ts.plan_fleet { cluster = "1xL4", models = { { name = "a", model = "opt-125m", slo = slo } } }
    end)
  end)
end)
