-- SplitQuant's custom backend as its Sec. VI-A sets it up: which model a cluster serves, with which kernels and memory
-- model. The scripts of experiments/splitquant share it.

local assumptions = require "tessera.desk.experiment.assumptions"
local core = require "tessera.core"
local llmpq = require "lib.papers.llmpq"
local paper = require "tessera.desk.experiment.paper"
local solver = require "tessera.solver"

local M = {}

--- The model that a cluster serves in Tables V, VI and Fig. 11, by cluster: "splitquant-5" to "splitquant-9".
M.model_of = {}
for _, row in ipairs(paper.load("splitquant/models.csv").rows) do M.model_of[row.point.cluster] = row.model end

--- The custom backend is LLM-PQ's, and so are its numbers: Tables V and VI and Figs. 3 and 5 are reprints.
M.kernel_set = llmpq.kernel_set

--- Why prefill takes less of a V100's time in INT8 than the text of Fig. 3 says.
M.int8_share_reason = llmpq.int8_share_reason

--- What every table of the custom backend says of itself, before its own notes.
M.notes = {
  "kernel set " .. M.kernel_set .. " (July and August 2023, when LLM-PQ's tables, reprinted here, were measured), "
    .. "memory preset llm-pq, objective steady, the constant indicator (the same for every layer)",
  "batches of 32 and prompts of 512 tokens as in the paper, 100 tokens out as in LLM-PQ: the paper has no number",
}

--- Notes of one table, after those of all.
function M.notes_and(...) return { M.notes[1], M.notes[2], ... } end

--- The problem of a cluster with the paper's settings and theta 1 s per normalised omega, or a quality floor;
--- `changes` replaces some of them.
function M.problem(cluster, changes)
  local given = {
    preset = "splitquant", model = M.model_of[cluster], cluster = cluster, workload = "splitquant-custom",
  }
  for key, value in pairs(changes or {}) do given[key] = value end
  if not given.model then
    core.raise("invalid_argument", ("SplitQuant serves nothing on '%s'"):format(tostring(cluster)),
      "lib.papers.splitquant")
  end
  if not given.theta and not given.quality then given.theta = 1 end
  return solver.problem(assumptions.apply(given))
end

--- The columns that all of them have, of what ts.plan returned for a problem.
function M.row(problem, plan, why)
  if not plan then return { status = why.code, model = problem.model.name } end
  return {
    status = plan.status, model = problem.model.name, plan = plan, throughput_tok_s = plan.throughput_tok_s,
    latency_s = plan.latency_s, mean_bitwidth = plan.mean_bitwidth, omega = plan.omega,
  }
end

return M
