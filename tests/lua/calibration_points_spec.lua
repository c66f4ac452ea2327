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
    local points = ts.calibration_points { device = "L4", dtype = "bfloat16", count = 20 }
    local longer = ts.calibration_points { device = "L4", dtype = "bfloat16", count = 40 }
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
    raises("not_found", "L5", function() ts.calibration_points { device = "L5", dtype = "bfloat16" } end)
    raises("invalid_argument", "device", function() ts.calibration_points { dtype = "bfloat16" } end)
  end)
end)
