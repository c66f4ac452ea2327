-- What goes by a name: files that ship and files of TESSERA_PATH, of every kind; each kind's template.
local core = require "tessera.core"
local host = require "tessera.host"
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local library = host.installation.scripts_dir .. "/tessera/"

local function cards(list)
  local found = {}
  for _, card in ipairs(list) do found[card.name] = card end
  return found
end

-- A problem, a deployment of two engines and one of a model, as text: what a plugin of each kind is tried on.
local plan = [[
local plan = assert(ts.plan({ model = 'opt-125m', cluster = '2xT4-16G', theta = 1,
  workload = { prompt_tokens = 64, output_tokens = 8, batch_size = 4 } }, { planner = %s }))
print(plan.planner, ts.check(plan))]]
local serve = [[
local served = ts.serve(ts.deployment { replicas = 2, step_cost = { base_s = 0.01, per_token_s = 1e-5 },
  router = '%s', engine = { scheduler = '%s', kv_blocks = 500 } },
  ts.traffic { rate_per_s = 20, num_requests = 50, prompt_tokens = 100, output_tokens = 10 })
print(served.num_finished)]]

local models = [[
local rows = { { tensor_parallel = 1, pipeline_parallel = 1, num_gpus = 1, ttft_s = 0.1, tpot_s = 0.01, latency_s = 1,
  base_bytes = 1e9, memory_bytes = 1e9, cost_byte_s = 1e9 } }
local served = ts.serve(ts.deployment { cluster = '2xT4-16G', strategy = 'my_strategy', models = {
  { name = 'a', estimates = rows, num_layers = 4 } } }, ts.traffic { rate_per_s = 1, num_requests = 50 })
print(served.num_finished)]]

local kinds = {
  { folder = "planners", name = "my_planner", try = plan:format "'my_planner'", says = "my_planner\ttrue" },
  { folder = "heuristics", name = "my_heuristic", try = plan:format "{ 'adabits', 'my_heuristic' }",
    says = "adabits + my_heuristic\ttrue" },
  { folder = "schedulers", name = "my_scheduler", try = serve:format("round_robin", "my_scheduler"), says = "50" },
  { folder = "routers", name = "my_router", try = serve:format("my_router", "vllm_v1"), says = "50" },
  { folder = "strategies", name = "my_strategy", try = models, says = "50" },
}

-- What the program prints that has these files in its TESSERA_PATH: { ["routers/a.lua"] = text }.
local function with_files(files, code)
  local folder = os.tmpname()
  os.remove(folder)
  for name, text in pairs(files) do
    host.make_folder((folder .. "/" .. name):match "^(.*)/")
    core.write_file(folder .. "/" .. name, text)
  end
  local status, out, err = host.run_program({ "env", "TESSERA_PATH=" .. folder, host.program, "-e", code }, "")
  host.run_program({ "rm", "-rf", folder }, "")
  return out, err, status
end

describe("each kind of plugins", function()
  for _, kind in ipairs(kinds) do
    it(("finds a copy of its template in TESSERA_PATH/%s, and runs it"):format(kind.folder), function()
      local template = core.read_file(("%s%s/_template.lua"):format(library, kind.folder))
      local out, err = with_files({ [kind.folder .. "/x.lua"] = template }, kind.try)
      assert.equal(kind.says .. "\n", out, err)
    end)
  end

  it("tells of files that do not load, and goes on without them", function()
    for _, kind in ipairs(kinds) do
      local path = kind.folder .. "/broken.lua"
      local _, err = with_files({ [path] = "error 'oops'" }, kind.try)
      assert.truthy(err:find("not loaded: ", 1, true) and err:find(path .. ":1: oops", 1, true), err)
      local template = core.read_file(("%s%s/_template.lua"):format(library, kind.folder))
      local out = with_files({ [path] = "error 'oops'", [kind.folder .. "/good.lua"] = template }, kind.try)
      assert.equal(kind.says .. "\n", out)
    end
  end)

  it("keeps the names of what ships", function()
    for _, case in ipairs {
      { "register_planner", "plan", "uniform" }, { "register_planner", "plan", "bitwidth_transfer_lua" },
      { "register_heuristic", "improve", "exact" }, { "register_scheduler", "schedule", "shortest_first" },
      { "register_scheduler", "schedule", "sarathi" }, { "register_router", "choose", "least_tokens" },
      { "register_strategy", "place", "iserve" },
    } do
      raises("invalid_argument", ("ts.%s.name: '%s' is built in; choose another"):format(case[1], case[3]), function()
        ts[case[1]] { name = case[3], doc = "d", [case[2]] = print }
      end)
    end
  end)

  it("checks cards alike", function()
    for _, case in ipairs {
      { "register_planner", "plan" }, { "register_heuristic", "improve" }, { "register_scheduler", "schedule" },
      { "register_router", "choose" }, { "register_strategy", "place" },
    } do
      local call, own = "ts." .. case[1], case[2]
      local function refused(text, changes)
        local card = { name = "a", doc = "b", [own] = print }
        for key, value in pairs(changes) do card[key] = value ~= "" and value or nil end
        raises("invalid_argument", call .. text, function() ts[case[1]](card) end)
      end
      refused((".%s: missing; give a function"):format(own), { [own] = "" })
      refused(".doc: missing; give a string", { doc = "" })
      refused(".name: a name has letters", { name = "a b" })
      refused((".%s: a function belongs here, not a number"):format(own), { [own] = 3 })
      refused(": unknown field 'docs'; did you mean 'doc'", { docs = "x" })
      raises("invalid_argument", call .. ": a table with name, doc, " .. own, function() ts[case[1]](3) end)
    end
  end)

  it("refuses a table within itself", function()
    local loop = {}
    loop[1] = loop
    raises("invalid_argument", "ts.register_strategy: tables within tables, more than 32 deep", function()
      ts.register_strategy { name = "a", doc = "b", place = print, options = { a = { type = "any", default = loop } } }
    end)
  end)

  it("has files that register what they are called after", function()
    local planners = cards(ts.planners())
    local listed = {
      planners = planners, baselines = planners, heuristics = planners, schedulers = cards(ts.schedulers()),
      routers = cards(ts.routers()), strategies = cards(ts.strategies()),
    }
    for folder, known in pairs(listed) do
      for _, path in ipairs(host.scripts(library .. folder)) do
        local name = path:match "([^/]+)%.lua$"
        if name ~= "_template" then assert.is_table(known[name], path) end
      end
    end
  end)
end)

describe("a router in Lua", function()
  it("goes by its name, and a wrong one is told with those that there are", function()
    ts.register_router { name = "last", doc = "The last", choose = function(replicas) return #replicas end }
    local served = ts.serve(ts.deployment {
      replicas = 2, step_cost = { base_s = 0.01 }, engine = { kv_blocks = 100 }, router = "last",
    }, ts.traffic { rate_per_s = 5, num_requests = 10, prompt_tokens = 10, output_tokens = 2 })
    for _, request in ipairs(served:requests()) do assert.equal(1, request.replica) end
    raises("not_found", "there is no router 'lats'; did you mean 'last'", function()
      ts.deployment { step_cost = { base_s = 0.01 }, engine = { kv_blocks = 100 }, router = "lats" }
    end)
  end)
end)
