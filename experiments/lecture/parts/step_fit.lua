-- What a step of a model takes on this machine, as ts.deployment's step_cost has it: fitted by least squares to the
-- steps of runs that serve nothing else. Terms that come out negative are left out. A row that logits are wanted of
-- goes through the LM head and is drawn from, a token of a prompt does not: so a verified draft costs more than that.
local M = {}

--- What each step of a run computed, without preemption: of each request in it the new tokens, how many were in its
--- KV cache before, whether its prompt was through before (`decodes`) and is after it (`samples`), and its drafts.
--- @return table[][]
function M.loads(served)
  local computed, prompts, loads = {}, served:prompts(), {}
  for i, request in ipairs(served:requests()) do computed[i] = request.cached_tokens end
  for i, step in ipairs(served:steps()) do
    local verified = {}
    for _, part in ipairs(step.verified) do verified[part.request] = part end
    loads[i] = {}
    for k, part in ipairs(step.scheduled) do
      local at, drafts = part.request + 1, verified[part.request] or { drafts = 0, accepted = 0 }
      local before, prompt = computed[at], #prompts[part.request + 1]
      loads[i][k] = { tokens = part.tokens, context = before, decodes = before >= prompt,
        samples = before + part.tokens >= prompt, drafts = drafts.drafts, accepted = drafts.accepted }
      computed[at] = before + part.tokens - drafts.drafts + drafts.accepted
    end
  end
  return loads
end

-- Of each step its time and { 1, new tokens, rows with logits, tokens in the KV caches before it }.
local function add_rows(served, rows)
  local steps = served:steps()
  for i, loads in ipairs(M.loads(served)) do
    local tokens, context, sampled = 0, 0, 0
    for _, load in ipairs(loads) do
      tokens, context = tokens + load.tokens, context + load.context
      if load.samples then sampled = sampled + 1 + load.drafts end
    end
    if #loads > 0 then rows[#rows + 1] = { steps[i].duration_s, { 1, tokens, sampled, context } } end
  end
end

-- Solves A x = b by elimination with pivots; a term that nothing tells apart from others is 0.
local function solve(a, b)
  local n, x = #b, {}
  for i = 1, n do
    local best = i
    for k = i + 1, n do if math.abs(a[k][i]) > math.abs(a[best][i]) then best = k end end
    a[i], a[best], b[i], b[best] = a[best], a[i], b[best], b[i]
    for k = i + 1, n do
      local factor = a[i][i] ~= 0 and a[k][i] / a[i][i] or 0
      for j = i, n do a[k][j] = a[k][j] - factor * a[i][j] end
      b[k] = b[k] - factor * b[i]
    end
  end
  for i = n, 1, -1 do
    local sum = b[i]
    for j = i + 1, n do sum = sum - a[i][j] * x[j] end
    x[i] = math.abs(a[i][i]) > 1e-12 and sum / a[i][i] or 0
  end
  return x
end

-- Steps count alike, long ones too: what is predicted are means, and a machine that does other things has steps that
-- take many times the usual.
local function fit(rows, used)
  local a, b = {}, {}
  for i, p in ipairs(used) do
    a[i], b[i] = {}, 0
    for j in ipairs(used) do a[i][j] = 0 end
    for _, row in ipairs(rows) do
      for j, q in ipairs(used) do a[i][j] = a[i][j] + row[2][p] * row[2][q] end
      b[i] = b[i] + row[2][p] * row[1]
    end
  end
  return solve(a, b)
end

--- @param runs table[] what ts.serve returned, of a model that ran, with its steps
--- @return function step_cost
function M.of(runs)
  local rows, used = {}, { 1, 2, 3, 4 }
  for _, served in ipairs(runs) do add_rows(served, rows) end
  while true do
    local x, worst = fit(rows, used), nil
    for i in ipairs(used) do if x[i] < 0 and (not worst or x[i] < x[worst]) then worst = i end end
    if not worst then
      local cost = { 0, 0, 0, 0 }
      for i, p in ipairs(used) do cost[p] = x[i] end
      return function(step)
        return cost[1] + cost[2] * step.tokens + cost[3] * step.num_sampled + cost[4] * step.context_tokens
      end
    end
    table.remove(used, worst)
  end
end

return M
