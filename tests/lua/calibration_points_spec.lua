-- ts.calibration_points: what to measure, within its ranges, and of use to ts.calibrate.
local ts = require "tessera"
local raises = require "support".raises

describe("ts.calibration_points", function()
  it("keeps its ranges, widths that are multiples of 64, and no point twice", function()
    local points = ts.calibration_points {
      device = "L4", dtype = "int8_wo", count = 200, max_m = 4096, min_side = 512, max_side = 8192,
    }
    assert.equal(200, #points)
    local seen = {}
    for _, point in ipairs(points) do
      assert.equal("L4", point.device)
      assert.equal("modern", point.kernel_set)
      assert.is_true(point.m >= 1 and point.m <= 4096 and point.m == math.floor(point.m))
      for _, side in ipairs { point.n, point.k } do
        assert.is_true(side >= 512 and side <= 8192 and side % 64 == 0)
      end
      local key = ("%d %d %d"):format(point.m, point.n, point.k)
      assert.is_nil(seen[key])
      seen[key] = true
    end
  end)

  it("puts as many points into every quarter of every range, and begins a longer list with a shorter", function()
    local points = ts.calibration_points { device = "L4", dtype = "bfloat16", count = 20, design = "even" }
    local longer = ts.calibration_points { device = "L4", dtype = "bfloat16", count = 40, design = "even" }
    local counts = { m = { 0, 0, 0, 0 }, n = { 0, 0, 0, 0 }, k = { 0, 0, 0, 0 } }
    local least, most = { m = 1, n = 256, k = 256 }, { m = 8192, n = 32768, k = 32768 }
    for i, point in ipairs(points) do
      assert.same(point, longer[i])
      for axis, quarter in pairs(counts) do
        local share = math.log(point[axis] / least[axis]) / math.log(most[axis] / least[axis])
        local at = math.min(4, 1 + math.floor(4 * share))
        quarter[at] = quarter[at] + 1
      end
    end
    for _, quarter in pairs(counts) do
      for _, count in ipairs(quarter) do assert.is_true(count >= 4 and count <= 6) end
    end
  end)

  it("begins a longer design with a shorter one, the same every time, and no point twice", function()
    for _, design in ipairs { "least_variance", "d_optimal" } do
      local points = ts.calibration_points { device = "L4", dtype = "bfloat16", count = 8, design = design }
      local longer = ts.calibration_points { device = "L4", dtype = "bfloat16", count = 20, design = design }
      local seen = {}
      for i, point in ipairs(longer) do
        if i <= 8 then assert.same(points[i], point) end
        local key = ("%d %d %d"):format(point.m, point.n, point.k)
        assert.is_nil(seen[key])
        seen[key] = true
      end
    end
  end)

  it("spreads points over dtypes, and chooses among candidates", function()
    local count = {}
    for _, point in ipairs(ts.calibration_points { device = "L4", dtypes = { "bfloat16", "int8_wo" } }) do
      count[point.dtype] = (count[point.dtype] or 0) + 1
    end
    assert.equal(20, count.bfloat16 + count.int8_wo)
    assert.is_true(count.bfloat16 >= 6 and count.int8_wo >= 6)
    local candidates = {}
    for _, batch_size in ipairs { 1, 8, 64 } do
      for _, context_tokens in ipairs { 128, 1024, 8192 } do
        candidates[#candidates + 1] = {
          op = "attention", phase = "decode", dtype = "bfloat16", batch_size = batch_size, tokens = 1,
          context_tokens = context_tokens, num_heads = 32, num_kv_heads = 8, head_dim = 128, latency_s = 1,
        }
      end
    end
    local points = ts.calibration_points { device = "L4", candidates = candidates, count = 9 }
    local seen = {}
    for _, point in ipairs(points) do
      assert.is_nil(point.latency_s)
      seen[point.batch_size .. " " .. point.context_tokens] = true
    end
    for _, candidate in ipairs(candidates) do
      assert.is_true(seen[candidate.batch_size .. " " .. candidate.context_tokens])
    end
  end)

  it("leaves less doubt than points spread evenly: of a law that scales, all others come out", function()
    local candidates, device = {}, ts.device "L4"
    local function law(q)
      return 6e-6 + 2 * q.m * q.n * q.k / (0.5 * device.flop_per_s.fp16) + 2 * q.n * q.k / (0.7 * 300e9)
    end
    for _, m in ipairs { 1, 16, 64, 256, 1024, 4096 } do
      for _, n in ipairs { 1024, 4096, 16384 } do
        for _, k in ipairs { 1024, 4096, 16384 } do
          candidates[#candidates + 1] = { op = "gemm", dtype = "bfloat16", m = m, n = n, k = k }
        end
      end
    end
    local few = ts.calibration_points { device = "L4", candidates = candidates, count = 20 }
    for _, point in ipairs(few) do point.latency_s = law(point) end
    local profile = ts.calibrate { device = "L4", samples = few, method = "operator" }
    local errors = {}
    for i, q in ipairs(candidates) do errors[i] = math.abs(profile:gemm_s(q) / law(q) - 1) end
    table.sort(errors)
    assert.is_true(errors[math.ceil(#errors / 2)] < 0.15)
  end)

  it("gives ts.calibrate what it takes", function()
    local points = ts.calibration_points { device = "L4", dtype = "bfloat16", count = 8 }
    local device = ts.device "L4"
    for _, point in ipairs(points) do
      point.latency_s = 5e-6 + 2 * point.m * point.n * point.k / (0.6 * device.flop_per_s.fp16)
        + 2 * point.n * point.k / (0.8 * device.memory_bytes_per_s)
    end
    local profile, errors = ts.calibrate { device = "L4", samples = points, method = "operator" }
    assert.is_true(errors.after.median < errors.before.median)
    assert.is_true(profile:gemm_s { dtype = "bfloat16", m = 64, n = 4096, k = 4096 } > 0)
  end)

  it("refuses what it cannot propose", function()
    raises("invalid_argument", "min_side: 4096 is not below max_side, 4096", function()
      ts.calibration_points { device = "L4", dtype = "bfloat16", min_side = 4096, max_side = 4096 }
    end)
    raises("invalid_argument", "dtypes: given beside dtype", function()
      ts.calibration_points { device = "L4", dtype = "bfloat16", dtypes = { "fp8" } }
    end)
    raises("invalid_argument", "20 points of 1 candidates", function()
      ts.calibration_points {
        device = "L4", candidates = { { op = "gemm", dtype = "bfloat16", m = 1, n = 64, k = 64 } },
      }
    end)
    raises("invalid_argument", "design: points of candidates", function()
      ts.calibration_points { device = "L4", candidates = {}, design = "even" }
    end)
    raises("invalid_argument", "dtype: missing", function() ts.calibration_points { device = "L4" } end)
    raises("not_found", "L5", function() ts.calibration_points { device = "L5", dtype = "bfloat16" } end)
    raises("invalid_argument", "device", function() ts.calibration_points { dtype = "bfloat16" } end)
  end)
end)
