-- What llama.cpp makes of one request alone, predicted by kernel set llama_cpp: Llama-3 on nineteen GPUs and up to
-- eight of them in layer split, and what users reported of other models and cards. Each GPU's rows are predicted with
-- what the other GPUs say of the share of the bandwidth that weights and caches reach: no card is judged by its own.
local core = require "tessera.core"
local ts = require "tessera"
local csv = require "fidelity.fit.csv"
local measured = require "lib.measured"
local quantile = require "fidelity.fit.errors".quantile

local path, why = measured.path "a6000/llamacpp_llama3_gpus.csv"
local field, why_field = measured.path "field/decode.csv"
why = why or why_field

-- Set before looking, as the issue has them.
local least_median, most_median, most_p90 = 0.02, 0.12, 0.30
local most_drift = 0.10 -- of the shipped ratios from the fit on all GPUs

local devices = {
  ["3070 8GB"] = "RTX-3070", ["3080 10GB"] = "RTX-3080", ["3080 Ti 12GB"] = "RTX-3080-Ti",
  ["4070 Ti 12GB"] = "RTX-4070-Ti", ["4080 16GB"] = "RTX-4080", ["3090 24GB"] = "RTX-3090",
  ["4090 24GB"] = "RTX-4090", ["RTX 4000 Ada 20GB"] = "RTX-4000-Ada", ["RTX 5000 Ada 32GB"] = "RTX-5000-Ada",
  ["RTX A6000 48GB"] = "A6000", ["RTX 6000 Ada 48GB"] = "RTX-6000-Ada", ["A40 48GB"] = "A40", ["L40S 48GB"] = "L40S",
  ["A100 PCIe 80GB"] = "A100 80GB PCIe", ["A100 SXM 80GB"] = "A100-80G", ["H100 PCIe 80GB"] = "H100-PCIe",
  ["M1 Max 32‑Core GPU 64GB"] = "M1-Max-64G", ["M2 Ultra 76-Core GPU 192GB"] = "M2-Ultra-192G",
  ["M3 Max 40‑Core GPU 64GB"] = "M3-Max-64G",
  -- of field/decode.csv
  ["RTX 4090"] = "RTX-4090", ["RTX 3080 Ti"] = "RTX-3080-Ti", ["RTX 4070 Ti"] = "RTX-4070-Ti",
  ["Radeon AI PRO R9700"] = "AI-PRO-R9700", ["RTX 3090"] = "RTX-3090", ["RTX 3090 Ti"] = "RTX-3090-Ti",
  ["RTX 5080"] = "RTX-5080", ["RTX 2080 8 GB"] = "RTX-2080", ["Tesla P40"] = "P40", ["RTX A6000"] = "A6000",
}
local models = {
  ["Llama-3-8B"] = "llama-3-8b", ["Llama-3-70B"] = "llama-3-70b", ["DeepSeek-R1-Distill-Qwen-14B"] = "qwen2.5-14b",
  ["gpt-oss-20b"] = "gpt-oss-20b", ["Qwen3-8B"] = "qwen3-8b", ["Meta-Llama-3-8B-Instruct"] = "llama-3-8b",
  ["Meta-Llama-3.1-8B-Instruct"] = "llama-3.1-8b", ["llama-7b"] = "llama-7b", ["llama-2-7b"] = "llama-2-7b",
  ["llama-2-13b"] = "llama-2-13b", ["llama-2-70b"] = "llama-2-70b", -- Qwen3.6-35B-A3B has no sheet
}

-- GPUs whose rules have the same ratios.
local function class_of(device)
  local capability = device.compute_capability
  if capability < 2 then return "metal" end
  if capability == 8.9 or capability >= 12 then return "ada" end
  return (capability == 8.6 or capability == 7.5) and "ampere" or "hbm"
end

-- A100's two boards are one chip, and left out together.
local function chip_of(name) return name:match "^A100" or name end

local endless = 1e14 -- bytes/s: what is left takes no time for bytes

local function decode_s(row, device, context, output)
  local plan = assert(ts.plan({ model = models[row.model], cluster = ts.cluster { { device, row.num_gpus } },
    bitwidths = { row.bitwidth }, kernel_set = "llama_cpp", tensor_parallel = 1, use_all_devices = true,
    workload = { batch_size = 1, prompt_tokens = context, output_tokens = output } }, { replicas = 1 }))
  return ts.simulate(plan).tpot_s
end

-- A row with the parts of its predicted time per token: of weights, of keys and values, and the rest.
local function with_parts(row)
  local device = ts.device(devices[row.gpu])
  local sheet = core.from_json(core.to_json(device))
  sheet.name, sheet.memory_bytes_per_s = sheet.name .. " of endless bandwidth", endless
  row.class, row.chip = class_of(device), chip_of(device.name)
  row.predicted_s = decode_s(row, device, row.context, row.output)
  local alone_s = decode_s(row, device, 1, 2)
  row.rest_s = decode_s(row, ts.device(sheet), 1, 2)
  row.kv_s, row.weights_s = row.predicted_s - alone_s, alone_s - row.rest_s
  return row
end

local tables, all_rows -- the latter made once
local function rows_of_gpus()
  if tables then return tables, all_rows end
  tables, all_rows = { gpus = {}, field = {} }, {}
  for row in csv.rows(path) do
    for _, output in ipairs { 512, 1024, 4096, 8192 } do
      local rate = tonumber(row["tg" .. output])
      if rate and devices[row.gpu] then
        all_rows[#all_rows + 1] = with_parts { gpu = row.gpu, num_gpus = tonumber(row.n_gpu), model = row.model,
          bitwidth = row.quant == "F16" and 16 or 4, context = 1, output = math.min(output, 8190),
          measured_s = 1 / rate }
      end
    end
  end
  for row in csv.rows(field) do
    if row.runtime == "llama.cpp" and models[row.model] then
      tables.field[#tables.field + 1] = with_parts { id = row.id, gpu = row.gpu, num_gpus = tonumber(row.gpus),
        model = row.model, bitwidth = 4, context = math.max(1, tonumber(row.context_tokens)),
        output = tonumber(row.output_tokens), measured_s = 1 / tonumber(row.decode_tok_s) }
    end
  end
  return tables, all_rows
end

-- Of a row: names and seconds of what is fitted.
local function terms_of(row)
  return { [row.class .. row.bitwidth] = row.weights_s,
    [row.class == "metal" and "metal kv" or "kv"] = row.kv_s }
end

-- Times the shipped prices of weights by class and bitwidth, and of keys and values: least squares of relative errors
-- over the rows of other chips, term by term.
local function fitted(rows, left_out)
  local factors, errors, members = {}, {}, {}
  for i, row in ipairs(rows) do
    if row.chip ~= left_out then
      errors[i] = 1 - row.predicted_s / row.measured_s
      for name, seconds in pairs(terms_of(row)) do
        factors[name], members[name] = 1, members[name] or {}
        table.insert(members[name], { i, seconds / row.measured_s })
      end
    end
  end
  for _ = 1, 200 do
    for name, list in pairs(members) do
      local above, below = 0, 0
      for _, member in ipairs(list) do
        above, below = above + member[2] * errors[member[1]], below + member[2] ^ 2
      end
      local step = above / below
      factors[name] = factors[name] + step
      for _, member in ipairs(list) do errors[member[1]] = errors[member[1]] - step * member[2] end
    end
  end
  return factors
end

local function by(factors, row)
  local seconds = row.rest_s
  for name, part in pairs(terms_of(row)) do seconds = seconds + (factors[name] or 1) * part end
  return seconds
end

local function figures(errors)
  table.sort(errors)
  return #errors, quantile(errors, 0.5), quantile(errors, 0.9)
end

local points = {}
if not why then
  local known = {}
  for row in csv.rows(path) do
    if devices[row.gpu] and not known[row.gpu] then
      points[#points + 1], known[row.gpu] = { gpu = row.gpu }, true
    end
  end
  for row in csv.rows(field) do
    if row.runtime == "llama.cpp" and models[row.model] then points[#points + 1] = { gpu = row.id } end
  end
  points[#points + 1] = { gpu = "all" }
end

return ts.experiment {
  name = "fidelity/field/llama_cpp",
  doc = "Time per token of llama.cpp on GPUs of users, each predicted from the others",
  grid = #points > 0 and points or { { gpu = "" } },
  columns = { "kind", "gpu", "num_points", "median", "p90", "worst", "error_ratio", "errors" },

  run = function(point)
    if why then return { status = why.code, message = why.message } end
    local reported, rows = rows_of_gpus()
    if point.gpu == "all" then
      local worst = 0
      for _, factor in pairs(fitted(rows)) do worst = math.max(worst, math.abs(factor - 1)) end
      return { kind = "drift", gpu = point.gpu, worst = worst }
    end
    for _, row in ipairs(reported.field) do
      if row.id == point.gpu then
        local error_ratio = by(fitted(rows, row.chip), row) / row.measured_s - 1
        return { kind = "field", gpu = ("%s %s %s"):format(row.id, row.gpu, row.model), error_ratio = error_ratio,
          errors = { math.abs(error_ratio) } }
      end
    end
    local errors, factors = {}, fitted(rows, chip_of(ts.device(devices[point.gpu]).name))
    for _, row in ipairs(rows) do
      if row.gpu == point.gpu then errors[#errors + 1] = math.abs(by(factors, row) / row.measured_s - 1) end
    end
    local num_points, median, p90 = figures(errors)
    return { kind = "gpu", gpu = point.gpu, num_points = num_points, median = median, p90 = p90,
      worst = errors[#errors], errors = errors }
  end,

  check = function(t)
    if why then return t:skip("not checked: " .. why.message) end
    local lists, drift = { gpu = {}, field = {} }, nil
    for _, row in ipairs(t:rows {}) do
      if row.kind == "drift" then drift = row.worst end
      for _, value in ipairs(row.errors or {}) do table.insert(lists[row.kind], value) end
    end
    for kind, of in pairs { gpu = "Llama-3 on a GPU left out", field = "what users reported, their GPU left out" } do
      local num_points, median, p90 = figures(lists[kind])
      t:expect(("%s: %g to %g %% in the median"):format(of, 100 * least_median, 100 * most_median),
        median >= least_median and median <= most_median, ("%.1f %% of %d"):format(100 * median, num_points),
        { value = median })
      t:expect(("%s: nine of ten within %g %%"):format(of, 100 * most_p90), p90 <= most_p90,
        ("%.1f %%"):format(100 * p90), { value = p90 })
    end
    t:expect(("the ratios that ship are within %g %% of the fit on all"):format(100 * most_drift), drift <= most_drift,
      ("%.1f %%"):format(100 * drift), { value = drift })
  end,
}
