-- ts.profile, ts.calibrate, ts.fit_profile and ts.cross_validate: names, errors, and what is said about a number.
local ts = require "tessera"
local support = require "support"
local raises, changed = support.raises, support.changed

-- Rows, columns and a launch: nothing is as regular as this, so that every form fits it.
local function gemms(changes)
  local list = {}
  for _, m in ipairs { 1, 16, 256, 4096 } do
    for _, n in ipairs { 4096, 16384 } do
      list[#list + 1] = changed(
        { dtype = "bfloat16", m = m, n = n, k = 4096, latency_s = 1e-5 + (m + 300) * n * 1e-11 }, changes)
    end
  end
  return list
end

local function layers()
  local list = {}
  for _, batch in ipairs { 1, 2, 4, 8, 16 } do
    list[#list + 1] = {
      model = "opt-13b", bitwidth = 4, phase = "decode", batch = batch, context = 512, latency_s = 1e-3 + batch * 1e-5,
    }
  end
  return list
end

local gemm = { dtype = "bfloat16", m = 64, n = 4096, k = 4096 }
local attention = {
  phase = "decode", dtype = "bfloat16", batch_size = 8, context_tokens = 512, num_heads = 32, num_kv_heads = 8,
  head_dim = 128,
}
local layer = { model = "opt-13b", bitwidth = 4, phase = "decode", batch_size = 8, context_tokens = 512 }

describe("ts.profile", function()
  local profile = ts.profile { device = "RTX-6000-Ada", kernel_set = "modern" }

  it("answers with seconds and what is known about them", function()
    for _, method in ipairs { "gemm_s", "attention_s", "layer_s" } do
      local query = { gemm_s = gemm, attention_s = attention, layer_s = layer }
      local seconds, info = profile[method](profile, query[method])
      assert.is_true(seconds > 0 and seconds < 1, method)
      assert.equal("modelled", info.provenance, method)
      assert.is_nil(info.error, method)
      assert.is_string(info.method, method)
    end
  end)

  it("has an error inside of what was fitted, and a reason outside of it", function()
    local fitted = ts.fit_profile { device = "RTX-4090", samples = gemms() }
    local _, inside = fitted:gemm_s(gemm)
    assert.same({ "fitted", true }, { inside.provenance, inside.in_range })
    assert.is_number(inside.error)
    assert.is_nil(inside.why)
    local _, outside = fitted:gemm_s(changed(gemm, { k = 57344 }))
    assert.same({ "modelled", false }, { outside.provenance, outside.in_range })
    assert.is_nil(outside.error)
    assert.truthy(outside.why:find("k 57344 is above the fitted", 1, true))
  end)

  it("never falls when rows, sequences or context grow", function()
    local last = { gemm = 0, attention = 0, layer = 0 }
    for _, size in ipairs { 1, 1.5, 7, 128, 129, 3000, 1e5 } do
      local now = {
        gemm = profile:gemm_s(changed(gemm, { m = size })),
        attention = profile:attention_s(changed(attention, { context_tokens = size })),
        layer = profile:layer_s(changed(layer, { batch_size = size })),
      }
      for op, seconds in pairs(now) do
        assert.is_true(seconds >= last[op], op .. " at " .. size)
        last[op] = seconds
      end
    end
  end)

  it("refuses what it cannot answer, and says where", function()
    local function refuses(text, changes)
      raises(changes.code or "invalid_argument", text, function()
        profile:gemm_s(changed(gemm, changes.with))
      end)
    end
    refuses("m is 0, a positive number is needed", { code = "out_of_range", with = { m = 0 } })
    refuses("profile:gemm_s.m: NaN", { with = { m = support.nan } })
    refuses("profile:gemm_s.m: -1 is out of range", { code = "out_of_range", with = { m = -1 } })
    refuses("profile:gemm_s.m: the string '64' is not a number", { with = { m = "64" } })
    refuses("profile:gemm_s.dtype: unknown dtype 'bf16'", { with = { dtype = "bf16" } })
    refuses("profile:gemm_s.mm: unknown field; did you mean 'm'?", { with = { mm = 1 } })
    refuses("profile:gemm_s.num_heads: no field of op 'gemm'; it has m, n, k", { with = { num_heads = 8 } })
    refuses("profile:gemm_s.bitwidth: of layers", { with = { bitwidth = 4 } })
    refuses("profile:gemm_s.op: 'layer' where 'gemm' belongs", { with = { op = "layer" } })
    raises("out_of_range", "num_heads is 0", function()
      profile:attention_s { phase = "decode", dtype = "bfloat16", batch_size = 8, context_tokens = 512, head_dim = 128 }
    end)
    raises("invalid_argument", "profile:attention_s.batch: the same as batch_size", function()
      profile:attention_s(changed(attention, { batch = 8 }))
    end)
    raises("invalid_argument", "did you mean 'batch_size'", function()
      profile:layer_s(changed(layer, { batchsize = 1 }))
    end)
    raises("not_found", "did you mean 'modern'", function() ts.profile { device = "L4", kernel_set = "modrn" } end)
    raises("invalid_argument", "name a device", function() ts.profile {} end)
  end)
end)

describe("ts.calibrate", function()
  after_each(support.remove_files)

  it("returns a profile and the errors before and after", function()
    local profile, errors = ts.calibrate { device = "RTX-4090", samples = gemms() }
    assert.equal("tessera.Profile", getmetatable(profile))
    for _, when in ipairs { "before", "after" } do
      for _, field in ipairs { "median", "p90", "worst", "mean" } do assert.is_number(errors[when][field]) end
      assert.equal(8, errors[when].num_points)
      assert.is_string(errors[when].split)
    end
    assert.is_true(errors.after.mean < errors.before.mean)
  end)

  it("predicts each point without it", function()
    local samples = gemms()
    local _, errors = ts.calibrate { device = "RTX-4090", samples = samples, method = "table" }
    local predicted = ts.cross_validate { device = "RTX-4090", samples = samples, method = "table" }
    local worst = 0
    for _, point in ipairs(predicted) do worst = math.max(worst, math.abs(point.error_ratio)) end
    -- A donor's form may do better than the points alone, never worse in the mean.
    assert.is_true(errors.after.mean <= worst + 1e-12)
    samples[3].latency_s = 1.9 * samples[3].latency_s
    local _, disturbed = ts.calibrate { device = "RTX-4090", samples = samples, method = "table" }
    assert.is_true(disturbed.after.worst > 0.2)
  end)

  it("has no error after one point, rather than one of zero", function()
    local _, errors = ts.calibrate { device = "RTX-4090", samples = { gemms()[1] } }
    assert.equal(1, errors.before.num_points)
    assert.equal(0, errors.after.num_points)
    assert.is_nil(errors.after.median)
    local mixed = gemms()
    mixed[#mixed + 1] = changed(gemms()[1], { dtype = "int4_wo" })
    _, errors = ts.calibrate { device = "RTX-4090", samples = mixed }
    assert.equal(8, errors.after.num_points)
    assert.truthy(errors.after.split:find("1 of 9 left out", 1, true), errors.after.split)
  end)

  it("takes batch and context as the columns are called", function()
    local profile = ts.calibrate { device = "RTX-4090", samples = layers() }
    assert.near(1.08e-3, (profile:layer_s(layer)), 1e-4)
  end)

  it("keeps what a device's own profile knows", function()
    local own = ts.profile { device = "A100-80G", kernel_set = "modern" }
    local samples = {}
    for _, point in ipairs(gemms()) do
      point.latency_s = own:gemm_s { dtype = point.dtype, m = point.m, n = point.n, k = point.k }
      samples[#samples + 1] = point
    end
    local profile, errors = ts.calibrate { device = "A100-80G", samples = samples }
    assert.equal("A100-80G", errors.donor)
    assert.near(0, errors.after.worst, 1e-9)
    assert.is_true(#profile.parts >= #own.parts)
    local query = changed(gemm, { dtype = "int4_wo" })
    assert.equal((own:gemm_s(query)), (profile:gemm_s(query)))
  end)

  it("refuses samples that contradict each other or are of something else", function()
    local function refuses(text, samples)
      raises("invalid_argument", text, function() ts.calibrate { device = "RTX-4090", samples = samples } end)
    end
    local first = gemms()[1]
    refuses("ts.calibrate.samples[2]: 1 s for gemm", { first, changed(first, { latency_s = 1 }) })
    refuses("samples[1]: measured with device 'L4'", gemms { device = "L4" })
    refuses("samples[1]: measured with kernel set 'vllm'", gemms { kernel_set = "vllm" })
    refuses("no samples; give at least one", {})
    refuses("a tessera.Profile has the wrong type; give table[]", (ts.profile { device = "L4" }))
    refuses("the fields of one sample where a list", first)
    refuses("samples[1].latency_s: missing", { gemm })
    refuses("samples[1].model: missing", { { phase = "decode", batch = 1, latency_s = 1 } })
  end)

  it("reads the samples from a file", function()
    local path = support.temporary(
      "device,kernel_set,dtype,op,phase,batch,tokens,context,latency_s,source,n,k,model\n"
      .. "RTX-4090,modern,bfloat16,gemm,,4,16,0,1e-4,mine,4096,4096,\n"
      .. "RTX-4090,modern,bfloat16,gemm,,,512,0,4e-4,mine,4096,4096,\n"
      .. "RTX-4090,modern,int4_wo,layer,decode,8,,512,1e-3,mine,,,opt-13b\n"
      .. "RTX-4090,modern,int4_wo,layer,decode,16,1,512,1.1e-3,mine,,,opt-13b\n")
    local profile, errors = ts.calibrate { device = "RTX-4090", samples = path }
    assert.equal(4, errors.before.num_points)
    local read = ts.read_profile_data(path)
    assert.equal(64, read[1].m)        -- batch times tokens
    assert.equal(4, read[3].bitwidth)  -- of the dtype: no column says it
    assert.near(1e-3, (profile:layer_s(layer)), 2e-4)
    assert.equal("tessera.Profile", getmetatable(ts.fit_profile { device = "RTX-4090", samples = path }))
    raises("invalid_argument", "validate one at a time", function()
      ts.cross_validate { device = "RTX-4090", samples = path }
    end)
    raises("invalid_argument", "'RTX-4090', the fit is for 'L4'", function()
      ts.calibrate { device = "L4", samples = path }
    end)
    raises("not_found", "No such file", function() ts.calibrate { device = "L4", samples = "no/such.csv" } end)
  end)

  it("says which columns a row is missing", function()
    local function refuses(text, row)
      local path = support.temporary(
        "device,kernel_set,dtype,op,phase,batch,tokens,context,latency_s,source\nT4-16G,vllm," .. row .. "\n")
      raises("invalid_argument", path .. ", line 2: " .. text, function() ts.read_profile_data(path) end)
    end
    refuses("no n, which a sample of gemm needs; its columns are n and k", "float16,gemm,,8,512,0,0.1,me")
    refuses("no num_heads, which a sample of attention needs", "float16,attention,decode,8,1,512,0.1,me")
    refuses("a layer without a model; add a column model", "float16,layer,decode,8,1,512,0.1,me")
  end)

  it("writes a profile that reads back, of a device of one's own too", function()
    local mine = {
      name = "mine", memory_bytes = 24e9, memory_bytes_per_s = 1e12, flop_per_s = { fp16 = 1e14 },
      compute_capability = 8.9,
    }
    local path = support.temporary()
    for _, device in ipairs { "RTX-4090", mine } do
      local profile = ts.calibrate { device = device, samples = gemms() }
      profile:save(path)
      local again = ts.profile { file = path }
      assert.equal(profile.device, again.device)
      assert.equal((profile:gemm_s(gemm)), (again:gemm_s(gemm)))
    end
  end)
end)

describe("ts.cross_validate", function()
  it("adds the prediction of a model that has not seen the fold", function()
    for _, method in ipairs { "operator", "table", "auto" } do
      local samples, errors = ts.cross_validate {
        device = "RTX-4090", samples = gemms(), method = method, hold_out = { "n" },
      }
      assert.equal(8, #samples)
      for _, sample in ipairs(samples) do
        assert.near(sample.predicted_s / sample.latency_s - 1, sample.error_ratio, 1e-12)
      end
      assert.equal(8, errors.num_points)
    end
    raises("not_found", "no method 'regression' for gemm; known: operator, table", function()
      ts.cross_validate { device = "RTX-4090", samples = gemms(), method = "regression" }
    end)
    raises("invalid_argument", "'q' is not a numeric field", function()
      ts.cross_validate { device = "RTX-4090", samples = gemms(), hold_out = { "q" } }
    end)
  end)
end)

describe("profiles of a problem", function()
  after_each(support.remove_files)

  local function plan_with(profiles)
    return ts.plan(ts.problem {
      model = "opt-13b", cluster = "1xRTX-4090", kernel_set = "modern", bitwidths = { 4 },
      workload = { prompt_tokens = 512, output_tokens = 2, batch_size = 8 }, profiles = profiles,
    })
  end

  it("price its layers, and the plan says so, a saved one too", function()
    local slow = layers()
    for _, sample in ipairs(slow) do sample.latency_s = 1000 * sample.latency_s end
    local plan, without = plan_with { (ts.calibrate { device = "RTX-4090", samples = slow }) }, plan_with {}
    assert.is_true(plan.latency_s > without.latency_s + 1)
    assert.equal("modelled", plan.provenance)  -- of the prompt pass nothing was measured
    assert.is_nil(plan.error)
    local path = support.temporary()
    plan:save(path)
    local again = ts.load_plan(path)
    assert.equal(plan.latency_s, again.latency_s)
    assert.equal(plan.provenance, again.provenance)
    assert.same(plan.notes, again.notes)
    assert.is_true(ts.check(plan))
  end)

  it("stay where something else changes, those of files too", function()
    local slow = layers()
    for _, sample in ipairs(slow) do sample.latency_s = 1000 * sample.latency_s end
    local path = support.temporary()
    ts.calibrate({ device = "RTX-4090", samples = slow }):save(path)
    local plan, without = plan_with { path }, plan_with {}
    local again = ts.plan(plan:problem():with { workload = { prompt_tokens = 512, output_tokens = 2, batch_size = 8 } })
    assert.is_true(plan.latency_s > without.latency_s + 1)
    assert.equal(plan.latency_s, again.latency_s)
  end)

  it("are refused where they are of nothing that the problem has", function()
    local other = ts.fit_profile { device = "L4", samples = gemms() }
    local mine = ts.fit_profile { device = "RTX-4090", samples = gemms() }
    raises("invalid_argument", "the cluster has no L4", function() plan_with { other } end)
    raises("invalid_argument", "a list of profiles", function() plan_with(mine) end)
    raises("invalid_argument", "a list of profiles", function() plan_with { mine = mine } end)
    raises("invalid_argument", "profiles[2]: a second profile of RTX-4090", function() plan_with { mine, mine } end)
    raises("invalid_argument", "of kernel set vllm", function()
      plan_with { (ts.fit_profile { device = "RTX-4090", kernel_set = "vllm", samples = gemms() }) }
    end)
  end)
end)
