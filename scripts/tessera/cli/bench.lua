-- `tessera bench`: rates of prefill and decode, time to load, and memory, by bitwidths and threads. Where there are
-- several of these each has a process of its own: memory and the time to load are those of a fresh one.

local bench_decoder = require "tessera.cli.bench_decoder"
local bench_product = require "tessera.cli.bench_product"
local core = require "tessera.core"
local flags = require "tessera.cli.flags"
local host = require "tessera.host"
local on_disk = require "tessera.cli.on_disk"
local tables = require "tessera.options"
local terminal = require "tessera.terminal"
local ts = require "tessera"

local M = {}

local interrupted_status = 130

--- { VmRSS = bytes, VmHWM = bytes } of this process: what it has in memory, and the most that it had.
local function memory()
  local found = {}
  for name, kib in core.read_file("/proc/self/status"):gmatch "(Vm%u+):%s*(%d+) kB" do
    found[name] = tonumber(kib) * 1024
  end
  return found
end

-- Of a step that decodes a token of each sequence: all weights but an embedding of its own, of which it reads one row,
-- and the keys and values of the contexts, which grow meanwhile.
local function bytes_per_step(model, speed)
  local shape, bytes = model.model, model.weight_bytes
  if not shape.tied_embeddings and model.bitwidths then
    bytes = bytes - shape.vocab_size * shape.hidden_size * (model.dtype == "f32" and 4 or 2)
  end
  return bytes + speed.kv_cache_bytes
end

local function measure(path, bitwidth, threads, given)
  local started = core.clock()
  local options = on_disk.options({ dtype = given.dtype, kv_bitwidth = given.kv_bitwidth, device = given.device,
    activation_bitwidth = given.activation_bitwidth }, path)
  options.threads, options.progress = threads, false
  if bitwidth ~= 0 then
    options = on_disk.options(given, path, { threads = true })
    options.bitwidths, options.threads, options.progress = bitwidth, threads, false
  end
  local model = ts.language_model(options)
  local first = model:generate({ 0 }, { max_tokens = 1, temperature = 0 })
  local first_token_s = core.clock() - started
  local resident = memory().VmRSS
  local speed = on_disk.with_bar(function(draw)
    local own = tables.of_flags(given, "lm:speed")
    own.progress = draw and function(done, total)
      draw(done, total, ("%s bits, %d threads: %d/%d repeats"):format(bitwidth, model.threads, done, total))
    end
    return model:speed(own)
  end)
  local batch_size = given.batch_size or 1
  local prefill, prefill_low, prefill_high = on_disk.spread(speed.prefill_tok_s)
  local decode, decode_low, decode_high = on_disk.spread(speed.decode_tok_s)
  return {
    bitwidth = bitwidth, threads = model.threads, batch_size = batch_size, repeats = #speed.decode_tok_s,
    prompt_tokens = speed.prompt_tokens, context_tokens = speed.context_tokens, output_tokens = speed.output_tokens,
    prefill_tok_s = prefill, prefill_tok_s_low = prefill_low, prefill_tok_s_high = prefill_high,
    decode_tok_s = decode, decode_tok_s_low = decode_low, decode_tok_s_high = decode_high,
    decode_bytes_per_s = decode and decode / batch_size * bytes_per_step(model, speed),
    load_s = model.load_s, first_token_s = first_token_s, prompt_s = first.prompt_s,
    weight_bytes = model.weight_bytes, kv_cache_bytes = speed.kv_cache_bytes, resident_bytes = resident,
    peak_bytes = memory().VmHWM, partial = #speed.decode_tok_s < (given.repeats or 5),
  }
end

-- The same in a process of its own, which gets the flags that this one got.
local function measure_apart(path, bitwidth, threads, given)
  local words = { host.program, "bench", path, "--json", "--bitwidths", tostring(bitwidth), "--threads",
    tostring(threads) }
  for _, option in ipairs(host.cards().options["tessera bench"].options) do
    local value = given[option.name]
    if value ~= nil and option.name ~= "bitwidths" and option.name ~= "threads" then
      words[#words + 1] = ("%s=%s"):format(flags.name(option.name), tostring(value))
    end
  end
  local status, out, err = host.run_program(words, "")
  if status ~= 0 and status ~= interrupted_status then
    core.raise("invalid_argument", (err:match "tessera: ([^\n]*)" or ("it ended with status %d"):format(status)), path)
  end
  return core.from_json(out)[1]
end

local function cell(row, name, digits)
  if not row[name] then return "-" end
  return ("%." .. digits .. "f (%." .. digits .. "f-%." .. digits .. "f)"):format(row[name], row[name .. "_low"],
    row[name .. "_high"])
end

local function show(rows, given)
  local lines = {}
  for i, row in ipairs(rows) do
    lines[i] = {
      bits = row.bitwidth == 0 and "as stored" or tostring(row.bitwidth), threads = row.threads,
      ["prefill tok/s"] = cell(row, "prefill_tok_s", 0), ["decode tok/s"] = cell(row, "decode_tok_s", 1),
      ["GB/s"] = row.decode_bytes_per_s and ("%.2f"):format(row.decode_bytes_per_s / 1e9),
      ["first token s"] = ("%.2f"):format(row.first_token_s),
      ["weights MiB"] = ("%.0f"):format(row.weight_bytes / 2 ^ 20),
      ["resident MiB"] = ("%.0f"):format(row.resident_bytes / 2 ^ 20),
      ["peak MiB"] = ("%.0f"):format(row.peak_bytes / 2 ^ 20),
    }
  end
  terminal.say(ts.table(lines, { columns = { "bits", "threads", "prefill tok/s", "decode tok/s", "GB/s",
    "first token s", "weights MiB", "resident MiB", "peak MiB" } }))
  if #rows == 0 then return end
  print(("%sprefill of %d tokens, %d tokens decoded after %d; median and range of %d repeats; GB/s: of decoding, "
    .. "weights and cache; first token: from the start of loading; resident: then, peak: of all"):format(
    rows[1].batch_size == 1 and "" or ("%d sequences side by side, each: "):format(rows[1].batch_size),
    rows[1].prompt_tokens, rows[1].output_tokens, rows[1].context_tokens, given.repeats or 5))
end

--- @param given table the flags; names: the model, or a shape
function M.main(given)
  if given.kernel then
    if #given.names > 0 then
      core.raise("usage", "--kernel: flags as --m, --n and --k say its shape, no word does", "--kernel")
    end
    if bench_decoder.has(given.kernel) then return bench_decoder.run(given) end
    return bench_product.run(nil, nil, given)
  end
  for _, name in ipairs { "m", "n", "k", "heads", "kv_heads", "head_dim" } do
    if given[name] then core.raise("usage", flags.name(name) .. ": it belongs to --kernel", flags.name(name)) end
  end
  local rows, columns = (given.names[1] or ""):match "^(%d+)[xX](%d+)$"
  if rows and #given.names == 1 and not core.file_kind(given.names[1]) then
    return bench_product.run(tonumber(rows), tonumber(columns), given)
  end
  if given.isa then core.raise("usage", "--isa: it belongs to a shape or --kernel", "--isa") end
  local path = on_disk.path(given, "tessera bench", 1)
  local all_bitwidths, all_threads = given.bitwidths or { 0 }, given.threads or { 0 }
  local results, alone = {}, #all_bitwidths * #all_threads == 1
  local stopped = false
  host.poll_interrupts(true)
  for _, bitwidth in ipairs(all_bitwidths) do
    for _, threads in ipairs(all_threads) do
      stopped = stopped or host.interrupted()
      if not stopped then
        local ok, row = pcall(alone and measure or measure_apart, path, bitwidth, threads, given)
        stopped = host.interrupted()
        if not ok and not stopped then
          host.poll_interrupts(false)
          error(row, 0)
        end
        if ok then results[#results + 1] = row end
      end
    end
  end
  host.poll_interrupts(false)
  if host.json then host.set_result(results) else show(results, given) end
  return stopped and interrupted_status or 0
end

return M
