-- Rows of the papers' tables of indicators (SplitQuant's Table V, LLM-PQ's Table 6) for the model on disk: every
-- indicator made, and judged by the truth, itself and by what the model says with the plan that it makes.

local measure = require "lib.quality.measure"
local on_disk = require "lib.papers.indicators_on_disk"
local plan_bitwidths = require "tessera.planning.plan_bitwidths"
local rank = require "lib.rank_correlation"
local scaled_cluster = require "lib.papers.scaled_cluster"
local similar_latency = require "lib.papers.similar_latency"
local summary = require "lib.quality.summary"

local M = {}

-- One indicator against the truth, and its plan of similar latency.
local function judged(own, problem, subject, context)
  local plan, theta = similar_latency.plan(problem:with { indicator = own }, context.quick and 4 or nil)
  local row = measure.row(subject, { plan = plan })
  row.status, row.plan, row.theta, row.omega = plan.status, plan, theta, plan.omega
  row.overhead_s, row.weights_s, row.statistics_s = own.overhead_s, own.weights_s, own.statistics_s
  row.latency_s, row.mean_bitwidth = plan.latency_s, plan.mean_bitwidth
  local truth = on_disk.truth(subject, context.output_dir)
  row.output_error = on_disk.lost(plan_bitwidths(plan), truth.output_error)
  row.spearman = on_disk.agreement(own, truth.output_error, rank.spearman)
  row.kendall = on_disk.agreement(own, truth.output_error, rank.kendall)
  row.spearman_kl = on_disk.agreement(own, truth.divergence, rank.spearman)
  return row
end

local num_draws, num_quick_draws = 5, 2

-- Means over the draws, and the standard deviation of the divergence between them.
local function mean_of(rows)
  local mean = { status = rows[1].status, plan = rows[1].plan, num_draws = #rows }
  for name, first in pairs(rows[1]) do
    if type(first) == "number" then mean[name] = summary.mean(rows, name) end
  end
  mean.kl_sd = summary.deviation(rows, "kl_nats")
  return mean
end

-- Both papers' batch of their own backend, or as much of it as the model can attend to.
local function workload_of(model)
  local prompt_tokens = math.min(512, math.floor(0.75 * model.max_context_tokens))
  local output_tokens = math.min(100, model.max_context_tokens - prompt_tokens)
  return { batch_size = 32, prompt_tokens = prompt_tokens, output_tokens = output_tokens }
end

--- The row of an indicator on a paper's cluster, cut down to the size of the model, or nil and why there is no model.
--- Random draws are several, of the context's seed and those after it.
function M.row(name, cluster, context)
  local subject, why = on_disk.subject(context.quick)
  if not subject then return nil, why end
  local problem, share = scaled_cluster.problem {
    cluster = cluster, model = subject.model, workload = workload_of(subject.model), bitwidths = on_disk.bitwidths,
    preset = "llm-pq", objective = "steady", theta_unit = "s_per_normalised_omega", theta = 0,
  }
  local rows = {}
  local draws = context.quick and num_quick_draws or num_draws
  for draw = 1, name == "random" and draws or 1 do
    local own = on_disk.make(name, subject, context.output_dir, context.seed + draw - 1)
    rows[draw] = judged(own, problem, subject, context)
  end
  local row = #rows > 1 and mean_of(rows) or rows[1]
  row.model, row.memory_share = on_disk.name, share
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

--- Why the columns that are measured are empty in the rows of one of the papers' models.
function M.not_measured(model) return ("quality is not measured: no weights of %s are on disk"):format(model) end

--- Columns of the papers' tables of indicators.
M.columns = {
  "model", "perplexity", "perplexity_increase", "loss_increase_nats", "loss_increase_se", "kl_nats", "kl_se", "kl_sd",
  "num_tokens", "overhead_s", "weights_s", "statistics_s", "spearman", "spearman_kl", "theta", "latency_s",
  "mean_bitwidth", "omega", "gptq_error", "output_error", "memory_share", "note",
}

--- A list of notes, and after them those on the rows of the model on disk.
function M.notes_and(notes)
  local list = measure.notes_and(notes)
  list[#list + 1] = ("model on disk: %s, on clusters whose GPUs keep the share memory_share of what they can use: the "
    .. "least in which 5 bits a layer fit"):format(on_disk.name)
  list[#list + 1] = "overhead_s: of the indicator, without making the statistics; of it weights_s and statistics_s"
  list[#list + 1] = "spearman, spearman_kl: order of its layers against the error of their outputs and against the "
    .. "divergence with one layer quantised (2 pieces of 128 tokens), mean over the bitwidths where it is not noise"
  list[#list + 1] = "output_error: of the plan's bitwidths, summed over the layers; random: means over 5 draws (2 in a "
    .. "quick run), kl_sd the standard deviation of kl_nats between them"
  return list
end

local other_models = "the papers show it for OPT; another model may rank layers otherwise, and random draws are five"

--- The claims on the rows of the model on disk. Their bounds were chosen before these columns were measured.
function M.expect(t, clusters)
  for _, cluster in ipairs(clusters) do
    local function compare(text, what, least, above)
      t:expect_that {
        text = text, where = { cluster = M.scaled(cluster), indicator = { "variance", above } },
        may_differ = what == "kl_nats" and other_models or nil,
        holds = function(at)
          local ours, theirs = at { indicator = "variance" }[what], at { indicator = above }[what]
          return ours >= least * theirs and ours < theirs, ("%.3g against %.3g"):format(ours, theirs)
        end,
      }
    end
    compare("the variance indicator takes less time than the Hessian", "overhead_s", 0, "hessian")
    compare("its plan makes 0.02 to 1 of the output error of random draws' plans", "output_error", 0.02, "random")
    compare("its plan diverges by 0.1 to 1 of what random draws' plans do", "kl_nats", 0.1, "random")
    compare("its plan diverges by 0.1 to 1 of what the plan of a constant indicator does", "kl_nats", 0.1, "constant")
    t:expect_all {
      column = "kl_nats", at_least = 0.0005, at_most = 3, where = { cluster = M.scaled(cluster) },
    }
  end
end

return M
