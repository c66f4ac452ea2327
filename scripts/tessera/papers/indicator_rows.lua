-- Rows of the papers' tables of indicators (SplitQuant's Table V, LLM-PQ's Table 6) for the model on disk: every
-- indicator made, and judged by the truth, itself and by the plan that it makes.

local llmpq = require "tessera.papers.llmpq"
local on_disk = require "tessera.papers.indicators_on_disk"
local rank = require "tessera.rank_correlation"
local scaled_cluster = require "tessera.papers.scaled_cluster"
local similar_latency = require "tessera.papers.similar_latency"
local weights = require "tessera.weights"

local M = {}

local disk = on_disk.disk

-- One indicator against the truth, and its plan of similar latency.
local function judged(own, problem, num_steps)
  local plan, theta = similar_latency.plan(problem:with { indicator = own }, num_steps)
  local row = {
    status = plan.status, plan = plan, overhead_s = own.overhead_s, weights_s = own.weights_s,
    statistics_s = own.statistics_s, theta = theta, latency_s = plan.latency_s, mean_bitwidth = plan.mean_bitwidth,
  }
  local truth = on_disk.truth()
  for name, of in pairs(truth) do row[name] = on_disk.lost(plan, of) end
  row.spearman = on_disk.agreement(own, truth.output_error, rank.spearman)
  row.kendall = on_disk.agreement(own, truth.output_error, rank.kendall)
  row.spearman_loss = truth.loss_increase and on_disk.agreement(own, truth.loss_increase, rank.spearman)
  row.error_at_5_bits = on_disk.lost_at(5, own, truth.output_error)
  row.loss_at_5_bits = truth.loss_increase and on_disk.lost_at(5, own, truth.loss_increase)
  return row
end

local num_draws = 5

-- Means over the draws, and as `name_sd` their standard deviations.
local function summary(rows)
  local mean = { status = rows[1].status, plan = rows[1].plan, num_draws = #rows }
  for name, first in pairs(rows[1]) do
    if type(first) == "number" then
      local sum, squares = 0, 0
      for _, row in ipairs(rows) do sum = sum + row[name] end
      for _, row in ipairs(rows) do squares = squares + (row[name] - sum / #rows) ^ 2 end
      mean[name], mean[name .. "_sd"] = sum / #rows, math.sqrt(squares / (#rows - 1))
    end
  end
  return mean
end

-- Both papers' batch of their own backend, or as much of it as the model can attend to.
local function workload_of(model)
  local prompt_tokens = math.min(512, math.floor(0.75 * model.max_context_tokens))
  local output_tokens = math.min(100, model.max_context_tokens - prompt_tokens)
  return { batch_size = 32, prompt_tokens = prompt_tokens, output_tokens = output_tokens }
end

--- The row of an indicator on a paper's cluster, cut down to the size of the model. Random draws are several, of seeds
--- from `seed` on.
function M.row(name, cluster, seed, num_steps)
  if not disk.statistics then return { status = "no_statistics", model = disk.name } end
  local model = weights.open(disk.path):model()
  local problem, share = scaled_cluster.problem {
    cluster = cluster, model = model, workload = workload_of(model), bitwidths = on_disk.bitwidths,
    kernel_set = llmpq.kernel_set, memory = "llm-pq", theta = 0,
  }
  local rows = {}
  for draw = 1, name == "random" and num_draws or 1 do
    rows[draw] = judged(on_disk.make(name, seed + draw - 1), problem, num_steps)
  end
  local row = #rows > 1 and summary(rows) or rows[1]
  row.model, row.memory_share = disk.name, share
  return row
end

--- The indicators that rows of the papers' clusters compare.
M.compared = { "constant", "gptq_error", "hessian", "hessian_llm_pq_code", "random", "variance" }

--- Points { cluster, indicator } of the model on disk, on the cut-down clusters.
function M.points(clusters)
  local points = {}
  for _, cluster in ipairs(clusters) do
    for _, name in ipairs(M.compared) do points[#points + 1] = { cluster = M.scaled(cluster), indicator = name } end
  end
  return points
end

local suffix = "-scaled"

--- "llmpq-6-scaled", what rows of the cut-down cluster call it.
function M.scaled(cluster) return cluster .. suffix end

--- "llmpq-6" of "llmpq-6-scaled", nil of other names.
function M.unscaled(cluster)
  return cluster:sub(-#suffix) == suffix and cluster:sub(1, -#suffix - 1) or nil
end

--- Columns of the papers' tables of indicators.
M.columns = {
  "model", "perplexity", "overhead_s", "weights_s", "statistics_s", "spearman", "spearman_loss", "theta", "latency_s",
  "mean_bitwidth", "gptq_error", "output_error", "loss_increase", "loss_increase_sd", "memory_share",
}

--- A list of notes, and after them those on the rows of the model on disk.
function M.notes_and(notes)
  local list = {}
  for i, note in ipairs(notes) do list[i] = note end
  list[#list + 1] = ("model on disk: %s (%s), on clusters whose GPUs keep the share memory_share of what they can use: "
    .. "the least in which 5 bits a layer fit"):format(disk.name,
    disk.is_real and "real" or "tiny, random weights: its numbers mean nothing")
  list[#list + 1] = "overhead_s: of the indicator, without making the statistics; of it weights_s and statistics_s"
  list[#list + 1] = "spearman, spearman_loss: order of its layers against the error of their outputs and against the "
    .. "rise of the loss, mean over the bitwidths whose rise is more than noise"
  list[#list + 1] = "gptq_error, output_error, loss_increase: what the plan's bitwidths lose, summed over the layers "
    .. "as measured one at a time; random: means over 5 draws, _sd their standard deviation"
  return list
end

--- The claims on the rows of the model on disk, where it is a real one.
function M.expect(t, clusters)
  if not disk.is_real or not disk.statistics then return end
  for _, cluster in ipairs(clusters) do
    local name = M.scaled(cluster)
    local function compare(text, what, above, may_differ)
      t:expect_that {
        text = text, where = { cluster = name, indicator = { "variance", above } }, may_differ = may_differ,
        holds = function(at)
          local ours, theirs = at { indicator = "variance" }[what], at { indicator = above }[what]
          return ours < theirs, ("%.3g against %.3g"):format(ours, theirs)
        end,
      }
    end
    compare("the variance indicator takes less time than the Hessian", "overhead_s", "hessian")
    compare("its plan makes a smaller output error than those of random draws", "output_error", "random")
    if on_disk.knows_loss() then
      compare("its plan raises the loss by less than random draws do", "loss_increase", "random",
        "the papers show it for OPT; the loss of another model may rank layers otherwise, and random draws are five")
    end
  end
end

return M
