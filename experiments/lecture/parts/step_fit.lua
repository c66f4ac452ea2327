-- What a step of a model takes on this machine, as ts.deployment's step_cost has it: fitted by least squares to the
-- steps of runs that serve nothing else. Terms that come out negative are left out.
local M = {}

local names = { "base_s", "per_token_s", "per_sequence_s", "per_context_token_s" }

-- Of each step its time and { 1, new tokens, requests, tokens in their KV caches before it }.
local function add_rows(served, rows)
  local computed = {}
  for _, step in ipairs(served:steps()) do
    local tokens, context = 0, 0
    for _, part in ipairs(step.scheduled) do
      tokens = tokens + part.tokens
      context = context + (computed[part.request] or 0)
      computed[part.request] = (computed[part.request] or 0) + part.tokens
    end
    if #step.scheduled > 0 then rows[#rows + 1] = { step.duration_s, { 1, tokens, #step.scheduled, context } } end
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

--- @param runs table[] what ts.serve returned
--- @return table step_cost
function M.of(runs)
  local rows, used = {}, { 1, 2, 3, 4 }
  for _, served in ipairs(runs) do add_rows(served, rows) end
  while true do
    local x, worst = fit(rows, used), nil
    for i in ipairs(used) do if x[i] < 0 and (not worst or x[i] < x[worst]) then worst = i end end
    if not worst then
      local cost = {}
      for i, p in ipairs(used) do cost[names[p]] = x[i] end
      return cost
    end
    table.remove(used, worst)
  end
end

return M
