-- ts.picture: what the SVG shows, and that nothing of a user's can break it.
local support = require "support"
local ts = require "tessera"

local function drawn(thing)
  local path = support.temporary()
  ts.picture(thing, path)
  return support.read(path)
end

local function picture_of(model, device)
  local problem = ts.problem {
    model = model, cluster = { { device, 2 } }, workload = { prompt_tokens = 64, output_tokens = 16, batch_size = 4 },
    bitwidths = { 4, 8 },
  }
  local plan = assert(ts.plan(problem, { planner = "uniform" }))
  return drawn(plan), plan
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
    local text = drawn(ts.simulate(plan))
    assert.matches("simulated batch", text)
    assert.matches("<title>prefill of micro%-batch 0: ", text)
    local ok, why = pcall(ts.picture, ts.simulate(plan, { record = false }), support.temporary())
    assert.is_false(ok)
    assert.matches("the run has no timeline", why.message)
  end)

  it("draws a served run beside its limits and what its KV cache holds", function()
    local function served(slo)
      return ts.serve(ts.deployment { step_cost = { base_s = 0.02, per_token_s = 1e-4 }, replicas = 2, router =
        "least_requests", engine = { kv_blocks = 300 } },
        ts.traffic { rate_per_s = 20, num_requests = 200, prompt_tokens = 200, output_tokens = 40, seed = 3 },
        { slo = slo })
    end
    local text = drawn(served { ttft_s = { p99 = 0.5 }, tpot_s = { p90 = 1e-3 } })
    assert.matches(">200 requests on 2 x step_cost<", text)
    assert.matches(">KV blocks; %- %- all 600", text)
    assert.matches(">TTFT by arrival %(s%); %- %- p99 at most 500%.00 ms: kept", text)
    assert.matches(">TPOT by arrival %(s%); %- %- p90 at most 1%.00 ms: missed<", text)
    assert.equal(3 + 4 + 1, count(text, "<polyline "))
    assert.matches(">TTFT by arrival %(s%)<", drawn(served()))
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
