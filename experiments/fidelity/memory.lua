-- Memory fidelity: what our model counts beside a count that does not come from our code.
--
-- kind = "measured":   weights and cache of one OPT-175b self-attention block, as PyTorch's allocator saw them on A100
--                      and V100 (notes of LLM-PQ's layer table; there the cache is listed twice over).
-- kind = "checkpoint": 16-bit weights against the parameters that the checkpoint's publisher counts.
-- kind = "plan":       weights, cache and embeddings of a whole plan with random bits against the arithmetic of the
--                      model's published configuration, written out below.
--
-- local memory = require "fidelity.memory"; memory.points(models), memory.row(point)

local ts = require "tessera"
local core = require "tessera.core"
local measured = require "lib.measured"

local M = {}
local mib = 2 ^ 20

-- Large enough for every plan here, so that no plan is refused.
local function vast_device()
  return ts.device {
    name = "vast", memory_bytes = 4e12, memory_bytes_per_s = 1e12, compute_capability = 8, pcie_bytes_per_s = 1e10,
    flop_per_s = { fp16 = 1e14, int8 = 1e14, fp32 = 1e13 },
  }
end

-- Linear congruential (Numerical Recipes): the same bits everywhere.
local function random(seed)
  local state = seed
  return function(count)
    state = (state * 1664525 + 1013904223) % 2 ^ 32
    return math.floor(state / 2 ^ 32 * count) + 1
  end
end

local function plan_of(point)
  local model = ts.model(point.model)
  local next_random, bitwidths = random(point.seed), {}
  for i = 1, model.num_layers do bitwidths[i] = ({ 3, 4, 8, 16 })[next_random(4)] end
  local plan = assert(ts.plan({
    model = model, cluster = ts.cluster { { vast_device(), 1 } }, kernel_set = "llmpq_2023", memory = "llm-pq",
    bitwidths = { 3, 4, 8, 16 },
    workload = {
      prompt_tokens = point.prompt_tokens, output_tokens = point.output_tokens, batch_size = point.batch_size,
    },
  }, {
    planner = "manual", stages = { { device = "vast", bitwidths = bitwidths } }, prefill_micro_batch_size = 1,
    decode_micro_batch_size = point.batch_size,
  }))
  return plan, bitwidths, model
end

-- OPT and BLOOM, by hand: four h x h matrices and two of h x 4 h; one norm of scale and shift (as LLM-PQ's code has
-- it); FP16 keys and values; token embedding and LM head, and OPT's 2050 learned positions.
local function counted_bytes(point, bitwidths, model)
  local h, tokens = model.hidden_size, point.prompt_tokens + point.output_tokens
  local weights = 0
  for _, bitwidth in ipairs(bitwidths) do weights = weights + 12 * h * h * bitwidth / 8 + 2 * h * 2 end
  local cache = #bitwidths * 2 * point.batch_size * tokens * h * 2
  local positions = model.family == "opt" and 2050 or 2
  return weights + cache + (2 * model.vocab_size + positions) * h * 2
end

local function plan_row(point)
  local plan, bitwidths, model = plan_of(point)
  local memory = plan.stages[1].memory
  return memory.weight_bytes + memory.kv_cache_bytes + memory.embedding_bytes,
    counted_bytes(point, bitwidths, model)
end

local function checkpoint_row(point)
  local file = core.data_file("models", point.model)
  return 2 * ts.model(point.model).num_parameters, 2 * core.from_json(core.read_file(file)).published_parameters
end

-- { ["weights 4 bit"] = bytes, ... } from the table's notes; nil without the data.
local function measured_blocks()
  local path = measured.path "llmpq/layer_latency.csv"
  if not path then return nil end
  local blocks = {}
  for line in core.read_file(path):gmatch "[^\n]+" do
    local bit, batch, past = line:match "^measured,[^,]+,opt%-175b,%d+,%d+,self_attn only,(%d+),decode,(%d+),1,(%d+),"
    local weights, cache = line:match "measured layer weight ([%d.]+) MB, kv ([%d.]+) MB"
    if bit and weights then
      blocks["weights " .. bit .. " bit"] = tonumber(weights) * mib
      blocks[("cache %d x %d"):format(batch, past + 1)] = tonumber(cache) / 2 * mib
    end
  end
  return blocks
end

local blocks = measured_blocks()

-- A third of a decoder layer's matrices; the block's biases and its norm are 12 h bytes.
local function measured_row(point)
  local model = ts.model "opt-175b"
  local what, a, b = point.case:match "^(%a+) (%d+) [bx]%w* ?(%d*)"
  if what == "weights" then
    return 4 * model.hidden_size ^ 2 * a / 8 + 12 * model.hidden_size, blocks[point.case]
  end
  return a * b * model:kv_bytes_per_token(16) / model.num_layers, blocks[point.case]
end

-- Kinds that there are points of.
M.kinds = blocks and { "measured", "checkpoint", "plan" } or { "checkpoint", "plan" }

-- Points of an experiment's grid.
function M.points(models, seeds)
  local points = {}
  for case in pairs(blocks or {}) do points[#points + 1] = { kind = "measured", model = "opt-175b", case = case } end
  table.sort(points, function(a, b) return a.case < b.case end)
  for _, model in ipairs(models) do
    points[#points + 1] = { kind = "checkpoint", model = model, case = "16 bit" }
    for seed = 1, seeds do
      local next_random = random(1000 * seed + #points)
      points[#points + 1] = { kind = "plan", model = model, case = ("random bits %d, s %d, B %d, n %d"):format(seed,
        ({ 128, 256, 384, 512 })[next_random(4)], ({ 2, 4, 8 })[next_random(3)], 99 + next_random(101)) }
    end
  end
  return points
end

-- { ours_bytes, other_bytes, error_ratio } of such a point.
function M.row(point)
  local ours, other
  if point.kind == "plan" then
    local seed, prompt, batch, output = point.case:match "(%d+), s (%d+), B (%d+), n (%d+)"
    ours, other = plan_row {
      model = point.model, seed = tonumber(seed), prompt_tokens = tonumber(prompt), batch_size = tonumber(batch),
      output_tokens = tonumber(output),
    }
  else
    ours, other = (point.kind == "checkpoint" and checkpoint_row or measured_row)(point)
  end
  return { ours_bytes = ours, other_bytes = other, error_ratio = ours / other - 1 }
end

return M
