-- How a list of ts.plan_serving reads: what to start, why that, what the others would give, and what was looked at. No
-- line needs more than 80 columns, names of devices as they come.

local core = require "tessera.core"
local no_cpu = require "tessera.devices.no_cpu"
local scopes = require "tessera.serving.scopes"
local solver = require "tessera.solver"

-- "8", or "8/16" where engines of a row differ.
local function values_of(row, field)
  local words, seen = {}, {}
  for _, part in ipairs(row.parts) do
    if not seen[part[field]] then words[#words + 1] = tostring(part[field]) end
    seen[part[field]] = true
  end
  return table.concat(words, "/")
end

local function bits_words(row)
  return ("%s-bit weights, %s-bit KV cache"):format(values_of(row, "bitwidth"), values_of(row, "kv_bitwidth"))
end

-- With so many digits, or whole: never as a power of ten.
local function digits(value, count)
  return value >= 10 ^ (count - 1) and ("%.0f"):format(value) or ("%%.%dg"):format(count):format(value)
end

local function rate_words(row) return ("%.4g req/s"):format(row.rate_per_s) end

-- "TTFT p99 449 ms, TPOT p99 55 ms"
local function latency_words(row)
  local words = {}
  for _, metric in ipairs { "ttft", "tpot" } do
    local seconds = row[metric .. "_p99_s"]
    if seconds then words[#words + 1] = ("%s p99 %s"):format(metric:upper(), core.format_seconds(seconds)) end
  end
  return table.concat(words, ", ")
end

-- What published runs like it say of these figures, or nil.
local function interval_words(row)
  local by_metric, words = {}, {}
  for _, interval in ipairs(row.intervals) do by_metric[interval.metric] = interval end
  local rate = by_metric.request_rate
  if rate then
    words[1] = ("%.3g to %.3g req/s"):format(row.rate_per_s * rate.low_ratio, row.rate_per_s * rate.high_ratio)
  end
  for _, metric in ipairs { "ttft", "tpot" } do
    local interval, seconds = by_metric[metric], row[metric .. "_p99_s"]
    if interval and seconds then
      words[#words + 1] = ("%s %s to %s"):format(metric:upper(), core.format_seconds(seconds * interval.low_ratio),
        core.format_seconds(seconds * interval.high_ratio))
    end
  end
  if #words == 0 then return nil end
  local first = by_metric.tpot or row.intervals[1]
  return ("four of five published runs lay within %s (%s)"):format(table.concat(words, ", "), first.name)
end

local function price_words(row)
  if not row.usd_per_h then return "no USD/h: a device has no price (--usd-per-hour)" end
  return ("%.2f USD/h, %s USD per million output tokens"):format(row.usd_per_h, digits(row.usd_per_million_tokens, 3))
end

-- `published_bits`: those of weights that were published quantised, which there are no better ones of.
local function quality_words(row, published_bits)
  if published_bits == row.bitwidth then return "weights as published" end
  if not row.perplexity_increase then return "nothing is known of its quality" end
  return ("perplexity %+.1f %% (predicted)"):format(100 * row.perplexity_increase)
end

local function is_unlike(part) return part.device:find("+", 1, true) ~= nil end

-- What an engine of a row is, in the words of people who start it.
local function engine_of(part)
  local width = part.tensor_parallel * part.pipeline_parallel
  if width == 1 then return "one " .. part.device end
  return ("%d %s %s"):format(width, is_unlike(part) and "of" or "x", part.device)
end

-- "12 % less", of a rate beside the first row's.
local function beside(row, first) return solver.gain_words(row.rate_per_s / first.rate_per_s) end

-- The first row of one pool whose engines have fewer devices of the same type, or more.
local function other_width(list, wider)
  local first = list[1].parts[1]
  local own = first.tensor_parallel * first.pipeline_parallel
  for i = 2, #list do
    local row, part = list[i], list[i].parts[1]
    local width = part.tensor_parallel * part.pipeline_parallel
    local is_it = wider and width > own or not wider and width < own
    if #row.parts == 1 and part.device == first.device and is_it then return row end
  end
end

-- Why no engine has half as many devices of the part's type, or one.
local function why_not_fewer(list, part)
  if is_unlike(part) then return "no type of these alone serves as much" end
  local width = part.tensor_parallel * part.pipeline_parallel
  for _, fewer in ipairs { width / 2, 1 } do
    local engine = ("%s%s, %d bits"):format(fewer > 1 and ("%dx"):format(fewer) or "", part.device, part.bitwidth)
    for _, refusal in ipairs(list.reasons) do
      if refusal.engine == engine and refusal.missing_bytes then
        return ("%s not hold the model at %d bits, %s are missing%s"):format(fewer > 1 and fewer .. " do" or "one does",
          part.bitwidth, core.format_bytes(refusal.missing_bytes), fewer > 1 and " on each" or "")
      end
      if refusal.engine == engine then
        return ("%s too few: %s"):format(fewer > 1 and fewer .. " are" or "one is", refusal.reason)
      end
    end
  end
  return "fewer serve less"
end

-- Why engines have as many devices as they have.
local function width_words(list)
  local row, part = list[1], list[1].parts[1]
  local width = part.tensor_parallel * part.pipeline_parallel
  if #row.parts > 1 then return nil end
  if width == 1 then
    local wider = other_width(list, true)
    if wider and (list.preference or ""):find(wider.layout, 1, true) == 1 then wider = nil end -- said there
    return ("%s holds the model, so %s alone%s"):format(engine_of(part),
      row.engines > 1 and "each serves" or "it serves",
      wider and ("; %s would serve %s"):format(wider.layout, beside(wider, row)) or "")
  end
  local narrower = other_width(list, false)
  if narrower then
    return ("%s together: %s would serve %s"):format(engine_of(part), narrower.layout, beside(narrower, row))
  end
  return ("%s together: %s"):format(engine_of(part), why_not_fewer(list, part))
end

local function types_words(list)
  local gain = list.gain_of_mixing
  if not gain then return nil end
  if gain <= 1.0005 then return "mixing types of devices gains less than 10 %: the others are left out" end
  local words = ("the best on one type of device, %s, "):format(list.best_homogeneous)
  if list.objective == "gpus" then return words .. ("takes %.3g times as many devices"):format(gain) end
  if list.objective == "cost" then return words .. ("costs %.3g times as much"):format(gain) end
  return words .. ("serves %.3g req/s: mixing serves %s"):format(list[1].rate_per_s / gain, solver.gain_words(gain))
end

local function named(metric) return metric:upper() .. " " end

local function limit_words(row)
  if row.limited_by == "" then return nil end
  local why = row.limited_by:gsub("^(%w+)_s ", named)
  local words = row.high_per_s and ("at %.4g req/s: %s"):format(row.high_per_s, why)
    or ("above %s: %s"):format(rate_words(row), why)
  if row.bitwidth > 4 and row.limited_by:find "wait for KV blocks" then
    words = words .. "; fewer bits leave the KV cache more memory (--bitwidths 4)"
  end
  return words
end

-- What engines that decode have at a time, by Little's law, and what each may have where they are alike.
local function load_words(row)
  local parts, engines = {}, 0
  for _, part in ipairs(row.parts) do
    if part.role ~= "prefill" then parts[#parts + 1], engines = part, engines + part.engines end
  end
  local pool = row.disaggregated and "decode " or ""
  if #parts > 1 then
    return ("about %.0f requests at a time on %d %sengines"):format(math.max(row.running, 1), engines, pool)
  end
  local limits, each = parts[1].engine, row.running / engines
  local load = each < 1 and "less than a request" or each < 1.5 and "about 1 request"
    or ("about %.0f requests"):format(each)
  return ("%s at a time on %s %sengine, of %d; %d tokens a step"):format(load, engines > 1 and "each" or "the", pool,
    limits.max_num_seqs, limits.max_num_batched_tokens)
end

-- The first row, and why.
local function first_lines(list)
  local row, device = list[1], no_cpu(core.cluster(list.options.cluster)) and "GPU" or "device"
  local lines = {
    ("%s (%d %s%s): %s"):format(row.layout, row.gpus, device, row.gpus > 1 and "s" or "", bits_words(row)),
    ("  serves %s, %s"):format(rate_words(row), latency_words(row)),
    ("  %s tok/s per %s, %.3g tok/s per user at that load, %s"):format(digits(row.tok_s_per_gpu, 4), device,
      row.tok_s_per_user, quality_words(row, list.published_bits)),
    "  " .. load_words(row),
    "  " .. price_words(row),
  }
  for _, words in ipairs { interval_words(row) or false, width_words(list) or false, types_words(list) or false,
    list.quality_note or false,
    list.preference or false, row.tokens_note ~= "" and row.tokens_note, limit_words(row) or false,
    list.relief or false,
    row.note ~= "" and row.note } do
    if words then lines[#lines + 1] = "  - " .. words end
  end
  if row.disaggregated then
    lines[#lines + 1] = "  - prefill and decode in pools: needs a proxy in front, and the KV cache goes over a link; "
      .. "no measured run vouches for the rate; aiconfigurator, which takes 10 % off for bubbles and reads "
      .. "prompts one at a time, sees up to 30 % less"
  end
  return lines
end

local function other_lines(list, lines)
  if #list < 2 then return end
  lines[#lines + 1] = "\nOthers:"
  local marks, has = { ["one engine"] = "*", half = "**", whole = "" }, {}
  for i = 2, #list do
    local row = list[i]
    has[row.scope] = true
    lines[#lines + 1] = ("%3d  %s: %s"):format(row.rank, row.layout, bits_words(row))
    local price = row.usd_per_h and (", %.2f USD/h"):format(row.usd_per_h) or ""
    lines[#lines + 1] = ("     %s%s (%s), %s%s"):format(rate_words(row), marks[row.scope], beside(row, list[1]),
      latency_words(row), price)
  end
  for _, scope in ipairs { "one engine", "half" } do
    if has[scope] then lines[#lines + 1] = ("%s %s"):format(marks[scope], scopes[scope]) end
  end
end

local function is_mixed(row)
  return values_of(row, "bitwidth"):find "/" ~= nil or values_of(row, "kv_bitwidth"):find "/" ~= nil
end

-- What has to be known to compare the rows.
local function add_caveats(list, lines)
  local first = list[1]
  for _, row in ipairs(list) do
    if is_mixed(row) then
      lines[#lines + 1] = "perplexity of unlike engines: that of the worst"
      break
    end
  end
  for _, row in ipairs(list) do
    if list.objective == "rate" and first.high_per_s and row.scope ~= "whole" and row.rate_per_s > first.rate_per_s then
      lines[#lines + 1] = ("the first held %.4g req/s and failed at %.4g; what was not simulated whole may hold less "
        .. "than it promises, too"):format(first.rate_per_s, first.high_per_s)
      break
    end
  end
  if list.aggregated_over_disaggregated then
    lines[#lines + 1] = ("rate per device of the best without pools over that of the best with pools: %.2f"):format(
      list.aggregated_over_disaggregated)
  end
end

--- The list as text, all of it or its first.
return function(list, with_others)
  local lines = first_lines(list)
  if with_others ~= false then
    other_lines(list, lines)
    add_caveats(list, lines)
  end
  lines[#lines + 1] = ("\n%d engines and deployments simulated, %d ruled out by their bounds; %s"):format(
    list.simulated, list.bounded, list[1].source)
  return table.concat(lines, "\n") .. "\n"
end
