-- ts.device: shipped names, files, fields; the object; what is refused.
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local function fields(changes)
  local description = {
    name = "Mine", memory_bytes = 8 * 2 ^ 30, memory_bytes_per_s = 3e11, flop_per_s = { fp16 = 2e13 },
  }
  for key, value in pairs(changes or {}) do description[key] = value end
  return description
end

describe("ts.device", function()
  after_each(support.remove_files)

  it("has the fields of the contract", function()
    local expected = {
      name = "string", full_name = "string", memory_bytes = "number", memory_bytes_per_s = "number",
      flop_per_s = "table", compute_capability = "number", num_multiprocessors = "number?",
      sustained_flop_ratio = "number",
      pcie_bytes_per_s = "number", peer_access = "boolean?", nvlink_bytes_per_s = "number?",
      price_usd_per_h = "number?", price_source = "string", source = "string",
    }
    support.is_object(ts.device "T4-16G", "tessera.Device", expected)
    support.is_object(ts.device "V100-32G", "tessera.Device", expected)
    support.is_object(ts.device(fields()), "tessera.Device", expected)
  end)

  it("is in base units", function()
    local t4 = ts.device "T4-16G"
    assert.near(16e9, t4.memory_bytes, 1e9)
    assert.near(320e9, t4.memory_bytes_per_s, 1e9)
    assert.near(65e12, t4.flop_per_s.fp16, 1e12)
    assert.equal(130e12, t4.flop_per_s.int8)
    assert.equal(40, t4.num_multiprocessors)
    assert.matches("^device T4%-16G: 1%d%.%d%d GiB", tostring(t4))
  end)

  it("is a copy: tables read from it are the reader's own", function()
    local t4 = ts.device "T4-16G"
    t4.flop_per_s.fp16 = 1
    assert.near(65e12, t4.flop_per_s.fp16, 1e12)
  end)

  it("is found in any case, and near names are offered", function()
    assert.equal("T4-16G", ts.device "t4-16g".name)
    local err = raises("not_found", "did you mean 'T4-16G'", function() return ts.device "T4-16" end)
    assert.equal("ts.device", err.where)
    raises("not_found", "unknown device 'T4-16G?'", function() return ts.device "T4-16G\0" end)
    raises("not_found", "unknown device '../T4-16G'", function() return ts.device "../T4-16G" end)
    raises("invalid_argument", "did you mean 'memory_bytes'",
      function() return ts.device(fields { memory_byte = 3 }) end)
  end)

  it("is read from a file, whose fields cannot be said again", function()
    local path = support.temporary [[{ "name": "Filed", "memory_gib": 8, "memory_bytes_per_s": 3e11,
      "flop_per_s": { "fp16": 2e13 } }]]
    local d = ts.device { file = path }
    assert.equal("Filed", d.name)
    assert.equal(8 * 2 ^ 30, d.memory_bytes)
    raises("invalid_argument", "ts.device.memory_bytes: the file says it",
      function() return ts.device { file = path, memory_bytes = 3e9 } end)
  end)

  it("refuses wrong types and numbers, with range and unit", function()
    for _, value in ipairs { 3, true, print, ts.model "opt-125m" } do
      raises("invalid_argument", "ts.device", function() return ts.device(value) end)
    end
    raises("invalid_argument", "ts.device", function() return ts.device() end)
    raises("invalid_argument", "'name' is missing", function() return ts.device {} end)
    local sheet = { name = "X", memory_gib = 24, memory_bytes_per_s = 1e12, flop_per_s = { fp16 = 1e14 } }
    assert.equal(24 * 2 ^ 30, ts.device(sheet).memory_bytes)
    sheet.memory_bytes = 1e9
    raises("invalid_argument", "the memory is given twice", function() return ts.device(sheet) end)
    for _, case in ipairs {
      { "memory_bytes", -1, "(bytes)" }, { "memory_bytes", 0, "(bytes)" }, { "memory_bytes", support.nan, "NaN" },
      { "memory_bytes", support.inf, "inf is not finite" }, { "memory_bytes", "16G", "not a number" },
      { "memory_bytes_per_s", -1, "(bytes/s)" }, { "price_usd_per_h", -0.1, "(USD/h)" },
      { "compute_capability", 0, "out of range" },
    } do
      local ok, err = pcall(ts.device, fields { [case[1]] = case[2] })
      assert.is_false(ok)
      assert.equal("ts.device." .. case[1], err.where)
      assert.truthy(err.message:find(case[3], 1, true), err.message)
    end
    raises("invalid_argument", "flop_per_s", function() return ts.device(fields { flop_per_s = {} }) end)
    raises("invalid_argument", "flop_per_s", function() return ts.device(fields { flop_per_s = { fp17 = 1 } }) end)
    raises("invalid_argument", "flop_per_s",
      function() return ts.device(fields { flop_per_s = { fp16 = support.nan } }) end)
    raises("invalid_argument", "no device name", function() return ts.device(fields { name = "a/b" }) end)
    raises("invalid_argument", "not UTF-8", function() return ts.device(fields { name = "\255" }) end)
  end)

  it("names the file that is broken", function()
    for content, text in pairs {
      [""] = "empty, JSON expected", ["{"] = "not valid JSON", ["3"] = "an integer where an object belongs",
      ['{"name":"x","name":"y"}'] = "appears twice", ['{"name":"x","memory_bytes":1e400}'] = "too large",
      ['{"name":"x","memory_bytes":-5}'] = "memory_bytes", [("{\"a\":"):rep(1e5)] = "nested deeper",
      ['{"name":"x","memory_bytes":1e10,"memory_bytes_per_s":1e11,"flop_per_s":{"fp16":1e13},"bogus":1}'] =
        "unknown field 'bogus'",
    } do
      local path = support.temporary(content)
      local ok, err = pcall(ts.device, { file = path })
      assert.is_false(ok)
      assert.truthy(err.message:find(path, 1, true) and err.message:find(text, 1, true), err.message)
      assert.not_matches("\n", err.message)
    end
  end)
end)
