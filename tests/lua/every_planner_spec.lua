-- Whatever a planner returns passes the independent checker and is no better than the proven bound. The bound is of
-- plans that use every device, or two of them where stages may be empty; a baseline that leaves more out may be better,
-- as may one that offloads, and one with fewer stages by the papers' objective, whose decode micro-batches follow the
-- number of devices.
local ts = require "tessera"

local seed = tonumber(os.getenv "TESSERA_TEST_SEED") or 1

local function one_of(list) return list[math.random(#list)] end

local function random_problem()
  local devices = { "T4-16G", "P100-12G", "V100-32G", "A100-40G", "L4", "3090" }
  local cluster = { link_gbps = one_of { 0.1, 10, 800 } }
  if math.random() < 0.7 then -- what offloading asks for
    cluster.host_memory_gib, cluster.disk_bytes_per_s = one_of { 8, 64, 500 }, one_of { false, 1e9 } or nil
  end
  for i = 1, math.random(1, 3) do cluster[i] = { one_of(devices), math.random(1, 2), node = "n" .. i } end
  local workload = {
    prompt_tokens = one_of { 32, 512, 1000 }, output_tokens = one_of { 1, 20, 100 }, batch_size = one_of { 1, 7, 16 },
  }
  if math.random() < 0.3 then workload.chunk_tokens = 200 end
  local kernel_set = "tessera"
  if math.random() < 0.3 then -- INT8 slower than FP16 there, so that the order of bitwidths says little
    kernel_set = "llmpq_2023"
    cluster = { { "T4-16G", math.random(1, 3), node = "a" }, { "V100-32G", 1, node = "b" } }
  end
  local description = {
    model = one_of { "opt-1.3b", "opt-13b", "bloom-3b", "llama-3-8b", "qwen3-30b-a3b", "gpt-j-6b" },
    cluster = cluster, workload = workload,
    bitwidths = one_of { { 4, 8 }, { 3, 4, 8, 16 }, { 16 } },
    objective = one_of { "steady", "paper" },
    memory = one_of { "physical", "llm-pq" },
    kernel_set = kernel_set,
    allow_empty_stage = math.random() < 0.3,
  }
  if math.random() < 0.3 then
    description.quality = one_of { { at_least = "uniform" }, { max_omega = 0.5 } }
  else
    description.theta = one_of { 0, 1, 100 }
  end
  return ts.problem(description)
end

describe("every planner", function()
  math.randomseed(seed)
  for round = 1, 15 do
    it(("keeps every constraint (seed %d, round %d)"):format(seed, round), function()
      local problem = random_problem()
      local best = ts.plan(problem, { planner = "exact", time_limit_s = 3 })
      for _, card in ipairs(ts.planners()) do
        if card.name ~= "manual" then
          local plan, why = ts.plan(problem, { planner = card.name, time_limit_s = 3 })
          local what = card.name .. " on " .. tostring(problem)
          if plan then
            local ok, reason = ts.check(plan)
            assert.is_true(ok, what .. ": " .. tostring(reason))
            assert.is_true(plan.offload ~= nil or ts.simulate(plan).total_s > 0, what)
            if best and best.status == "optimal" and plan.status == "optimal" then
              assert.near(best.objective, plan.objective, 1e-6 * math.abs(best.objective), what)
            end
            local searched = not plan.offload and (#plan.stages == #problem.devices
              or problem.allow_empty_stage and #plan.stages >= 2 and problem.objective == "steady")
            assert.is_true(not best or not searched or plan.objective >= best.bound * (1 - 1e-6),
              ("%s: %.9g beats the bound %.9g"):format(what, plan.objective, best and best.bound or 0))
          else
            assert.truthy(why.code == "infeasible" or why.code == "time_limit", what .. ": " .. tostring(why))
            assert.is_true(#why.message > 0, what)
          end
        end
      end
    end)
  end
end)
