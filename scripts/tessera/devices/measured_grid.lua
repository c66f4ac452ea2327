-- The points of ts.measure_profile, and what one that was timed says in the schema of samples (tessera man profiles).

local core = require "tessera.core"
local sheet = require "tessera.desk.sheet"

local M = {}

local known_bitwidths = { [3] = true, [4] = true, [8] = true, [16] = true }

--- Refuses lists that are empty, and bitwidths that no kernel has.
function M.check(opt, path)
  for _, name in ipairs { "bitwidths", "batch_sizes", "prompt_tokens", "context_tokens" } do
    if #opt[name] == 0 then core.refuse(path .. "." .. name, "the list is empty") end
  end
  for _, bitwidth in ipairs(opt.bitwidths) do
    if not known_bitwidths[bitwidth] then
      core.raise("out_of_range", ("%s.bitwidths: %d is none of 3, 4, 8 and 16 bits"):format(path, bitwidth),
        path .. ".bitwidths")
    end
  end
end

--- Passes through layers: prompts whole and, of the longest contexts, a later piece; then steps of decode. Those beyond
--- the model's context or `max_rows` are left out.
function M.layers(opt, model)
  local passes = {}
  local function add(batch, tokens, context)
    if batch * tokens > opt.max_rows or tokens + context > model.max_context_tokens then return end
    passes[#passes + 1] = { piece = "layer", batch_size = batch, tokens = tokens, context_tokens = context }
  end
  local longest = 1
  for _, context in ipairs(opt.context_tokens) do longest = math.max(longest, context) end
  for _, batch in ipairs(opt.batch_sizes) do
    for _, tokens in ipairs(opt.prompt_tokens) do
      add(batch, tokens, 0)
      if batch <= 4 then add(batch, tokens, longest) end
    end
    for _, context in ipairs(opt.context_tokens) do add(batch, 1, context) end
  end
  if #passes == 0 then
    core.raise("out_of_range", ("ts.measure_profile: no point of the grid fits the context of %s, %d tokens"):format(
      model.name, model.max_context_tokens), "ts.measure_profile.context_tokens")
  end
  return passes
end

--- Passes through what is beside them.
function M.beside(opt)
  local passes, rows = {}, 1
  while rows <= opt.max_rows do
    passes[#passes + 1], rows = { piece = "embedding", batch_size = rows }, rows * 8
  end
  for _, batch in ipairs(opt.batch_sizes) do
    passes[#passes + 1] = { piece = "head", batch_size = batch }
    passes[#passes + 1] = { piece = "sampling", batch_size = batch }
  end
  return passes
end

--- The sample of a row. `name`: the model as a table of samples names it, of what is of a model.
function M.sample(row, bitwidth, name, model)
  if row.piece == "link" then
    return { op = "send_recv", bytes = row.bytes, num_devices = row.ranks, latency_s = row.median_s }
  elseif row.piece == "sum" then -- of f32, in which costs count 16 bits
    return { op = "all_reduce", dtype = "bfloat16", bytes = row.bytes / 2, num_devices = row.ranks,
      latency_s = row.median_s }
  end
  if row.piece == "layer" then
    return { op = "layer", phase = row.tokens == 1 and "decode" or "prefill", model = name, bitwidth = bitwidth,
      batch_size = row.batch_size, tokens = row.tokens, context_tokens = row.context_tokens,
      latency_s = row.median_s }
  elseif row.piece == "head" then
    return { op = "gemm", dtype = "bfloat16", m = row.batch_size, n = model.vocab_size, k = model.hidden_size,
      latency_s = row.median_s }
  end
  -- Hidden states that it writes in 16 bits, as costs count them; logits in f32 that it reads.
  local bytes = row.piece == "embedding" and 2 * model.hidden_size or 4 * model.vocab_size
  return { op = "elementwise", name = row.piece, bytes = row.batch_size * bytes, latency_s = row.median_s }
end

local columns = { "device", "kernel_set", "op", "name", "phase", "dtype", "model", "bitwidth", "batch", "tokens",
  "context", "m", "n", "k", "bytes", "num_devices", "latency_s", "source", "note" }
local field_of = { batch = "batch_size", context = "context_tokens" }

--- Samples as the table that ts.read_profile_data reads; `rows` have their spread, and a noisy one says so.
function M.csv(samples, rows)
  local lines = {}
  for i, sample in ipairs(samples) do
    local line, row = {}, rows[i]
    for c, column in ipairs(columns) do line[c] = sample[field_of[column] or column] end
    line[#columns] = ("%s%d repeats, quartiles %.1f %% apart"):format(row.noisy and "noisy: " or "", row.repeats,
      100 * row.spread_ratio)
    lines[i] = line
  end
  return sheet.csv { columns = columns, lines = lines }
end

return M
