-- Two things that whoever buys GPUs takes for granted, on drawn clusters: a plan on more devices is no worse than on
-- fewer, and no stage decodes faster than its weights can be read.
local ts = require "tessera"

local seed = tonumber(os.getenv "TESSERA_SEED") or os.time()
math.randomseed(seed)

local function one_of(list) return list[math.random(#list)] end

local types = { "T4-16G", "V100-32G", "L4", "A100-40G", "A100-80G", "RTX-3090", "RTX-4090", "H200-141G", "P100-12G",
  "MI300X" }

-- One to three nodes of one to three devices of a type.
local function draw_cluster()
  local nodes = {}
  for i = 1, math.random(1, 3) do nodes[i] = { one_of(types), math.random(1, 3), node = "n" .. i } end
  nodes.link_gbps = one_of { 10, 100, 800 }
  return nodes
end

-- The same with one device more: another of a node's, or another node.
local function with_one_more(cluster)
  local more = { link_gbps = cluster.link_gbps }
  for i, entry in ipairs(cluster) do more[i] = { entry[1], entry[2], node = entry.node } end
  if math.random() < 0.5 then
    local entry = one_of(more)
    entry[2] = entry[2] + 1
  else
    more[#more + 1] = { one_of(types), 1, node = "one more" }
  end
  return more
end

-- Devices that vLLM's kernels do not run on.
local apart = { ["P100-12G"] = true, MI300X = true }

-- Kernel sets of every device: auto is each device's own.
local function draw_kernel_set(cluster)
  for _, entry in ipairs(cluster) do
    if apart[entry[1]] then return "auto" end
  end
  return one_of { "auto", "auto", "vllm", "modern" }
end

local function draw()
  local cluster = draw_cluster()
  return {
    model = one_of { "opt-1.3b", "opt-6.7b", "llama-3.1-8b", "opt-13b" }, cluster = cluster,
    kernel_set = draw_kernel_set(cluster),
    workload = { prompt_tokens = one_of { 64, 512 }, output_tokens = one_of { 8, 100 },
      batch_size = one_of { 1, 6, 16 } },
    theta = one_of { 0, 1 },
  }
end

local function text_of(description)
  local words = { description.model, description.kernel_set }
  for _, entry in ipairs(description.cluster) do words[#words + 1] = ("%dx%s"):format(entry[2], entry[1]) end
  return table.concat(words, " ")
end

local function plan_of(description)
  local ok, problem = pcall(ts.problem, description)
  assert.is_true(ok, tostring(problem))
  local plan, why = ts.plan(problem, { time_limit_s = 60 })
  if not plan then assert.equal("infeasible", why.code, text_of(description)) end
  return plan
end

-- Seconds that reading a stage's weights takes at the peak bandwidth of its devices.
local function read_s(stage)
  local degree, name = stage.device:match "^(%d+)x(.+)$"
  local bandwidth = ts.device(name or stage.device).memory_bytes_per_s
  return stage.memory.weight_bytes / (bandwidth * (tonumber(degree) or 1))
end

describe("with one device more", function()
  for round = 1, 12 do
    it(("no plan is worse (seed %d, round %d)"):format(seed, round), function()
      local fewer = draw()
      local more = { cluster = with_one_more(fewer.cluster) }
      for key, value in pairs(fewer) do more[key] = more[key] or value end
      local before, after = plan_of(fewer), plan_of(more)
      if not before then return end
      assert.is_truthy(after, text_of(more))
      if before.status ~= "optimal" or after.status ~= "optimal" then return end
      -- One kernel set prices a problem: beside AMD's devices one of NVIDIA's may bring another for all.
      if ts.problem(fewer).kernel_set ~= ts.problem(more).kernel_set then return end
      assert.is_true(after.objective <= before.objective * (1 + 1e-6),
        ("%s: %.9g s, %s: %.9g s"):format(text_of(fewer), before.objective, text_of(more), after.objective))
    end)
  end
end)

describe("a stage", function()
  for round = 1, 12 do
    it(("decodes no faster than its weights are read (seed %d, round %d)"):format(seed, round), function()
      local description = draw()
      local plan = plan_of(description)
      if not plan then return end
      for _, pipeline in ipairs(plan.pipelines) do
        for _, stage in ipairs(pipeline.stages) do
          assert.is_true(stage.decode_s >= read_s(stage),
            ("%s: %s decodes in %.4g s, and reads its weights in %.4g s"):format(text_of(description), stage.device,
              stage.decode_s, read_s(stage)))
        end
      end
    end)
  end
end)
