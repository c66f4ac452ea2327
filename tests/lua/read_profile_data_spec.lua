-- ts.read_profile_data: samples as plain tables, the account of what was left out; ts.histogram.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local header = "device,kernel_set,dtype,op,phase,batch,tokens,context,latency_s,source,n,k,model\n"

describe("ts.read_profile_data", function()
  after_each(support.remove_files)

  it("gives plain samples and says what it left out", function()
    local path = support.temporary(header
      .. "T4-16G,vllm,float16,gemm,,,64,,0.001,mine,4096,2048,\n"
      .. "T4-16G,vllm,,layer,prefill,8,512,0,0.26,mine,,,opt-30b\n"
      .. "T4-16G,vllm,,layer,prefill,8,0,0,0,mine,,,opt-30b\n")
    local samples, account = ts.read_profile_data(path, { warn = false })
    assert.same({
      op = "gemm", dtype = "float16", m = 64, n = 4096, k = 2048, latency_s = 0.001, device = "T4-16G",
      kernel_set = "vllm", source = "mine",
    }, samples[1])
    assert.same({
      op = "layer", phase = "prefill", batch_size = 8, tokens = 512, context_tokens = 0, model = "opt-30b",
      bitwidth = 16, latency_s = 0.26, device = "T4-16G", kernel_set = "vllm", source = "mine",
    }, samples[2])
    assert.equal(2, #samples)
    assert.same({
      format = "tessera", num_repeats = 0, num_skipped = 1,
      skipped = { { reason = "a size of zero", count = 1, first_line = 4 } },
    }, account)
  end)

  it("lets options go before what the file says", function()
    local path = support.temporary(header .. "T4-16G,vllm,float16,gemm,,,64,,0.001,mine,4096,2048,\n")
    local samples = ts.read_profile_data(path, { format = "tessera", device = "V100-32G", kernel_set = "mine" })
    assert.equal("V100-32G", samples[1].device)
    assert.equal("mine", samples[1].kernel_set)
  end)

  it("names file and line of what is wrong", function()
    local path = support.temporary(header .. "T4-16G,vllm,float16,gemm,,,64,,nan,mine,4096,2048,\n")
    raises("invalid_argument", path .. ", line 2: 'latency_s' is 'nan'", function() ts.read_profile_data(path) end)
    raises("invalid_argument", "of no known format", function() ts.read_profile_data(support.temporary "a,b,c\n") end)
    raises("invalid_argument", "empty", function() ts.read_profile_data(support.temporary "") end)
    raises("not_found", "No such file", function() ts.read_profile_data "/no/such.csv" end)
    raises("invalid_argument", "did you mean 'helix'", function() ts.read_profile_data(path, { format = "helx" }) end)
    raises("invalid_argument", "did you mean 'device'", function() ts.read_profile_data(path, { devce = "T4-16G" }) end)
    raises("invalid_argument", "path", function() ts.read_profile_data() end)
  end)
end)

describe("ts.histogram", function()
  it("counts by bucket", function()
    local rows = ts.histogram({ 0, 127, 128, 512, 513, 9000 }, { 0, 128, 513 })
    assert.same({ "0-127", "128-512", "from 513" }, { rows[1].label, rows[2].label, rows[3].label })
    assert.same({ 2, 2, 2 }, { rows[1].count, rows[2].count, rows[3].count })
    assert.near(1 / 3, rows[2].share, 1e-12)
    assert.equal(0, ts.histogram({}, { 0 })[1].share)
  end)

  it("refuses what has no bucket", function()
    raises("invalid_argument", "values[1]", function() ts.histogram({ -1 }, { 0 }) end)
    raises("invalid_argument", "values[1]", function() ts.histogram({ support.nan }, { 0 }) end)
    raises("invalid_argument", "edges[1]", function() ts.histogram({}, { 2, 1 }) end)
    raises("invalid_argument", "edges", function() ts.histogram({}, {}) end)
    raises("invalid_argument", "values", function() ts.histogram(3, { 0 }) end)
    raises("invalid_argument", "edges: the list has gaps", function() ts.histogram({ 1 }, { nil, 2 }) end)
    raises("invalid_argument", "values: the list has gaps", function() ts.histogram({ 1, nil, 3 }, { 0 }) end)
  end)
end)
