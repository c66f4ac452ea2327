-- What the papers' pages say of speed-ups over PipeEdge, by the label of a table's row: "5", "4, short prompts",
-- "mean of 1 to 8". Added to the environment of figure_values.lua.

local llmpq = require "lib.papers.llmpq"

-- The experiment and the clusters of a row.
local function of_row(row)
  local first, last = row:match "^mean of (%d+) to (%d+)$"
  if not first then first, last = row:match "^(%d+)", row:match "^(%d+)" end
  if not first then error(("'%s' names no cluster"):format(row), 0) end
  local clusters = {}
  for i = tonumber(first), tonumber(last) do clusters[#clusters + 1] = "llmpq-" .. i end
  local name = row:find "short prompts" and "llmpq/table7" or tonumber(first) <= 8 and "llmpq/table4" or "llmpq/table5"
  return name, clusters
end

return function(env)
  env.fig3_cell = { device = "P100-12G", model = "opt-30b", bitwidth = 16, prompt_tokens = 512 }
  env.evaluated = {} -- the clusters of LLM-PQ's tables, in Table 10 without the three nodes
  for i = 1, 11 do env.evaluated[i] = "llmpq-" .. i end

  --- The mean speed-up of a planner over PipeEdge, here.
  function env.speedup(row, planner)
    local name, clusters = of_row(row)
    local list = {}
    for i, cluster in ipairs(clusters) do
      list[i] = env.ratio(name, "throughput_tok_s", { cluster = cluster, planner = planner },
        { cluster = cluster, planner = "pipeedge" })
    end
    return env.mean(list)
  end

  --- The same of LLM-PQ in print.
  function env.printed_speedup(row)
    local name, clusters = of_row(row)
    local list = {}
    for i, cluster in ipairs(clusters) do
      list[i] = env.printed(name, "speedup", { cluster = cluster, planner = "llm_pq" })
    end
    return env.mean(list)
  end

  --- How far a speed-up at PipeEdge's quality is from print, in percent.
  function env.gain_difference(row)
    return 100 * math.abs(env.speedup(row, "llm_pq_equal") / env.printed_speedup(row) - 1)
  end

  --- Whether a speed-up is farther from print than the papers' claims allow, to either side.
  function env.is_far(row, planner)
    local factor = env.speedup(row, planner) / env.printed_speedup(row)
    return math.max(factor, 1 / factor) > 1 + llmpq.speedup_tolerance
  end

  --- Omega of PipeEdge's plan and of LLM-PQ's; none for a mean.
  function env.omegas(row)
    local name, clusters = of_row(row)
    if #clusters > 1 then return end
    return env.value(name, "omega", { cluster = clusters[1], planner = "pipeedge" }),
      env.value(name, "omega", { cluster = clusters[1], planner = "llm_pq" })
  end

  --- Median and worst difference of a planner's latencies to print, in percent, and the number of the worst cluster.
  function env.median_and_worst(name, planner, as)
    local list, clusters = env.differences(name, planner, as)
    local worst = env.most(list)
    for i, difference in ipairs(list) do
      if difference == worst then return env.median(list), worst, tonumber(clusters[i]:match "%d+$") end
    end
  end

  --- Our latency over the printed one.
  function env.over_print(name, planner, cluster)
    local where = { cluster = "llmpq-" .. cluster, planner = planner }
    return env.value(name, "latency_s", where) / env.printed(name, "latency_s", where)
  end

  --- By how many percent LLM-PQ's rows of Table 4 are faster than print: the least and the most of these clusters.
  function env.faster_by(...)
    local list = {}
    for i, cluster in ipairs { ... } do list[i] = 100 * (1 - env.over_print("llmpq/table4", "llm_pq", cluster)) end
    return env.least(list), #list > 1 and env.most(list) or nil
  end

  --- Printed latency over ours, least and most over the cells of these planners.
  function env.times_faster(names, planners)
    local list = {}
    for _, name in ipairs(names) do
      for _, row in ipairs(env.rows(name, { planner = planners })) do
        local print = env.printed(name, "latency_s", row.point)
        if print and row.latency_s then list[#list + 1] = print / row.latency_s end
      end
    end
    return env.least(list), env.most(list)
  end

  --- What PipeEdge's plan leaves of the first device's memory, in MB.
  function env.spare_mb(cluster)
    local plan = llmpq.plan("llmpq-" .. cluster, "pipeedge")
    local least
    for _, stage in ipairs(plan.stages) do
      local spare = (stage.memory.capacity_bytes - stage.memory.total_bytes) / 1e6
      least = math.min(least or spare, spare)
    end
    return least
  end

  local table_of = { ["4"] = "llmpq/table4", ["5"] = "llmpq/table5", ["7"] = "llmpq/table7" }

  --- The same, of the table that a row names.
  function env.differences_of(row, planner, as) return env.median_and_worst(table_of[row], planner, as) end

  --- ours / paper - 1 in percent of a column, over all points of an experiment that print has.
  function env.relative(name, column, where)
    local list = {}
    for _, row in ipairs(env.rows(name, where)) do
      local print = env.printed(name, column, row.point)
      if print and row[column] then list[#list + 1] = 100 * (row[column] / print - 1) end
    end
    return list
  end

  --- How far the heuristic of Table 9 is off LLM-PQ's printed latency of a cluster, in whichever table has it (%).
  --- `column`: printed_latency_s for Algorithm 2 as printed.
  function env.heuristic_difference(cluster, column)
    local where = { cluster = "llmpq-" .. cluster, planner = "llm_pq" }
    local print = env.printed("llmpq/table4", "latency_s", where) or env.printed("llmpq/table5", "latency_s", where)
    local ours = env.value("llmpq/table9", column or "latency_s", { cluster = "llmpq-" .. cluster })
    return 100 * (ours / print - 1)
  end

  --- Least and largest throughput of a planner over another one's, on these clusters.
  function env.range_of_gains(name, of, over, clusters)
    local list = {}
    for i, cluster in ipairs(clusters) do
      list[i] = env.ratio(name, "throughput_tok_s", { cluster = cluster, planner = of },
        { cluster = cluster, planner = over })
    end
    return env.least(list), env.most(list)
  end

  --- Shares of prompts by length, in percent: here, or with the name of the published table.
  function env.length_shares(of)
    local list = {}
    for i, range in ipairs { "1-128", "129-512", "513-1024", "1025-2048", "from 2049" } do
      list[i] = 100 * of("llmpq/length_histogram", "share", { prompt_tokens = range })
    end
    return unpack(list)
  end

  --- SplitQuant's Table IV: our rates over the printed ones, of the cells that print has.
  function env.range_of_rates()
    local list = {}
    for _, row in ipairs(env.rows "splitquant/table4") do
      local print = env.printed("splitquant/table4", "throughput_tok_s", row.point)
      if print and row.throughput_tok_s then list[#list + 1] = row.throughput_tok_s / print end
    end
    return env.least(list), env.most(list)
  end

  --- A planner's rate over another one's in that table, here and in print (where SplitQuant stands under exact).
  function env.gain(cluster, of, over)
    local where = { cluster = "splitquant-" .. cluster, mesh = "any" }
    where.planner = of
    local rate = env.value("splitquant/table4", "throughput_tok_s", where)
    where.planner = over
    return rate / env.value("splitquant/table4", "throughput_tok_s", where)
  end

  --- What the model on disk loses by a column of SplitQuant's Table V, if that is the model that ships.
  function env.of_small_model(column, cluster, indicator)
    local named = os.getenv "TESSERA_WEIGHTS"
    if named and named ~= "" then error({ skip = "the model that ships, where TESSERA_WEIGHTS names another" }, 0) end
    return env.value("splitquant/table5", column, { cluster = cluster .. "-scaled", indicator = indicator })
  end

  function env.printed_gain(cluster)
    return env.printed("splitquant/table4", "speedup", { cluster = "splitquant-" .. cluster, planner = "exact" })
  end

  --- The random plan's GPTQ error over that of the plan of measured errors (Table V), least and most over the clusters.
  function env.gains_of_a_measure()
    local list = {}
    for i, cluster in ipairs { "splitquant%-7", "splitquant%-8", "llmpq%-6" } do
      local own, random = env.claim("splitquant/table5",
        "less than the random one's.-cluster=" .. cluster .. " .-GPTQ error ([%d.e+]+) against ([%d.e+]+)")
      list[i] = random / own
    end
    return env.least(list), env.most(list)
  end

  --- What Table V prints that an indicator took (s).
  function env.printed_seconds(cluster, indicator)
    return env.printed("splitquant/table5", "overhead_s", { cluster = "splitquant-" .. cluster, indicator = indicator })
  end
end
