-- ts.measure_profile(options): layers measured on this machine as the papers do it (one decoder layer over a grid of
-- batches, prompts, contexts and bitwidths), and the profile that ts.calibrate makes of them.

local core = require "tessera.core"
local cost = require "tessera.cost"
local grid = require "tessera.devices.measured_grid"
local here = require "tessera.devices.measured_device"
local measure = require "tessera.measure"
local new_bar = require "tessera.bar"
local with_weights = require "tessera.devices.with_weights"

local M = {}

local path = "ts.measure_profile"

-- Bytes of a message between stages: from a hidden state of a small model to a prompt of a large one.
local message_bytes = { 2 ^ 11, 2 ^ 14, 2 ^ 16, 2 ^ 18, 2 ^ 20, 2 ^ 22 }

-- Tensor-parallel ranks whose sums are measured, where there are so many shares.
local rank_counts = { 2, 4, 8 }

-- Layers enough that caches hold next to none of them from one pass to the next, as in a stage: with twice the cache,
-- steps of SmolLM2-135M at 16 bits came out a fifth too fast. Fewer where memory is short.
local caches_of_layers = 8

local function layers_needed(model, bitwidth, cpu)
  local bytes = model:layer_bytes(bitwidth)
  local enough = math.ceil(caches_of_layers * cpu.cache_bytes / bytes)
  local room = math.floor(cpu.memory_bytes / (8 * model:layer_bytes(16)))
  return math.max(1, math.min(enough, room, model.num_layers))
end

-- draw(done, left_s) after each pass, and what takes the bar away.
local function progress_of(given, total)
  if given.progress == false then return nil, function() end end
  local draw, clear = new_bar()
  if given.progress then
    draw = given.progress
  elseif draw then
    local bar = draw
    draw = function(done, all, left_s)
      bar(done, all, ("%d/%d points, %s left"):format(done, all, core.format_seconds(left_s)))
    end
  end
  local started = core.clock()
  return draw and function(done)
    draw(done, total, (core.clock() - started) / math.max(done, 1) * (total - done))
  end, clear
end

-- What to run: one group of passes for each bitwidth and load, those beside the layers once for each load.
local function groups_of(opt, model, loads)
  local groups = {}
  for _, busy in ipairs(loads) do
    for _, bitwidth in ipairs(opt.bitwidths) do
      groups[#groups + 1] = { busy = busy, bitwidth = bitwidth, passes = grid.layers(opt, model) }
    end
    groups[#groups + 1] = { busy = busy, bitwidth = 16, passes = grid.beside(opt) }
  end
  return groups
end

-- Runs them all; each group gets `rows` and, of layers, `load_s` and `weight_bytes`.
local function run(groups, folder, opt, device, num_layers, progress)
  local done_before = 0
  for _, group in ipairs(groups) do
    local settings = { passes = group.passes, num_layers = num_layers[group.bitwidth], cores = device.cores,
      others = group.busy and device.other_cores or 0 }
    for name, value in pairs(opt.timing) do settings[name] = value end
    local start = done_before
    settings.progress = progress and function(done) progress(start + done) end
    local timed = measure.passes({ path = folder, bitwidths = group.bitwidth, dtype = device.dtype or opt.dtype,
      activation_bitwidth = opt.activation_bitwidth, threads = device.cores, device = device.runs_on }, settings)
    group.rows, group.load_s, group.weight_bytes = timed.rows, timed.load_s, timed.weight_bytes
    done_before = done_before + #group.passes
  end
end

-- The samples of the groups of one load, and the rows that stand behind them.
local function samples_of(groups, busy, links, what)
  local samples, rows = {}, {}
  local source = ("tessera profile, %s, %s"):format(os.date "!%Y-%m-%d", busy and "other cores busy" or "alone")
  local function add(sample, row)
    sample.device, sample.kernel_set, sample.source = what.device.name, here.kernel_set, source
    samples[#samples + 1], rows[#rows + 1] = sample, row
  end
  for _, group in ipairs(groups) do
    if group.busy == busy then
      for _, row in ipairs(group.rows) do add(grid.sample(row, group.bitwidth, what.name, what.model), row) end
    end
  end
  for _, row in ipairs(links) do add(grid.sample(row), row) end
  return samples, rows
end

-- What goes between shares of this CPU: messages over TCP, and sums in memory.
local function measure_links(device, timing)
  local links = {}
  local function add(piece, ranks, rows)
    for _, row in ipairs(rows) do
      row.piece, row.ranks = piece, ranks
      links[#links + 1] = row
    end
  end
  if device.runs_on ~= "cpu" then return links end
  add("link", 2, measure.loopback(message_bytes, timing))
  for _, ranks in ipairs(rank_counts) do
    if device.cores * ranks <= device.cores + device.other_cores then
      add("sum", ranks, measure.sums(message_bytes, timing, device.cores, ranks))
    end
  end
  return links
end

local function loading_of(groups)
  local loading, seen = {}, {}
  for _, group in ipairs(groups) do
    if group.passes[1].piece == "layer" and not seen[group.bitwidth] then
      seen[group.bitwidth] = true
      loading[#loading + 1] = { bitwidth = group.bitwidth, layer_s = group.load_s / group.num_layers,
        layer_bytes = group.weight_bytes / group.num_layers }
    end
  end
  return loading
end

local function count_noisy(rows)
  local noisy = 0
  for _, row in ipairs(rows) do noisy = noisy + (row.noisy and 1 or 0) end
  return noisy
end

local function measured(given, opt)
  local model = core.model(given.model)
  local device = here.find(given.device, opt.cores_per_device, path .. ".device")
  grid.check(opt, path)
  local cpu, num_layers, most = measure.cpu(), {}, 1
  for _, bitwidth in ipairs { 16, unpack(opt.bitwidths) } do
    num_layers[bitwidth] = layers_needed(model, bitwidth, cpu)
    most = math.max(most, num_layers[bitwidth])
  end
  local loads = {}
  if opt.load ~= "none" and device.other_cores > 0 then loads[#loads + 1] = true end
  if opt.load ~= "others" or device.other_cores == 0 then loads[#loads + 1] = false end
  local groups, total = groups_of(opt, model, loads), 0
  for _, group in ipairs(groups) do
    group.num_layers, total = num_layers[group.bitwidth], total + #group.passes
  end
  local draw, clear = progress_of(given, total)
  local ok, failure = pcall(with_weights, given.model, most, function(folder)
    run(groups, folder, opt, device, num_layers, draw)
  end)
  clear()
  if not ok then error(failure, 0) end
  local links = measure_links(device, opt.timing)
  local what = { device = device.sheet, model = model, name = type(given.model) == "string" and given.model or model }
  local samples, rows = samples_of(groups, loads[1], links, what)
  local report = { device = device.sheet, samples = samples, rows = rows, busy = loads[1],
    loading = loading_of(groups), num_noisy = count_noisy(rows) }
  if loads[2] == false then report.alone_samples, report.alone_rows = samples_of(groups, false, links, what) end
  return report
end

--- The profile, and a report: `device`; `samples` and, for each, `rows` (its time with its spread), of which
--- `num_noisy` are; `alone_samples` and `alone_rows` where the profile is of busy cores and both were measured;
--- `loading`; `before` and `after`, the errors of ts.calibrate.
function M.measure_profile(given)
  local checked = given
  if type(given) == "table" and given.progress == false then
    checked = {}
    for key, value in pairs(given) do checked[key] = value end
    checked.progress = nil
  end
  local report = measured(given, measure.read_options(checked))
  local profile, errors = cost.calibrate { device = report.device, kernel_set = here.kernel_set,
    samples = report.samples }
  report.before, report.after = errors.before, errors.after
  return profile, report
end

return M
