-- `tessera bench 4096x14336` and `tessera bench --kernel NAME --m --n --k`: how fast the kernels multiply with weights
-- of one shape; of a named kernel also its share of what this machine could do at most.

local core = require "tessera.core"
local flags = require "tessera.cli.flags"
local host = require "tessera.host"
local lm = require "tessera.lm"
local on_disk = require "tessera.cli.on_disk"
local roofline = require "tessera.cli.roofline"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local M = {}

-- What belongs to models alone.
local of_models = { "context_tokens", "output_tokens", "seed", "method", "int8", "statistics", "kv_bitwidth", "device",
  "symmetric", "granularity", "act_order", "batch_size", "heads", "kv_heads", "head_dim" }

-- Bitwidths that each kernel multiplies.
local bitwidths_of = { dense_gemm = { 16 }, dequant_gemm = { 3, 4, 8 }, dequant_gemm_a8 = { 3, 4, 8 },
  int8_gemm = { 8 } }

-- The peak that a product has: a field of measure.rates.
local function peak_of(row)
  if row.kernel == "int8_gemm" then return "int8_flop_per_s" end
  if row.kernel ~= "dequant_gemm_a8" then return "fp32_flop_per_s" end
  return row.bitwidth == 8 and "int8_flop_per_s" or "int4_flop_per_s"
end

-- What is asked for of each product: shape, kernel and versions.
local function read(rows, columns, given)
  for _, name in ipairs(of_models) do
    if given[name] ~= nil then
      local flag = flags.name(name)
      core.raise("usage", flag .. ": it belongs to a model or another kernel, and this is a product", flag)
    end
  end
  local asked = { rows = rows, columns = columns, kernel = given.kernel, tokens = { 1, given.prompt_tokens or 512 },
    isas = given.isa or { "" }, bitwidths = given.bitwidths or { 3, 4, 8, 16 }, threads = given.threads or { 0 } }
  if given.kernel then
    asked.rows, asked.columns, asked.tokens = given.n or 4096, given.k or 4096, { given.m or 1 }
    asked.bitwidths = given.bitwidths or bitwidths_of[given.kernel]
    if given.prompt_tokens then
      core.raise("usage", "--prompt-tokens: --m says how many tokens there are", "--prompt-tokens")
    end
  end
  if asked.isas[1] == "all" then asked.isas = lm.kernel_isas(given.kernel or "dequant_gemm") end
  return asked
end

local function measured(asked, tokens, bitwidth, isa, threads, given)
  local speed = lm.product_speed { rows = asked.rows, columns = asked.columns, tokens = tokens, bitwidth = bitwidth,
    kernel = asked.kernel, isa = isa, threads = threads, group_size = given.group_size, dtype = given.dtype,
    repeats = given.repeats,
    activation_bitwidth = bitwidth < 16 and not asked.kernel and given.activation_bitwidth or nil }
  local middle, low, high = on_disk.spread(speed.product_s)
  if not middle then return nil end
  return { rows = asked.rows, columns = asked.columns, tokens = tokens, bitwidth = bitwidth, threads = threads,
    kernel = speed.kernel, isa = speed.isa, repeats = #speed.product_s, product_s = middle, product_s_low = low,
    product_s_high = high, spread_ratio = (high - low) / middle, nmse = speed.nmse, weight_bytes = speed.weight_bytes,
    token_bytes = speed.token_bytes, weight_bytes_per_s = speed.weight_bytes / middle,
    flop_per_s = 2 * asked.rows * asked.columns * tokens / middle }
end

-- Every combination; what Ctrl-C leaves.
local function all_of(asked, given)
  local found = {}
  for _, bitwidth in ipairs(asked.bitwidths) do
    for _, isa in ipairs(asked.isas) do
      for _, threads in ipairs(asked.threads) do
        for _, tokens in ipairs(asked.tokens) do
          if not host.interrupted() then
            found[#found + 1] = measured(asked, tokens, bitwidth, isa, threads, given)
          end
        end
      end
    end
  end
  return found
end

local function add_roofs(found)
  local bare = {}
  for i, row in ipairs(found) do
    bare[i] = { threads = row.threads, bytes = row.weight_bytes + row.token_bytes, seconds = row.product_s,
      flop = 2 * row.rows * row.columns * row.tokens, kernel = row.kernel, bitwidth = row.bitwidth }
  end
  roofline.add(bare, peak_of)
  for i, row in ipairs(found) do
    for _, name in ipairs { "roofline_s", "bound_by", "roofline_ratio", "memory_bytes_per_s", "peak_flop_per_s" } do
      row[name] = bare[i][name]
    end
  end
end

local function time_text(row)
  return ("%s (%s-%s)"):format(core.format_seconds(row.product_s), core.format_seconds(row.product_s_low),
    core.format_seconds(row.product_s_high))
end

local function show(asked, found)
  local lines = {}
  for i, row in ipairs(found) do
    lines[i] = { bits = row.bitwidth, threads = row.threads == 0 and "all" or row.threads, tokens = row.tokens,
      isa = row.isa, product = time_text(row), ["GB/s"] = row.weight_bytes_per_s / 1e9,
      ["GFLOP/s"] = row.flop_per_s / 1e9,
      roofline = row.roofline_ratio and roofline.text(row) }
  end
  local columns = { "bits", "threads", "tokens", "product", "GB/s", "GFLOP/s" }
  if #asked.isas > 1 then table.insert(columns, 2, "isa") end
  if asked.kernel then columns = { "bits", "isa", "threads", "product", "GB/s", "GFLOP/s", "roofline" } end
  terminal.say(ts.table(lines, { columns = columns }))
  local text = ("%d outputs, %d inputs; product: median and range of %d repeats; GB/s: of weights, which for one token "
    .. "come from memory; `tessera version --kernels` says which kernels were chosen\n"):format(asked.rows,
    asked.columns, found[1] and found[1].repeats or 0)
  if asked.kernel and found[1] then
    local worst = 0
    for _, row in ipairs(found) do worst = math.max(worst, row.nmse) end
    text = ("%s, %d token%s, %s"):format(asked.kernel, asked.tokens[1], asked.tokens[1] == 1 and "" or "s", text)
      .. roofline.legend(found, worst)
  end
  terminal.say(terminal.wrapped(text))
end

--- Prints a row for each bitwidth, version, number of threads and of tokens; exit status. rows, columns: of the
--- weights; nil where --kernel names one with --n and --k.
function M.run(rows, columns, given)
  local asked, found = read(rows, columns, given), nil
  host.poll_interrupts(true)
  local ok, problem = pcall(function()
    found = all_of(asked, given)
    if asked.kernel and #found > 0 and not host.interrupted() then add_roofs(found) end
  end)
  local stopped = host.interrupted()
  host.poll_interrupts(false)
  if not ok then error(problem, 0) end
  if host.json then host.set_result(found) else show(asked, found) end
  return stopped and 130 or 0
end

return M
