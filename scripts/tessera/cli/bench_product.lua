-- `tessera bench 4096x14336`: how fast the kernels multiply with weights of one shape, at each bitwidth, one token (as
-- in decoding) and many (as in a prompt).

local core = require "tessera.core"
local host = require "tessera.host"
local lm = require "tessera.lm"
local on_disk = require "tessera.cli.on_disk"
local terminal = require "tessera.terminal"
local ts = require "tessera"

-- What belongs to models alone.
local of_models = { "context_tokens", "output_tokens", "seed", "method", "int8", "statistics", "kv_bitwidth", "device",
  "symmetric", "granularity", "act_order" }

local function measured(rows, columns, tokens, bitwidth, threads, given)
  local speed = lm.product_speed { rows = rows, columns = columns, tokens = tokens, bitwidth = bitwidth,
    threads = threads, group_size = given.group_size, dtype = given.dtype, repeats = given.repeats,
    activation_bitwidth = bitwidth < 16 and given.activation_bitwidth or nil }
  local middle, low, high = on_disk.spread(speed.product_s)
  if not middle then return nil end
  return { rows = rows, columns = columns, tokens = tokens, bitwidth = bitwidth, threads = threads,
    repeats = #speed.product_s, product_s = middle, product_s_low = low, product_s_high = high,
    weight_bytes = speed.weight_bytes, weight_bytes_per_s = speed.weight_bytes / middle,
    flop_per_s = 2 * rows * columns * tokens / middle }
end

local function time_text(row)
  return ("%s (%s-%s)"):format(core.format_seconds(row.product_s), core.format_seconds(row.product_s_low),
    core.format_seconds(row.product_s_high))
end

local function show(rows, columns, found)
  local lines = {}
  for i, row in ipairs(found) do
    lines[i] = { bits = row.bitwidth, threads = row.threads == 0 and "all" or row.threads, tokens = row.tokens,
      product = time_text(row), ["GB/s"] = row.weight_bytes_per_s / 1e9, ["GFLOP/s"] = row.flop_per_s / 1e9 }
  end
  terminal.say(ts.table(lines, { columns = { "bits", "threads", "tokens", "product", "GB/s", "GFLOP/s" } }))
  terminal.say(terminal.wrapped(("%d outputs, %d inputs; product: median and range of %d repeats; GB/s: of weights, "
    .. "which for one token come from memory; `tessera version --kernels` says which kernels were chosen\n"):format(
      rows, columns, found[1] and found[1].repeats or 0)))
end

--- Prints a row for each bitwidth, number of threads and of tokens; exit status.
return function(rows, columns, given)
  for _, name in ipairs(of_models) do
    if given[name] ~= nil then
      local flag = "--" .. name:gsub("_", "-")
      core.raise("usage", flag .. ": it belongs to a model, and this is a shape", flag)
    end
  end
  local found = {}
  host.poll_interrupts(true)
  local ok, problem = pcall(function()
    for _, bitwidth in ipairs(given.bitwidths or { 3, 4, 8, 16 }) do
      for _, threads in ipairs(given.threads or { 0 }) do
        for _, tokens in ipairs { 1, given.prompt_tokens or 512 } do
          if not host.interrupted() then
            found[#found + 1] = measured(rows, columns, tokens, bitwidth, threads, given)
          end
        end
      end
    end
  end)
  local stopped = host.interrupted()
  host.poll_interrupts(false)
  if not ok then error(problem, 0) end
  if host.json then host.set_result(found) else show(rows, columns, found) end
  return stopped and 130 or 0
end
