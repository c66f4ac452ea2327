-- ts.weights and ts.tensor: what scripts see of files of weights.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local here = debug.getinfo(1, "S").source:match "^@(.*)/"
local blocks = here .. "/../reference/blocks.gguf"
local numbers = here .. "/../reference/blocks.safetensors"

-- Whole numbers below 2^32, little-endian, in `size` bytes.
local function bytes(value, size)
  local text = {}
  for i = 1, size do
    text[i] = string.char(value % 256)
    value = math.floor(value / 256)
  end
  return table.concat(text)
end

local function safetensors(header, data) return bytes(#header, 8) .. header .. data end

describe("ts.weights", function()
  after_each(support.remove_files)

  it("is an object that shows what it holds", function()
    local weights = ts.weights(blocks)
    support.is_object(weights, "tessera.Weights", {
      path = "string", files = "list", num_tensors = "integer", size_bytes = "integer", config = "table?",
      metadata = "table",
    })
    assert.equal(28, weights.num_tensors)
    assert.same({ blocks }, weights.files)
    assert.equal("llama", weights.config["general.architecture"])
    assert.truthy(tostring(weights):find("28 tensors", 1, true))
    assert.equal(weights.num_tensors, ts.weights({ path = blocks }).num_tensors)
  end)

  it("iterates the tensors in the order of the file", function()
    local weights = ts.weights(numbers)
    local seen, reached = {}, 0
    for tensor in weights:tensors() do
      seen[#seen + 1] = tensor.name
      assert.same({ 2, 512 }, tensor.shape)
      assert.equal("F32", tensor.dtype)
      assert.equal(numbers, tensor.file)
      assert.equal(2 * 512 * 4, tensor.size_bytes)
      assert.is_true(tensor.offset_bytes >= reached)
      reached = tensor.offset_bytes + tensor.size_bytes
    end
    table.sort(seen)
    assert.equal(27, #seen)
    assert.same({ "BF16", "F16", "IQ1_M" }, { seen[1], seen[2], seen[3] })
  end)

  it("prints a line for all layers that look alike", function()
    local header = '{"h.0.w":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},'
      .. '"h.1.w":{"dtype":"F16","shape":[1],"data_offsets":[2,4]},'
      .. '"h.3.w":{"dtype":"F16","shape":[1],"data_offsets":[4,6]},'
      .. '"wte":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}}'
    local lines = {}
    local weights = ts.weights(support.temporary(safetensors(header, ("x"):rep(8))))
    local text = debug.getmetatable(weights).__full(weights) -- what print shows
    for line in text:gmatch "[^\n]+" do lines[#lines + 1] = (line:gsub("%s+", " "):gsub("%s$", "")) end
    assert.same({ " layers tensor shape dtype tensors size", " wte [2] U8 1 2 B", " 0-1, 3 h.*.w [1] F16 3 6 B" },
      { lines[2], lines[3], lines[4] })
  end)

  it("says what is wrong with a file, and where", function()
    raises("not_found", "none.safetensors", function() return ts.weights "none.safetensors" end)
    raises("invalid_argument", "byte 0", function() return ts.weights(support.temporary "") end)
    raises("unsupported", "scripts/convert_checkpoint.py",
      function() return ts.weights(support.temporary "\128\2}") end)
    raises("invalid_argument", "ts.weights", function() return ts.weights(3) end)
    raises("invalid_argument", "path", function() return ts.weights { file = "x" } end)
    raises("not_found", "config.json", function() return ts.weights(numbers):model() end)
    raises("not_found", "did you mean 'Q4_0'", function() return ts.weights(blocks):tensor "Q4_O" end)
  end)
end)

describe("a tensor of a file", function()
  it("is an object with numbers in it", function()
    local weights, expected = ts.weights(blocks), ts.weights(numbers)
    for _, name in ipairs { "F16", "Q4_K", "Q6_K", "IQ2_S" } do
      local tensor, known = weights:tensor(name), expected:tensor(name)
      assert.equal(name, tensor:dtype())
      assert.equal("F32", known:dtype())
      assert.same(known:shape(), tensor:shape())
      assert.same(known:to_table(), tensor:to_table())
      for _, moment in ipairs { "min", "max", "mean", "variance" } do
        assert.near(known[moment](known), tensor[moment](tensor), 1e-9)
      end
    end
    support.raises("unsupported", "Q8_1", function() return weights:tensor("Q8_1"):min() end)
  end)

  it("gives its numbers in parts", function()
    local tensor = ts.weights(numbers):tensor "Q4_0"
    local all = tensor:to_table()
    assert.equal(2 * 512, #all)
    assert.same({ all[511], all[512], all[513] }, tensor:to_table(511, 3))
    assert.same({ all[1024] }, tensor:to_table(1024))
    assert.same({}, tensor:to_table(1025))
    raises("out_of_range", "first", function() return tensor:to_table(0) end)
    raises("out_of_range", "first", function() return tensor:to_table(1026) end)
    raises("out_of_range", "count", function() return tensor:to_table(1024, 2) end)
  end)
end)

describe("ts.tensor", function()
  it("makes one", function()
    local tensor = ts.tensor { shape = { 2, 2 }, data = { 1, 2, 3, 6 } }
    assert.same({ 2, 2 }, tensor:shape())
    assert.same({ 1, 2, 3, 6 }, tensor:to_table())
    assert.same({ 1, 6, 3, 3.5, 0 },
      { tensor:min(), tensor:max(), tensor:mean(), tensor:variance(), tensor:num_not_finite() })
    assert.equal("tensor mine: F32 [1]", tostring(ts.tensor { shape = { 1 }, data = { 1 }, name = "mine" }))
  end)

  it("has no moments where it has no numbers", function()
    local tensor = ts.tensor { shape = { 0 }, data = {} }
    assert.is_nil(tensor:min())
    assert.is_nil(tensor:variance())
    assert.same({}, tensor:to_table())
  end)

  it("refuses what does not fit", function()
    raises("invalid_argument", "3 values for the shape [2, 2]",
      function() return ts.tensor { shape = { 2, 2 }, data = { 1, 2, 3 } } end)
    raises("invalid_argument", "ts.tensor.data[2]",
      function() return ts.tensor { shape = { 2 }, data = { 1, "2" } } end)
    raises("invalid_argument", "ts.tensor.data[1]", function() return ts.tensor { shape = { 1 }, data = { 0 / 0 } } end)
    -- Numbers and objects were read as if they were tables, out of memory that is not theirs.
    for _, foreign in ipairs { 4, "4", true, print, ts.model "opt-125m", io.stdout } do
      raises("invalid_argument", "ts.tensor.data: ", function() return ts.tensor { shape = { 16 }, data = foreign } end)
    end
    raises("invalid_argument", "ts.tensor.data: the list has gaps",
      function() return ts.tensor { shape = { 3 }, data = { 1, nil, 3 } } end)
    raises("out_of_range", "ts.tensor.shape", function() return ts.tensor { shape = { -1 }, data = {} } end)
    raises("invalid_argument", "ts.tensor.shape", function() return ts.tensor { data = {} } end)
  end)
end)
