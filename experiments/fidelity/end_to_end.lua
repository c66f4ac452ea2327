-- Steps of whole servers, predicted against what others published of them: decode steps at low load, first tokens
-- without a queue, batches of long prompts; eleven GPUs, TP 1 to 8, dense models and experts. No row is fitted to
-- itself; the host's share of a step is fitted to the rows with `fitted`, which are left out of the claims.
local ts = require "tessera"

local quantile = require "fidelity.fit.errors".quantile
local rows, why = require "fidelity.fit.end_to_end".rows()

-- Set before looking: what an engineer would still plan by.
local most_median, most_p90, least_rows = 0.10, 0.25, 60

local points = {}
for i = 1, #(rows or {}) do points[i] = { row = i } end

local predict = {}

local function planned(row)
  local plan, problem = ts.plan({
    model = row.model, cluster = row.cluster, kernel_set = row.kernel_set, bitwidths = { row.bitwidth },
    tensor_parallel = { row.tensor_parallel },
    workload = { batch_size = row.batch_size, prompt_tokens = row.prompt_tokens, output_tokens = row.output_tokens },
  }, { prefill_micro_batch_size = 1, decode_micro_batch_size = row.batch_size })
  if not plan then error(problem, 0) end
  return plan
end

predict["decode step"] = function(row)
  local plan = planned(row)
  return plan.stages[1].decode_s, plan
end

predict["first token"] = function(row)
  local plan = planned(row)
  return plan.stages[1].prefill_s, plan
end

predict["long prompts"] = function(row)
  local plan = planned(row)
  return ts.simulate(plan).throughput_tok_s, plan
end

local function held_out(t)
  local found = {}
  for _, row in ipairs(t:rows {}) do
    if row.error_ratio and not row.fitted then found[#found + 1] = row end
  end
  return found
end

local function errors_of(found)
  local errors = {}
  for i, row in ipairs(found) do errors[i] = math.abs(row.error_ratio) end
  table.sort(errors)
  return errors
end

return ts.experiment {
  name = "fidelity/end_to_end",
  doc = "Decode steps, first tokens and throughput of published runs of whole servers, predicted",
  grid = #points > 0 and points or { { row = 1 } },
  columns = { "run", "model", "kind", "version", "measured", "predicted", "error_ratio", "provenance", "fitted" },

  run = function(point)
    if why then return { status = why.code, message = why.message } end
    local row = rows[point.row]
    local predicted, plan = predict[row.kind](row)
    return {
      run = row.run, model = row.model, kind = row.kind, version = row.version, measured = row.measured,
      predicted = predicted, error_ratio = predicted / row.measured - 1, provenance = plan.provenance,
      fitted = row.fitted,
    }
  end,

  check = function(t)
    if why then return t:skip("not checked: " .. why.message) end
    local found = held_out(t)
    local errors = errors_of(found)
    if #errors == 0 then return end
    local median, p90 = quantile(errors, 0.5), quantile(errors, 0.9)
    t:expect(("at least %d figures that nothing was fitted to"):format(least_rows), #errors >= least_rows,
      ("%d"):format(#errors))
    t:expect(("their median error is at most %g %%"):format(100 * most_median), median <= most_median,
      ("%.1f %%"):format(100 * median))
    table.sort(found, function(a, b) return math.abs(a.error_ratio) > math.abs(b.error_ratio) end)
    local farthest = {}
    for i = 1, math.min(5, #found) do
      local row = found[i]
      farthest[i] = ("%+.0f %% (%s, %s, %s)"):format(100 * row.error_ratio, row.model, row.run, row.version)
    end
    t:expect(("nine of ten are within %g %%"):format(100 * most_p90), p90 <= most_p90,
      ("%.1f %%; the five farthest off are %s"):format(100 * p90, table.concat(farthest, "; ")))
  end,
  plots = { { kind = "scatter", x = "measured", y = "predicted", by = "kind", log_x = true, log_y = true } },
}
