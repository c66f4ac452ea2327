-- What says that traffic has left what a plan was made for, in words that say what to do.

local M = {}

local most_longer = 1.25 -- mean lengths by which a run is no longer what was planned for
local nearly_full = 0.95 -- of the KV cache

local function flags(prompt_tokens, output_tokens)
  return ("--prompt-tokens %.0f --output-tokens %.0f"):format(prompt_tokens, output_tokens)
end

local function has_left(own, planned) return own and math.max(own / planned, planned / own) > most_longer end

--- Remarks on a run; `own`: the lengths that were planned for, where they are known; `predicted`: what the plan says.
function M.of(run, own, predicted)
  local remarks = {}
  local is_known = own.prompt_tokens and own.output_tokens
  if is_known and (has_left(run.prompt_tokens, own.prompt_tokens)
    or has_left(run.output_tokens, own.output_tokens)) then
    local prompt, output = run.prompt_tokens or own.prompt_tokens, run.output_tokens or own.output_tokens
    remarks[1] = ("the traffic has left what was planned for: %.0f prompt and %.0f output tokens a request on average, "
      .. "planned for %.0f and %.0f. `tessera plan` with %s plans for it, `tessera capacity` says how many a second"
      ):format(prompt, output, own.prompt_tokens, own.output_tokens, flags(prompt, output))
  end
  if run.rate_per_s and run.request_per_s and run.request_per_s < 0.95 * run.rate_per_s then
    remarks[#remarks + 1] = ("%.3g requests a second were offered and %.3g answered: more than this deployment holds. "
      .. "`tessera capacity` with --rate %.3g says what does"):format(run.rate_per_s, run.request_per_s,
      run.rate_per_s)
  end
  if (run.waiting or 0) >= 1 then
    remarks[#remarks + 1] = ("%.0f requests wait while %d run: more come than are answered, or the KV cache is full%s. "
      .. "`tessera capacity` with the rate that comes says what holds it"):format(run.waiting,
      predicted.workload.batch_size, run.kv_share and (" (%.0f %% of it is)"):format(run.kv_share * 100) or "")
  elseif (run.kv_share or 0) >= nearly_full then
    remarks[#remarks + 1] = ("%.0f %% of the KV cache is taken; fewer bits for weights or cache, or another GPU, make "
      .. "room"):format(run.kv_share * 100)
  end
  if (run.preemptions or 0) > 0 then
    remarks[#remarks + 1] = ("%.0f requests were preempted and computed again: the KV cache is too small for this "
      .. "load; lower --max-num-seqs, or plan with --kv-bitwidth 8"):format(run.preemptions)
  end
  return remarks
end

return M
