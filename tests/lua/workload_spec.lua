-- ts.workload: fields, shipped names, length files; the object; what is refused.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

describe("ts.workload", function()
  after_each(support.remove_files)

  it("has the fields of the contract", function()
    local expected = {
      name = "string", prompt_tokens = "number", output_tokens = "number", batch_size = "integer",
      max_prompt_tokens = "integer", max_output_tokens = "integer", chunk_tokens = "integer?", num_chunks = "integer",
      source = "string", context_tokens = "number", num_requests = "integer?", num_left_out = "integer?",
      has_arrivals = "boolean",
    }
    support.is_object(ts.workload.llmpq, "tessera.Workload", expected)
    support.is_object(ts.workload { chunk_tokens = 100 }, "tessera.Workload", expected)
  end)

  it("says what it was given", function()
    local w = ts.workload { prompt_tokens = 512, output_tokens = 100, batch_size = 32 }
    assert.equal(512, w.prompt_tokens)
    assert.equal(100, w.output_tokens)
    assert.equal(32, w.batch_size)
    assert.is_nil(w.chunk_tokens)
    assert.equal(1, w.num_chunks)
    assert.equal(6, ts.workload { prompt_tokens = 512, chunk_tokens = 100 }.num_chunks)
    assert.equal("workload: 32 requests of 512 prompt and 100 output tokens", tostring(w))
  end)

  it("takes lengths from a file", function()
    local path = support.temporary "prompt_tokens,output_tokens\n100,10\r\n300,30\n# note\n\n"
    local w = ts.workload { lengths = path, batch_size = 2 }
    assert.equal(200, w.prompt_tokens)
    assert.equal(20, w.output_tokens)
    assert.equal(300, w.max_prompt_tokens)
    raises("invalid_argument", "either lengths or prompt_tokens",
      function() return ts.workload { lengths = path, prompt_tokens = 3 } end)
    for content, text in pairs {
      [""] = "no lengths in it", ["a,b\n"] = "no lengths in it", ["1,2\n3\n"] = "line 2", ["1,2\n0,5\n"] = "line 2",
      ["1,2\n3,1e9\n"] = "line 2", ["1,2\n3,-4\n"] = "line 2", ["1,2\n99999999999999999999,4\n"] = "line 2",
      ["1,2\n3,4.5\n"] = "line 2",
    } do
      raises("invalid_argument", text, function() return ts.workload { lengths = support.temporary(content) } end)
    end
    raises("not_found", "No such file", function() return ts.workload { lengths = "/no/such.csv" } end)
    raises("io", "Is a directory", function() return ts.workload { lengths = "/" } end)
  end)

  it("offers the nearest names", function()
    raises("not_found", "did you mean 'llmpq'", function() return ts.workload.lmpq end)
    raises("not_found", "did you mean 'llmpq'", function() return ts.workload "lmpq" end)
    raises("invalid_argument", "did you mean 'prompt_tokens'", function() return ts.workload { promt_tokens = 3 } end)
    raises("invalid_argument", "read-only", function() ts.workload.mine = 3 end)
  end)

  it("refuses bad numbers", function()
    for _, case in ipairs(support.bad_integers) do
      local ok, err = pcall(ts.workload, { batch_size = case[1] })
      assert.is_false(ok)
      assert.equal("ts.workload.batch_size", err.where)
      assert.truthy(err.message:find(case[2], 1, true), err.message)
      assert.matches("give an integer in %[1, 1000000%] %(requests%)", err.message)
    end
    for _, tokens in ipairs { 0, -1, support.nan, support.inf, "512", {}, 1e9 } do
      local ok, err = pcall(ts.workload, { prompt_tokens = tokens })
      assert.is_false(ok)
      assert.matches("%(tokens%)", err.message)
    end
    raises("out_of_range", "below the mean of 512 tokens",
      function() return ts.workload { prompt_tokens = 512, max_prompt_tokens = 511 } end)
    for _, value in ipairs { 3, true, print, ts.device "T4-16G" } do
      raises("invalid_argument", "ts.workload", function() return ts.workload(value) end)
    end
  end)
end)
