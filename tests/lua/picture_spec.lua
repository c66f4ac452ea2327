-- ts.picture: what the SVG shows, and that nothing of a user's can break it.
local ts = require "tessera"

local function picture_of(model, device)
  local problem = ts.problem {
    model = model, cluster = { { device, 2 } }, workload = { prompt_tokens = 64, output_tokens = 16, batch_size = 4 },
    bitwidths = { 4, 8 },
  }
  local plan = assert(ts.plan(problem, { planner = "uniform" }))
  local path = os.tmpname()
  ts.picture(plan, path)
  local file = assert(io.open(path))
  local text = file:read "*a"
  file:close()
  os.remove(path)
  return text, plan
end

local function count(text, pattern) return select(2, text:gsub(pattern, "")) end

describe("ts.picture", function()
  it("draws every layer once and every stage's memory", function()
    local text, plan = picture_of("opt-1.3b", "T4-16G")
    for layer = 0, 23 do
      assert.equal(1, count(text, "<title>layer " .. layer .. ": 8 bit</title>"))
    end
    assert.equal(#plan.stages, count(text, "<title>weights "))
    assert.equal(#plan.stages, count(text, "<title>capacity "))
    assert.matches("tok/s %(modelled%)", text)
  end)

  it("closes every element", function()
    local text = picture_of("opt-125m", "T4-16G")
    for _, element in ipairs { "svg", "text", "title", "style" } do
      assert.equal(count(text, "<" .. element .. "[ >]"), count(text, "</" .. element .. ">"))
    end
    assert.equal(count(text, "<rect "), count(text, "</rect>") + count(text, "<rect [^>]*/>"))
  end)

  it("escapes names", function()
    local device = ts.device("T4-16G"):to_table()
    device.name = "<script>&\"x"
    local text = picture_of("opt-125m", ts.device(device))
    assert.is_nil(text:find("<script>", 1, true))
    assert.truthy(text:find("&lt;script&gt;&amp;&quot;x", 1, true))
  end)

  it("draws who was busy when in a simulated batch", function()
    local _, plan = picture_of("opt-125m", "T4-16G")
    local path = os.tmpname()
    ts.picture(ts.simulate(plan), path)
    local file = assert(io.open(path))
    local text = file:read "*a"
    file:close()
    os.remove(path)
    assert.matches("simulated batch", text)
    assert.matches("<title>prefill of micro%-batch 0: ", text)
    local ok, why = pcall(ts.picture, ts.simulate(plan, { record = false }), path)
    assert.is_false(ok)
    assert.matches("the run has no timeline", why.message)
  end)

  it("says what it cannot do", function()
    local wrong, kind = pcall(ts.picture, ts.model "opt-125m", "x.svg")
    assert.is_false(wrong)
    assert.matches("not a tessera.Model", kind.message)
    local _, plan = picture_of("opt-125m", "T4-16G")
    assert.has_error(function() ts.picture({}, "x.svg") end)
    local ok, why = pcall(ts.picture, plan, "/nowhere/at/all.svg")
    assert.is_false(ok)
    assert.matches("/nowhere/at/all.svg", why.message)
    ok, why = pcall(ts.picture, plan)
    assert.is_false(ok)
    assert.matches("path", tostring(why))
  end)
end)
