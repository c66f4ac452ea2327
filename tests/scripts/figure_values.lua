-- What figures in a text are computed from: stored rows of experiments, published cells, and what is made of them. The
-- names below are what the expressions in the pages' comments may use.

local core = require "tessera.core"
local host = require "tessera.host"
local paper = require "tessera.desk.experiment.paper"
local row_fields = require "tessera.desk.rows"
local store = require "tessera.store"

-- Experiments whose rows the full sweeps of the papers always have.
local function always_there(name) return name:find "^llmpq/" or name:find "^splitquant/" end

local function fits(row, where)
  for key, wanted in pairs(where) do
    local value = row.point[key]
    if value == nil then value = row[key] end
    local found = value == wanted
    for _, choice in ipairs(type(wanted) == "table" and wanted or {}) do found = found or value == choice end
    if not found then return false end
  end
  return true
end

local M = {}

-- Functions of lists of numbers.
local function sorted(list)
  local copy = {}
  for i, value in ipairs(list) do copy[i] = value end
  table.sort(copy)
  return copy
end

function M.median(list)
  local ordered = sorted(list)
  return (ordered[math.floor((#ordered + 1) / 2)] + ordered[math.ceil((#ordered + 1) / 2)]) / 2
end

function M.mean(list)
  local sum = 0
  for _, value in ipairs(list) do sum = sum + value end
  return sum / #list
end

function M.most(list) return sorted(list)[#list] end
function M.least(list) return sorted(list)[1] end

--- The absolute values of all lists, in one.
function M.absolute(...)
  local list = {}
  for _, some in ipairs { ... } do
    for _, value in ipairs(some) do list[#list + 1] = math.abs(value) end
  end
  return list
end

--- An environment over a results file.
function M.environment(path)
  local file, known, papers = store.open(path, { read_only = true }), {}, {}
  local newest = {}
  for _, run in ipairs(file:runs()) do newest[run.experiment] = run end

  local env = {
    median = M.median, mean = M.mean, most = M.most, least = M.least, absolute = M.absolute, abs = math.abs,
    ceil = math.ceil, floor = math.floor, max = math.max, min = math.min, tonumber = tonumber, select = select,
    ipairs = ipairs,
  }

  local function run_of(name)
    local run = newest[name]
    if run then return run end
    if always_there(name) then error(name .. " has not been run", 0) end
    error({ skip = ("%s, which was not run"):format(name) }, 0)
  end

  --- The rows that fit, at least one; where one has no data, the figure is skipped.
  function env.rows(name, where)
    known[name] = known[name] or file:rows(run_of(name).id)
    local found, without_data = {}, { skip = ("data that %s reads, and did not find"):format(name) }
    local is_whole = true
    for _, row in ipairs(known[name]) do
      is_whole = is_whole and row.status ~= "no_data"
      if fits(row, where or {}) then
        if row.status == "no_data" then error(without_data, 0) end
        found[#found + 1] = row
      end
    end
    if #found == 0 then error(is_whole and ("%s has no such rows"):format(name) or without_data, 0) end
    return found
  end

  --- The numbers of a column in the rows that fit, those that have one.
  function env.values(name, column, where)
    local list = {}
    for _, row in ipairs(env.rows(name, where)) do list[#list + 1] = tonumber(row_fields.value(row, column)) end
    return list
  end

  --- Least and largest of a column in the rows that fit.
  function env.range(name, column, where)
    local list = env.values(name, column, where)
    return M.least(list), M.most(list)
  end

  --- The number of the one row that fits.
  function env.value(name, column, where)
    local found = env.rows(name, where)
    if #found ~= 1 then error(("%s: %d rows fit, not one"):format(name, #found), 0) end
    return tonumber(found[1][column]) or error(("%s has no number in %s"):format(name, column), 0)
  end

  --- A column of the row that fits `of` over that of the row that fits `over`.
  function env.ratio(name, column, of, over) return env.value(name, column, of) / env.value(name, column, over) end

  --- How many rows fit.
  function env.count(name, where) return #env.rows(name, where) end

  --- What a table prints: the number in the column of the cell that fits.
  function env.printed(name, column, where)
    papers[name] = papers[name] or paper.load(name .. ".csv").rows
    for _, row in ipairs(papers[name]) do
      if fits(row, where) then return tonumber(row[column]) end
    end
  end

  --- All numbers that a table prints in a column of the cells that fit.
  function env.all_printed(name, column, where)
    env.printed(name, column, {})
    local list = {}
    for _, row in ipairs(papers[name]) do
      if fits(row, where or {}) then list[#list + 1] = tonumber(row[column]) end
    end
    return list
  end

  --- |ours / paper - 1| in percent of a planner's latencies, `as` in print what is compared with; and the clusters.
  function env.differences(name, planner, as, where)
    local list, clusters = {}, {}
    for _, row in ipairs(env.rows(name, { planner = planner })) do
      local print = env.printed(name, "latency_s", { cluster = row.point.cluster, planner = as or planner })
      if row.latency_s and print and fits(row, where or {}) then
        list[#list + 1] = 100 * math.abs(row.latency_s / print - 1)
        clusters[#list] = row.point.cluster
      end
    end
    return list, clusters
  end

  --- The numbers that a Lua pattern captures in the first claim or note (its text and its numbers) that has it.
  function env.claim(name, pattern)
    if newest[name] and #env.rows(name) == 0 then return nil end
    for _, claim in ipairs(run_of(name).claims) do
      local text = (claim.text or "") .. ": " .. (claim.numbers or "")
      local captures = { text:match(pattern) }
      if #captures > 0 then
        for i, capture in ipairs(captures) do captures[i] = tonumber(capture) end
        return unpack(captures)
      end
    end
    error(("%s: no claim has '%s'"):format(name, pattern), 0)
  end

  -- `tessera plan`, whose closing searches end when they are done and not after 0.8 s, so that a busy machine finds the
  -- same.
  local first_plan = [[
    local ts = require "tessera"
    local beside = ts.beside
    ts.beside = function(plan, opt) return beside(plan, { time_limit_s = 60, problem = opt.problem }) end
    require("tessera.cli.plan").main { model = "qwen2.5-32b", cluster = "3xT4-16G+1xV100-32G", batch_size = 32,
      theta = 1 }]]
  local outputs = {}

  --- What the program prints of the first batch: of `tessera plan --model qwen2.5-32b --cluster 3xT4-16G+1xV100-32G
  --- --batch-size 32 --theta 1`.
  function env.plan_text(flag)
    local words = { host.program, "-e", first_plan, flag }
    local key = flag or ""
    if not outputs[key] then
      local status, out, err = host.run_program(words, "")
      if status ~= 0 then error("the first plan: " .. err, 0) end
      outputs[key] = out
    end
    return outputs[key]
  end

  --- What the program prints of a first stream: of `tessera plan --model llama-3.1-8b --cluster 3xT4-16G+1xV100-32G`.
  function env.stream_text()
    local words = { host.program, "plan", "--model", "llama-3.1-8b", "--cluster", "3xT4-16G+1xV100-32G" }
    local status, out, err = host.run_program(words, "")
    if status ~= 0 then error("the first stream: " .. err, 0) end
    return out
  end

  --- The number that a pattern captures in it.
  function env.plan_says(pattern)
    return tonumber(env.plan_text():match(pattern)) or error(pattern .. ": the plan does not say so", 0)
  end

  --- A column of its closing table.
  function env.plan_table(planner, column)
    for _, row in ipairs(core.from_json(env.plan_text "--json").beside) do
      if row.planner == planner then return row[column] end
    end
    error(planner .. " is not beside the plan", 0)
  end

  return env
end

return M
