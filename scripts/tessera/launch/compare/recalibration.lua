-- What runs of a model on a deployment have said of its prices so far, in a file: ratios of measured to predicted for
-- prefill and decode, each of one run. Their mean corrects the next prediction, their spread is its interval.

local core = require "tessera.core"

local M = {}

local phases = { ttft_s = "prefill", tpot_s = "decode" }

local function is_ratio(value) return type(value) == "number" and value > 0 and value < math.huge end

--- What a file has, for the model of a plan; empty where there is none yet.
function M.read(path, model)
  local state = { format = "tessera-recalibration", version = 1, model = model.name, prefill = {}, decode = {} }
  if core.file_kind(path) ~= "file" then return state end
  local ok, had = pcall(core.from_json, core.read_file(path))
  if not ok or type(had) ~= "table" or had.format ~= state.format or had.version ~= 1 then
    core.refuse(path, "it is none that `tessera compare --recalibrate` wrote; name another file")
  end
  if had.model ~= model.name then
    core.refuse(path, ("it is of %s, the plan is of %s; a file is of one model"):format(tostring(had.model),
      model.name))
  end
  for _, phase in ipairs { "prefill", "decode" } do
    for i, ratio in ipairs(type(had[phase]) == "table" and had[phase] or {}) do
      if not is_ratio(ratio) then core.refuse(path, ("%s[%d] is no ratio above 0"):format(phase, i)) end
      state[phase][i] = ratio
    end
  end
  return state
end

-- Mean factor of a phase, and how far off the worst of three or more is by the others, else their spread; 1 and nil
-- where no run has said anything.
local function factor_of(ratios, fit)
  local fitted = fit(ratios)
  if not fitted then return 1, nil end
  return fitted.factor, fitted.left_out_error or fitted.error
end

--- Corrects a prediction in place. `fit`: of ratios.
function M.apply(state, predicted, fit)
  local prefill, prefill_error = factor_of(state.prefill, fit)
  local decode, decode_error = factor_of(state.decode, fit)
  local answer_s = predicted.e2e_s - predicted.ttft_s
  local total_s = predicted.ttft_s * prefill + answer_s * decode
  predicted.throughput_tok_s = predicted.throughput_tok_s * predicted.e2e_s / total_s
  predicted.ttft_s, predicted.tpot_s, predicted.e2e_s = predicted.ttft_s * prefill, predicted.tpot_s * decode, total_s
  predicted.factors = { ttft_s = prefill, tpot_s = decode }
  local error = math.max(prefill_error or 0, decode_error or 0)
  if error > 0 then predicted.error = error end
end

--- Adds what rows say, which were compared with corrected predictions.
function M.add(state, rows)
  for _, row in ipairs(rows) do
    local phase = phases[row.metric]
    if phase and row.ratio then table.insert(state[phase], row.ratio * (row.factor or 1)) end
  end
end

--- Writes the file.
function M.save(path, state) core.write_file(path, core.to_json(state) .. "\n") end

return M
