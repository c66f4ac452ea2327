-- What the specs share: checks of error objects and of read-only objects, and files that go away again.

local assert = require "luassert"

local M = {}

--- Calls `fn`, which must raise an error object with this code and a one-line message that contains `text`.
function M.raises(code, text, fn)
  local ok, err = pcall(fn)
  assert.is_false(ok, "nothing was raised, expected: " .. text)
  assert.is_table(err, tostring(err))
  assert.equal(code, err.code, tostring(err))
  assert.truthy(err.message:find(text, 1, true), err.message .. "\ndoes not contain: " .. text)
  assert.not_matches("\n", err.message)
  assert.equal(err.message, tostring(err))
  return err
end

--- A `nil, why` with this code, whose message contains `text`.
function M.declines(code, text, result, why)
  assert.is_nil(result)
  assert.equal(code, why.code)
  assert.truthy(why.message:find(text, 1, true), why.message)
  return why
end

--- A description of a problem with what it leaves out settled: every device on its own, holding layers, the kernels
--- that run everywhere, the papers' bitwidths. For what is about planners, not about defaults.
function M.settled(description)
  local own = { preset = "splitquant", kernel_set = "tessera", memory = "physical" }
  for key, value in pairs(description) do own[key] = value end
  return own
end

local function check_type(name, expected, value)
  local optional = expected:sub(-1) == "?"
  if optional and value == nil then return end
  expected = optional and expected:sub(1, -2) or expected
  if expected == "integer" then
    assert.equal("number", type(value), name)
    assert.equal(math.floor(value), value, name .. " is no integer")
  elseif expected == "list" then
    assert.equal("table", type(value), name)
    for key in pairs(value) do assert.equal("number", type(key), name) end
  elseif expected:find "^tessera%." then
    assert.equal(expected, getmetatable(value), name)
  else
    assert.equal(expected, type(value), name)
  end
end

--- Checks an object of the engine: every field present and of its type, nothing assignable, no unknown names,
--- one-line tostring, and a to_table that holds the same. `fields`: name -> type, with "?" where it may be nil.
function M.is_object(object, type_name, fields)
  assert.equal("userdata", type(object))
  assert.equal(type_name, getmetatable(object))
  local plain = object:to_table()
  assert.is_table(plain)
  for name, expected in pairs(fields) do
    check_type(type_name .. "." .. name, expected, object[name])
    local kind = type(object[name])
    if kind == "userdata" then
      assert.is_table(plain[name])
    elseif kind ~= "table" then
      assert.equal(object[name], plain[name])
    end
    M.raises("invalid_argument", type_name .. " is read-only: cannot set '" .. name .. "'",
      function() object[name] = 1 end)
  end
  for name in pairs(plain) do assert.is_string(fields[name], type_name .. "." .. name .. " is not expected") end
  M.raises("invalid_argument", "has no field 'no_such_field'", function() return object.no_such_field end)
  M.raises("invalid_argument", "read-only", function() object.new_field = 1 end)
  assert.is_string(tostring(object))
  assert.not_matches("\n", tostring(object))
end

--- Path of a new empty file, removed after the test by `M.remove_files`.
local files = {}
function M.temporary(content)
  local path = os.tmpname()
  files[#files + 1] = path
  local file = assert(io.open(path, "wb"))
  file:write(content or "")
  file:close()
  return path
end

function M.remove_files()
  for _, path in ipairs(files) do os.remove(path) end
  files = {}
end

function M.read(path)
  local file = assert(io.open(path, "rb"))
  local content = file:read "*a"
  file:close()
  return content
end

--- A copy of `base` with `changes`.
function M.changed(base, changes)
  local copy = {}
  for key, value in pairs(base) do copy[key] = value end
  for key, value in pairs(changes or {}) do copy[key] = value end
  return copy
end

--- A problem that plans in a moment.
function M.small_problem(changes)
  return require("tessera").problem(M.settled(M.changed({
    model = "opt-125m", cluster = { { "T4-16G", 1, node = "a" }, { "V100-32G", 1, node = "b" }, link_gbps = 100 },
    workload = { prompt_tokens = 64, output_tokens = 8, batch_size = 4 }, bitwidths = { 4, 8, 16 },
  }, changes)))
end

--- Calls `use(problem, plan)` with a small plan made once.
local plan
function M.small_plan()
  plan = plan or assert(require("tessera").plan(M.small_problem(),
    { prefill_micro_batch_size = 2, decode_micro_batch_size = 4 }))
  return plan
end

--- Path of an instance file that can be worked out by hand: types and counts as given, 4 layers, bitwidths 4 and 8.
--- Files go away with `M.remove_files`.
function M.tiny_instance(types)
  types = types or { { name = "A", count = 1, mem_gb = 5 }, { name = "B", count = 1, mem_gb = 5 } }
  local names, prefill, decode, links = {}, {}, {}, {}
  for t, item in ipairs(types) do
    names[t] = ('{"name": "%s", "count": %d, "mem_gb": %g}'):format(item.name, item.count, item.mem_gb)
    local speed = item.speed or t
    local function rows(scale)
      local list = {}
      for size = 1, 4 do
        list[size] = ("[%g, %g]"):format(scale * speed * (0.5 + size), scale * speed * (0.6 + 1.3 * size))
      end
      return ('"%s": [%s]'):format(item.name, table.concat(list, ", "))
    end
    prefill[t], decode[t] = rows(0.1), rows(0.01)
    local row = {}
    for other = 1, #types do row[other] = item.link_gbs or 1 + math.min(t, other) end
    links[t] = "[" .. table.concat(row, ", ") .. "]"
  end
  return M.temporary(([=[{"name": "tiny", "L": 4, "bits": [4, 8], "B": 4, "s": 10, "n": 5, "theta": 0.5,
    "omega": [[0.5, 0.1], [0.3, 0.05], [0.2, 0.04], [0.4, 0.02]], "mem_layer_gb": [1, 2], "mem_emb_gb": 0.5,
    "types": [%s], "lat_pre": {%s}, "lat_dec": {%s}, "mem_tmp_pre_gb": [0.1, 0.1, 0.2, 0.2],
    "mem_tmp_dec_gb": [0.1, 0.1, 0.1, 0.1], "link_gbs": [%s], "pay_pre_gb": 0.01, "pay_dec_gb": 0.001}]=]):format(
    table.concat(names, ", "), table.concat(prefill, ", "), table.concat(decode, ", "), table.concat(links, ", ")))
end

M.nan, M.inf = 0 / 0, math.huge
--- What nobody may pass for a positive integer, with words of the message.
M.bad_integers = {
  { 3.7, "3.7 is not an integer" }, { M.nan, "NaN" }, { M.inf, "inf is not finite" }, { -M.inf, "-inf is not finite" },
  { 2 ^ 53 + 2, "beyond 2^53" }, { -1, "-1 is out of range" }, { 0, "0 is out of range" },
  { "7", "the string '7' is not a number" }, { true, "true is not a number" }, { {}, "a table is not a number" },
  { print, "a function is not a number" },
}

return M
