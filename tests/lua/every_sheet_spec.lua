-- What must hold of prices on every device sheet with the kernels that plans take there, whether the sheet has a
-- profile, another device's form or nothing but the roofline: no product is faster than the sheet's arithmetic, and
-- kernels that expand 4-bit weights while they read them (Marlin) lose nothing to 16 bits up to 64 rows.
local ts = require "tessera"
local cost = require "tessera.cost"
local host = require "tessera.host"

local function sheets()
  local names = {}
  local listing = assert(io.popen('ls "' .. host.installation.datasets_dir .. '/devices/"'))
  for line in listing:lines() do names[#names + 1] = line:match "^(.+)%.json$" end
  listing:close()
  return names
end

-- The set that plans take on a device alone, its profile, or nothing: no 16-bit kernels are there.
local function priced(device)
  local ok, problem = pcall(ts.problem, {
    model = "llama-3.1-8b", cluster = { { device, 1 } }, bitwidths = { 16 },
  })
  if ok then return problem.kernel_set, ts.profile { device = device, kernel_set = problem.kernel_set } end
end

local function peak_of(device, dtype)
  local rates = ts.device(device).flop_per_s
  if dtype == "fp8" then return rates.fp8 end
  if dtype == "nvfp4" then return rates.fp4 end
  return math.max(rates.fp16 or 0, rates.bf16 or 0)
end

describe("prices on every sheet", function()
  local names = sheets()

  it("let no product outrun the sheet's arithmetic", function()
    local checked = 0
    for _, device in ipairs(names) do
      local _, profile = priced(device)
      for _, dtype in ipairs(profile and { "bfloat16", "int4_wo", "int8_wo", "fp8", "nvfp4" } or {}) do
        local peak = peak_of(device, dtype)
        for _, m in ipairs(peak and { 64, 512, 4096, 32768 } or {}) do
          for _, side in ipairs { 4096, 14336 } do
            local least_s = 2 * m * side * 4096 / peak
            local seconds = profile:gemm_s { dtype = dtype, m = m, n = side, k = 4096 }
            assert.is_true(seconds >= least_s * (1 - 1e-9), ("%s, %s, %d rows: %.4g s, at the peak %.4g s"):format(
              device, dtype, m, seconds, least_s))
            checked = checked + 1
          end
        end
      end
    end
    assert.is_true(checked > 1000)
  end)

  it("do not make 4 bits slower than 16 up to 64 rows under Marlin and Machete", function()
    local function expands(kernel) return kernel and (kernel:find "marlin" or kernel:find "machete") end
    local checked = 0
    for _, device in ipairs(names) do
      local kernel_set, profile = priced(device)
      local kernel = kernel_set and cost.kernel(kernel_set, device, 4)
      for _, model in ipairs(expands(kernel) and { "llama-3.1-8b", "qwen2.5-32b" } or {}) do
        for _, rows in ipairs { 1, 8, 16, 32, 48, 64 } do
          local function step_s(bitwidth)
            return (profile:layer_s {
              model = model, bitwidth = bitwidth, phase = "decode", batch_size = rows, tokens = 1, context_tokens = 512,
            })
          end
          local four, full = step_s(4), step_s(16)
          assert.is_true(four <= full, ("%s, %s, %d rows: %.4g s at 4 bits, %.4g s at 16"):format(
            device, model, rows, four, full))
          checked = checked + 1
        end
      end
    end
    assert.is_true(checked > 400)
  end)

  it("agree on boards of one chip", function()
    -- GA102 twice: the 3090 has 1.22 times the A6000's bandwidth and less than half of its products' rate.
    local function step_s(device, bitwidth, rows)
      return (ts.profile { device = device, kernel_set = "vllm" }:layer_s {
        model = "llama-3.1-8b", bitwidth = bitwidth, phase = "decode", batch_size = rows, tokens = 1,
        context_tokens = 512,
      })
    end
    for _, bitwidth in ipairs { 16, 8, 4 } do
      for _, rows in ipairs { 1, 8, 16 } do
        local ratio = step_s("RTX-3090", bitwidth, rows) / step_s("A6000", bitwidth, rows)
        assert.is_true(ratio > 0.8 and ratio < 1.05, ("%d bits, %d rows: %.2f"):format(bitwidth, rows, ratio))
      end
    end
    -- The H100's die is the H200's: what the memory does not bound takes as long.
    local h100 = ts.profile { device = "H100-80G", kernel_set = "vllm_fp8" }
    local h200 = ts.profile { device = "H200-141G", kernel_set = "vllm_fp8" }
    for _, dtype in ipairs { "bfloat16", "fp8" } do
      local large = { dtype = dtype, m = 8192, n = 14336, k = 8192 }
      local ratio = h100:gemm_s(large) / h200:gemm_s(large)
      assert.is_true(ratio > 0.99 and ratio < 1.02, ("%s: %.3f"):format(dtype, ratio))
      local few = { dtype = dtype, m = 8, n = 14336, k = 8192 }
      assert.is_true(h100:gemm_s(few) / h200:gemm_s(few) > 1.3, dtype)
    end
  end)

  it("take Blackwell's boards by B200's tables, and fewer bits as no slower there", function()
    local b200 = ts.profile { device = "B200-180G", kernel_set = "vllm_fp4" }
    for _, device in ipairs { "B200-180G", "B300", "GB200" } do
      local profile = ts.profile { device = device, kernel_set = "vllm_fp4" }
      for _, m in ipairs { 64, 1024, 8192 } do
        local function seconds(of, dtype) return of:gemm_s { dtype = dtype, m = m, n = 28672, k = 8192 } end
        local ratio = seconds(profile, "nvfp4") / seconds(b200, "nvfp4")
        assert.is_true(ratio > 0.55 and ratio < 1.15, ("%s, %d rows: %.2f"):format(device, m, ratio))
        local four, eight, full = seconds(profile, "nvfp4"), seconds(profile, "fp8"), seconds(profile, "bfloat16")
        assert.is_true(four < eight and eight < full, ("%s, %d rows: %.3g, %.3g, %.3g s"):format(device, m, four, eight,
          full))
      end
    end
  end)
end)
