-- The page of ts.execute's run: what was predicted beside what was measured, what each stage did, and the answers.

local core = require "tessera.core"
local html = require "tessera.desk.report.html"
local of_plan = require "tessera.desk.page.of_plan"
local pictures = require "tessera.desk.report.pictures"
local plot = require "tessera.desk.plot"
local rows_table = require "tessera.desk.page.rows_table"

local h = html.h
local M = {}

local measures = { { "total", "total_s" }, { "first token", "ttft_s" }, { "decode round", "decode_round_s" } }

local function compared(run)
  local rows, bars = {}, {}
  for i, measure in ipairs(measures) do
    local predicted, measured = run.predicted and run.predicted[measure[2]], run[measure[2]]
    rows[i] = { time = measure[1], predicted_s = predicted, measured_s = measured,
      error_percent = predicted and measured and 100 * (predicted / measured - 1) }
    bars[#bars + 1] = { time = measure[1], of = "predicted", time_s = predicted }
    bars[#bars + 1] = { time = measure[1], of = "measured", time_s = measured }
  end
  return rows, bars
end

local function facts(run, answered)
  return html.facts {
    { "state", run.state }, { "why", run.why ~= "" and run.why or nil },
    { "prompts", ("%d of %d answered"):format(answered, #run.requests) },
    { "took", core.format_seconds(run.total_s) },
    { "output", run.throughput_tok_s and ("%.4g tok/s"):format(run.throughput_tok_s) },
    { "workers ready after", run.load_s and core.format_seconds(run.load_s) }, { "hidden states by", run.transport },
    { "faults", run.faults and #run.faults > 0 and #run.faults or nil }, { "predictions are", run.provenance },
    { "not predicted", run.not_predicted },
  }
end

local function requests_of(run)
  local rows, answered = {}, 0
  for i, request in ipairs(run.requests) do
    answered = answered + (request.tokens and 1 or 0)
    rows[i] = { request = request.index, output_tokens = request.tokens and #request.tokens, answer = request.text }
    for _, name in ipairs { "stop_reason", "ttft_s", "tpot_s", "e2e_s" } do rows[i][name] = request[name] end
  end
  return rows, answered
end

--- { title, summary, sections } of a run; `also`: its plan.
function M.page(run, also)
  local requests, answered = requests_of(run)
  local rows, bars = compared(run)
  local made = plot { kind = "bars", rows = bars, x = "time", y = "time_s", by = "of", log_y = true }
  local problem = also.plan and also.plan:problem()
  local sections = {
    h("section", nil, h("h2", nil, "Predicted and measured"), facts(run, answered),
      run.total_s > 0 and pictures.of_plot(made, "Predicted and measured times"),
      rows_table("compared", "predicted and measured", rows, { "time", "predicted_s", "measured_s", "error_percent" })),
    h("section", nil, h("h2", nil, "Stages"), rows_table("stages", "stages", run.stages, { "engine", "stage",
      "tensor_rank", "first_layer", "num_layers", "load_s", "weight_bytes", "kv_cache_bytes", "resident_bytes",
      "peak_bytes", "sent_bytes", "idle_ratio" }, "measured")),
  }
  if also.plan then
    sections[#sections + 1] = of_plan.map(also.plan, problem) or nil
    sections[#sections + 1] = of_plan.pipeline(also.plan, problem)
  end
  sections[#sections + 1] = h("section", nil, h("h2", nil, "Answers"),
    rows_table("answers", "answers", requests, { "request", "stop_reason", "ttft_s", "tpot_s", "e2e_s",
      "output_tokens", "answer" }, "measured"))
  return {
    title = problem and "Run of " .. problem.name or "Run of a plan", sections = sections,
    summary = ("%d of %d prompts answered in %s"):format(answered, #run.requests, core.format_seconds(run.total_s)),
  }
end

return M
