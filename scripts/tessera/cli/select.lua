-- `tessera select`: ways to deploy a model that answers one request at a time, ranked by an intent, where the best
-- goes, what was passed over and why, and beside it what a server with continuous batching would do.

local core = require "tessera.core"
local device_types = require "tessera.planning.device_types"
local grouped = require "tessera.grouped"
local host = require "tessera.host"
local stream = require "tessera.cli.stream"
local taken = require "tessera.cli.taken"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local M = {}

local GiB = 2 ^ 30

-- By aim, and by limit: in words, and how a value is written.
local words = {
  latency = "least time", cost = "least cost (memory x time)", memory = "least memory",
  gpu_hours = "least GPU time", usd = "fewest dollars",
}
local written = {
  latency_s = core.format_seconds, memory_bytes = core.format_bytes,
  gpu_s = function(s) return ("%.4g GPU s"):format(s) end, usd = function(usd) return ("%.3g USD"):format(usd) end,
}

local function asked(given)
  return {
    model = given.model, cluster = taken.cluster(given), kernel_set = given.kernel_set, policy = given.policy,
    account = given.account, prompt_tokens = given.prompt_tokens, output_tokens = given.output_tokens,
    intent = {
      minimise = given.minimise, latency_s = given.latency, gpu_s = given.gpu_s, usd = given.usd,
      memory_bytes = given.memory_gib and given.memory_gib * GiB,
      max_perplexity_increase = given.max_perplexity_increase,
    },
  }
end

local function percent(ratio)
  local value = 100 * ratio
  if math.abs(value) < 0.05 then return "0" end
  return (math.abs(value) < 9.95 and "%.1f" or "%.0f"):format(value)
end

-- "2.8 (0.9 to 5) %", "none" of 16 bits, "unknown" where nobody measured it.
local function quality_words(increase)
  if not increase then return "unknown" end
  if increase.high < 5e-4 then return "none" end
  return ("%s (%s to %s) %%"):format(percent(increase.mid), percent(increase.low), percent(increase.high))
end

-- "0-3" of neighbours, else "0,2".
local function numbers(list)
  local sorted = { unpack(list) }
  table.sort(sorted)
  local apart = sorted[#sorted] - sorted[1]
  if #sorted > 1 and apart == #sorted - 1 then return ("%d-%d"):format(sorted[1], sorted[#sorted]) end
  return table.concat(sorted, ",")
end

local form = "%4s %-13s %2s %2s %6s %6s %6s %7s %5s  %s\n"

-- "A100-80G + 2 x T4-16G" of the GPUs of a row.
local function types_text(row)
  local counts, names = {}, {}
  for _, name in ipairs(row.device_types) do
    if not counts[name] then names[#names + 1] = name end
    counts[name] = (counts[name] or 0) + row.tensor_parallel
  end
  for i, name in ipairs(names) do names[i] = counts[name] == 1 and name or ("%d x %s"):format(counts[name], name) end
  return table.concat(names, " + ")
end

local function row_text(row, placed, mixed)
  return form:format((row.meets and "" or "*") .. row.rank, row.scheme, row.tensor_parallel, row.pipeline_parallel,
    ("%.2f"):format(row.latency_s), ("%.1f"):format(row.memory_bytes / GiB), ("%.4g"):format(row.cost_byte_s / GiB),
    row.usd and ("%.3g"):format(1000 * row.usd) or "-", placed and numbers(placed.devices) or "none",
    quality_words(row.perplexity_increase) .. (mixed and ", on " .. types_text(row) or ""))
end

local function is_mixed(found) return #device_types(found.cluster) > 1 end

-- Each as if it were alone on the GPUs.
local function table_text(found, top)
  local ranked = found.ranked
  local lines = { form:format("", "scheme", "TP", "PP", "s", "GiB", "GiB s", "USD/1k", "GPUs", "perplexity above") }
  for i = 1, math.min(top, #ranked) do
    lines[#lines + 1] = row_text(ranked[i], (found.placed_of { ranked[i] }), is_mixed(found))
  end
  if #ranked > top then lines[#lines + 1] = ("    and %d more (--top, --json)\n"):format(#ranked - top) end
  return table.concat(lines)
end

-- "time at most 2 s, at most 0.01 USD"
local function limit_words(limits)
  local list = {}
  for _, field in ipairs { "latency_s", "memory_bytes", "gpu_s", "usd" } do
    if limits[field] then list[#list + 1] = "at most " .. written[field](limits[field]) end
  end
  return table.concat(list, ", ")
end

-- Rows that break a limit are marked; where all do, what is missing to the nearest.
local function limits_text(found)
  local first, limits = found.ranked[1], found.intent.limits
  if not first or not next(limits) then return "" end
  local met = 0
  for _, row in ipairs(found.ranked) do
    if row.meets then met = met + 1 end
  end
  if met == #found.ranked then return "" end
  if met > 0 then return ("* breaks a limit, as %d of %d do.\n"):format(#found.ranked - met, #found.ranked) end
  local over = {}
  for field, limit in pairs(limits) do
    if written[field] and first[field] > limit then
      over[#over + 1] = ("%s for %s"):format(written[field](first[field]), written[field](limit))
    end
  end
  table.sort(over)
  return ("* Nothing keeps the limits. The nearest is the first, %.2f times beyond: %s.\n"):format(first.excess,
    table.concat(over, ", "))
end

local function placed_text(found)
  local placed = found.placed
  if not placed then return found.why.message .. "\n" end
  local row, stages = placed.configuration, {}
  local degree, mixed = row.tensor_parallel, is_mixed(found)
  for k, layers in ipairs(placed.layers) do
    local members = {}
    for i = 1, degree do members[i] = placed.devices[(k - 1) * degree + i] end
    stages[k] = ("%d layers on GPU %s%s, %s each"):format(layers, numbers(members),
      mixed and (" (%s)"):format(row.device_types[k]) or "",
      core.format_bytes(layers * (placed.stage_block_bytes and placed.stage_block_bytes[k] or placed.block_bytes)))
  end
  return ("Goes to: rank %d, %s, TP %d, PP %d: %s%s.\n"):format(placed.rank, row.scheme, row.tensor_parallel,
    row.pipeline_parallel, table.concat(stages, "; "), placed.even and "" or ", unevenly")
end

local reasons = {
  no_room = "no room", too_few_gpus = "too few GPUs", too_many_stages = "more stages than layers",
}

-- "Passed over: 2 for no room. Cannot run: 15 (kernel set ...); ..."
local function passed_text(found)
  local lines = {}
  local why = found.placed and found.placed.reasons or found.why.reasons
  for _, group in ipairs(grouped(why, function(code) return code end)) do
    lines[#lines + 1] = ("Passed over: %d, %s.\n"):format(#group, reasons[group[1]] or group[1])
  end
  for _, group in ipairs(grouped(found.refused, function(row) return row.refused end)) do
    lines[#lines + 1] = ("Cannot run: %d, as %s (%d, %d): %s.\n"):format(#group, group[1].scheme,
      group[1].tensor_parallel, group[1].pipeline_parallel, group[1].refused)
  end
  for _, group in ipairs(grouped(found.left_out, function(shape) return shape.why end)) do
    local shapes = {}
    for i, shape in ipairs(group) do shapes[i] = ("%d x %d"):format(shape.tensor_parallel, shape.pipeline_parallel) end
    lines[#lines + 1] = ("Left out: TP x PP %s: %s.\n"):format(table.concat(shapes, ", "), group[1].why)
  end
  return table.concat(lines)
end

-- What batching gets: requests a second of the best server, and those of the placed configuration.
local function batching(found, given)
  local row, why = stream.best { model = given.model, cluster = given.cluster, prompt_tokens = given.prompt_tokens,
    output_tokens = given.output_tokens, usd_per_hour = given.usd_per_hour }
  local alone = found.placed and 1 / found.placed.configuration.latency_s or nil
  if not row then return { why = why, rate_per_s_alone = alone } end
  return { layout = row.layout, bitwidth = row.bitwidth, rate_per_s = row.rate_per_s, rate_per_s_alone = alone }
end

local function batching_text(beside)
  local alone = beside.rate_per_s_alone and ("%.3g requests a second at most, one after the other"):format(
    beside.rate_per_s_alone) or "nothing fits"
  if not beside.layout then return ("Beside it (%s) a batching server: %s.\n"):format(alone, beside.why) end
  return ("This answers %s. A server with continuous batching on the same GPUs: %s at %d bits, %.4g req/s "
    .. "(`tessera capacity`; --no-beside leaves it out).\n"):format(alone, beside.layout, beside.bitwidth,
      beside.rate_per_s)
end

local function head_text(found, given)
  local limits = limit_words(found.intent.limits)
  local bound = given.max_perplexity_increase
    and (", perplexity at most %+.3g %%"):format(100 * given.max_perplexity_increase) or ""
  return ("%s on %s, one request at a time: %d prompt and %d output tokens, %s%s%s; kernel set %s\n"):format(
    found.model.name, found.cluster.name, given.prompt_tokens, given.output_tokens, words[found.intent.minimise],
    limits ~= "" and ", " .. limits or "", bound, given.kernel_set)
end

local function as_data(found, beside)
  return {
    model = found.model.name, cluster = found.cluster.name, minimise = found.intent.minimise,
    limits = found.intent.limits, ranked = found.ranked, refused = found.refused, left_out = found.left_out,
    placed = found.placed, why = found.why and found.why.message, batching = beside,
  }
end

--- @param given table the flags
function M.main(given)
  given.prompt_tokens, given.output_tokens = given.prompt_tokens or 512, given.output_tokens or 100
  given.kernel_set, given.top = given.kernel_set or "modern", given.top or 10
  local found = ts.select(asked(given))
  if not host.json then
    terminal.say(terminal.wrapped(head_text(found, given)) .. "\n" .. table_text(found, given.top)
      .. terminal.wrapped(limits_text(found) .. "\n" .. placed_text(found) .. passed_text(found)))
  end
  local beside = given.beside ~= false and batching(found, given) or nil
  if host.json then
    host.set_result(as_data(found, beside))
  else
    terminal.say(terminal.wrapped((beside and batching_text(beside) or "")
      .. taken.text(found.model, found.cluster) .. taken.prices(found.cluster)))
  end
  return found.placed and 0 or 3
end

return M
