-- `tessera bench --kernel NAME` for what a decoder has beside products with weights: norms, activations, rotary
-- embedding, log-sum-exp and attention, and how near each is to what this machine could do at most.

local core = require "tessera.core"
local flags = require "tessera.cli.flags"
local host = require "tessera.host"
local lm = require "tessera.lm"
local on_disk = require "tessera.cli.on_disk"
local roofline = require "tessera.cli.roofline"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local M = {}

-- The flags that say a kernel's shape, and what these are there.
local over_rows = { m = "tokens", n = "columns" }
local shape_of = {
  rms_norm = over_rows, layer_norm = over_rows, activate = over_rows, log_sum_exp = over_rows,
  rotate = { m = "tokens", heads = "heads", head_dim = "head_dim" },
  attention = { m = "tokens", heads = "heads", kv_heads = "kv_heads", head_dim = "head_dim", batch_size = "sequences",
    context_tokens = "context_tokens", kv_bitwidth = "kv_bitwidth" },
}
local of_all = { kernel = true, isa = true, threads = true, repeats = true, names = true }

--- Whether a kernel is one of these.
function M.has(kernel) return shape_of[kernel] ~= nil end

-- What is asked for: the options that all rows have, and the text of their shape.
local function read(given)
  local shape, options, words = shape_of[given.kernel], { kernel = given.kernel, repeats = given.repeats }, {}
  local known = {}
  for name in pairs(shape) do known[#known + 1] = flags.name(name) end
  table.sort(known)
  for name, value in pairs(given) do
    if shape[name] then
      options[shape[name]] = value
    elseif not of_all[name] then
      core.raise("usage", ("%s: %s has no such side; its shape is %s"):format(flags.name(name), given.kernel,
        table.concat(known, ", ")), flags.name(name))
    end
  end
  for name, field in pairs(shape) do
    if options[field] then words[#words + 1] = ("%s %d"):format(flags.name(name), options[field]) end
  end
  table.sort(words)
  return options, #words > 0 and table.concat(words, " ") or "the default shape"
end

local function measured(options, isa, threads)
  options.isa, options.threads = isa, threads
  local speed = lm.decoder_kernel_speed(options)
  local middle, low, high = on_disk.spread(speed.call_s)
  if not middle then return nil end
  local row = { threads = threads, isa = speed.isa, repeats = #speed.call_s, seconds = middle, call_s = middle,
    call_s_low = low, call_s_high = high, spread_ratio = (high - low) / middle, nmse = speed.nmse, bytes = speed.bytes,
    flop = speed.flop, bytes_per_s = speed.bytes / middle, flop_per_s = speed.flop / middle }
  for name, value in pairs(options) do row[name] = row[name] or value end
  return row
end

local function all_of(given, options)
  local found, isas = {}, given.isa or { "" }
  if isas[1] == "all" then isas = lm.kernel_isas(given.kernel) end
  for _, isa in ipairs(isas) do
    for _, threads in ipairs(given.threads or { 0 }) do
      if not host.interrupted() then found[#found + 1] = measured(options, isa, threads) end
    end
  end
  return found
end

local function show(given, shape, found)
  local lines, worst = {}, 0
  for i, row in ipairs(found) do
    worst = math.max(worst, row.nmse)
    lines[i] = { isa = row.isa, threads = row.threads == 0 and "all" or row.threads,
      call = ("%s (%s-%s)"):format(core.format_seconds(row.call_s), core.format_seconds(row.call_s_low),
        core.format_seconds(row.call_s_high)), ["GB/s"] = row.bytes_per_s / 1e9,
      ["GFLOP/s"] = row.flop > 0 and row.flop_per_s / 1e9 or nil, roofline = row.roofline_ratio and roofline.text(row) }
  end
  local columns = { "isa", "threads", "call", "GB/s", "roofline" }
  if given.kernel == "attention" then table.insert(columns, 5, "GFLOP/s") end
  terminal.say(ts.table(lines, { columns = columns }))
  if not found[1] or not found[1].roofline_ratio then return end
  terminal.say(terminal.wrapped(("%s at %s; call: median and range of %d repeats; GB/s: read from memory and written\n")
    :format(given.kernel, shape, found[1].repeats) .. roofline.legend(found, worst)))
end

--- Prints a row for each version and number of threads; exit status.
function M.run(given)
  local options, shape = read(given)
  local found
  host.poll_interrupts(true)
  local ok, problem = pcall(function()
    found = all_of(given, options)
    if #found > 0 and not host.interrupted() then
      roofline.add(found, function() return "fp32_flop_per_s" end)
    end
  end)
  local stopped = host.interrupted()
  host.poll_interrupts(false)
  if not ok then error(problem, 0) end
  for _, row in ipairs(found) do row.seconds = nil end
  if host.json then host.set_result(found) else show(given, shape, found) end
  return stopped and 130 or 0
end

return M
