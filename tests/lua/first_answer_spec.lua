-- What `tessera plan` says first: the deployment that `tessera capacity` finds, why, within 80 columns; or what would
-- serve.

local core = require "tessera.core"
local host = require "tessera.host"

local function run(...) return host.run_program({ "env", "COLUMNS=80", host.program, ... }, "") end

local function widest(text)
  local most = 0
  for line in text:gmatch "[^\n]+" do
    most = math.max(most, select(2, line:gsub("[^\128-\191]", "")))
  end
  return most
end

describe("tessera plan without a batch", function()
  it("answers as tessera capacity does", function()
    for _, case in ipairs { { "llama-3.1-8b", "2xL4" }, { "qwen2.5-14b", "1xA100-40G+2xT4-16G" } } do
      local answers = {}
      for i, verb in ipairs { "plan", "capacity" } do
        local status, text, err = run(verb, "--model", case[1], "--cluster", case[2], "--json")
        assert.equal(0, status, err)
        answers[i] = core.from_json(text).options
      end
      assert.is_true(#answers[1] > 0)
      assert.same(answers[1], answers[2])
    end
  end)

  it("says what it assumed, what to start, why, and what others would give", function()
    local status, text, err = run("plan", "--model", "llama-3.1-8b", "--cluster", "1xA100-40G+2xT4-16G")
    assert.equal(0, status, err)
    assert.is_true(widest(text) <= 80, text)
    text = text:gsub("\n    +", " ") -- as it was before it was wrapped
    assert.matches("a stream of requests of 1000 prompt and 200 output", text)
    assert.matches("TTFT p99 at most 2.00 s", text)
    assert.matches("\n1 x A100%-40G %(1 GPU%): %d+%-bit weights", text)
    assert.matches("serves [%d.]+ req/s", text)
    assert.matches("mixing", text)
    assert.matches("\nOthers:\n", text)
  end)

  it("plans a batch where one is asked for, and says what the stream's answer is", function()
    local status, text, err = run("plan", "--model", "llama-3.1-8b", "--cluster", "1xA100-40G+1xT4-16G", "--batch-size",
      "8")
    assert.equal(0, status, err)
    assert.matches("an offline batch\n", text)
    assert.matches("Gain of mixing: ", text)
    assert.matches("best_homogeneous", text)
    assert.matches("As a stream", text)
    assert.is_true(widest(text) <= 80, text)
    status, text, err = run("plan", "--model", "opt-125m", "--cluster", "1xL4", "--theta", "3", "--no-beside")
    assert.equal(0, status, err)
    assert.matches("since %-%-theta is", text)
  end)

  it("is not worse for a device of another vendor more", function()
    local function rate(cluster)
      local status, text, err = run("plan", "--model", "llama-3.1-8b", "--cluster", cluster, "--json")
      assert.equal(0, status, err)
      return core.from_json(text).options[1].rate_per_s
    end
    local both = rate "1xL4+1xMI300X"
    assert.is_true(both >= rate "1xMI300X" / 1.07) -- rates are known to 7 %
    assert.is_true(both >= rate "1xL4" / 1.07)
  end)

  it("says what would serve where nothing does", function()
    local status, text, err = run("plan", "--model", "llama-3.3-70b", "--cluster", "1xT4-16G")
    assert.equal(3, status, text)
    assert.matches("\n  memory: ", err)
    local _, lines = err:match("^(.-)\nWhat would serve:\n"):gsub("\n", "")
    assert.is_true(lines < 6, err)
    assert.matches("with 2 nodes of 8 x T4%-16G: [^\n]* req/s", err)
    status, _, err = run("plan", "--model", "llama-3.1-8b", "--cluster", "1xL4", "--ttft-p99", "0.05")
    assert.equal(3, status)
    assert.matches("\n  latency: ", err)
    assert.matches("with limits [%d.]+ times as long: ", err)
    status, _, err = run("plan", "--model", "llama-3.3-70b", "--cluster", "2xRTX-4090", "--bitwidths", "16")
    assert.equal(3, status)
    assert.matches("without %-%-bitwidths: [^\n]* at 4 bits", err)
  end)
end)
