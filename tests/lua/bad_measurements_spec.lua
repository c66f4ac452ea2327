-- Measurements that cannot be what they are given as: one clear line each.
local ts = require "tessera"
local raises = require "support".raises

-- Products as an L4 could run them.
local function products(change)
  local samples = {}
  for _, m in ipairs { 1, 16, 256, 2048 } do
    for _, n in ipairs { 1024, 4096, 8192 } do
      local sample = {
        op = "gemm", dtype = "bfloat16", m = m, n = n, k = 4096,
        latency_s = 6e-6 + 2 * m * n * 4096 / 60e12 + 2 * n * 4096 / 250e9,
      }
      if change then change(sample) end
      samples[#samples + 1] = sample
    end
  end
  return samples
end

local function calibrate(samples, device) return ts.calibrate { device = device or "L4", samples = samples } end

local function one_line(text, call)
  local _, why = pcall(call)
  assert.is_truthy(tostring(why.message):find(text, 1, true), tostring(why.message))
  assert.is_nil(tostring(why.message):find "\n")
end

describe("measurements that cannot be", function()
  it("takes those that can", function() assert.is_not_nil(calibrate(products())) end)

  it("refuses times in other units, and says how far off they are", function()
    for _, factor in ipairs { 1e3, 1e6 } do
      local samples = products(function(sample) sample.latency_s = sample.latency_s * factor end)
      one_line("are they in another unit", function() calibrate(samples) end)
      raises("invalid_argument", "ts.calibrate.samples", function() calibrate(samples) end)
    end
    local samples = products(function(sample) sample.latency_s = sample.latency_s * 1e-3 end)
    one_line("the least that L4's data sheet allows", function() calibrate(samples) end)
    one_line("another unit", function()
      ts.fit_profile { device = "L4", kernel_set = "modern", samples = samples, method = "operator" }
    end)
  end)

  it("refuses swapped columns", function()
    one_line("columns m, n and k swapped", function()
      calibrate(products(function(sample) sample.m, sample.n = sample.n, sample.m end))
    end)
    local path = os.tmpname()
    local file = io.open(path, "w")
    file:write "gemm_dtype,m,n,k,latency,device\nbfloat16,1,4096,0.05,4096,NVIDIA L4\n" -- k and latency
    file:close()
    one_line("'k' is 0.05, a count of at least 1 is needed", function()
      ts.read_profile_data(path, { format = "aiconfigurator" })
    end)
    os.remove(path)
  end)

  it("refuses times of zero and below, naming the line", function()
    for _, latency in ipairs { "0", "-0.05" } do
      local path = os.tmpname()
      local file = io.open(path, "w")
      file:write("gemm_dtype,m,n,k,latency,device\nbfloat16,1,4096,4096,0.2,NVIDIA L4\n")
      file:write(("bfloat16,2,4096,4096,%s,NVIDIA L4\n"):format(latency))
      file:close()
      one_line("'latency' is '" .. latency .. "', a time above zero", function()
        ts.read_profile_data(path, { format = "aiconfigurator" })
      end)
      os.remove(path)
      local samples = products()
      samples[3].latency_s = tonumber(latency)
      one_line("samples[3].latency_s", function() calibrate(samples) end)
    end
  end)

  it("refuses a GPU that nobody knows", function()
    one_line("RTX-4095", function() calibrate(products(), "RTX-4095") end)
    one_line("RTX-4095", function() ts.calibration_points { device = "RTX-4095", dtype = "bfloat16" } end)
    local path = os.tmpname()
    local file = io.open(path, "w")
    file:write "gemm_dtype,m,n,k,latency,device\nbfloat16,1,4096,4096,0.2,NVIDIA L5\n"
    file:close()
    one_line("NVIDIA L5", function() ts.read_profile_data(path, { format = "aiconfigurator" }) end)
    os.remove(path)
  end)

  it("refuses twenty measurements of one point", function()
    local samples = {}
    for i = 1, 20 do samples[i] = products()[5] end
    one_line("20 samples are one point, gemm bfloat16 m 16, n 4096, k 4096", function() calibrate(samples) end)
  end)
end)
