-- The line of an experiment in the summary of a report: published cells, how far off they are, claims.
local summary = require "tessera.desk.report.summary"

local function run_of(claims)
  return {
    experiment = "t", claims = claims,
    declaration = {
      keys = { "planner" }, columns = { "throughput_tok_s", "perplexity" },
      paper = {
        { point = { planner = "a" }, throughput_tok_s = 100, perplexity = 10.3 },
        { point = { planner = "b" }, throughput_tok_s = 50, perplexity = 10.4 },
        { point = { planner = "c" }, throughput_tok_s = 10 }, { point = { planner = "d" } },
      },
    },
  }
end

local function row(planner, value, status)
  return { point = { planner = planner }, status = status or "done", throughput_tok_s = value, meta = {},
    error = status == "failed" and "no" or nil }
end

describe("the summary of a report", function()
  it("compares what both have", function()
    local line = summary.of(run_of {}, { row("a", 110), row("b", 25), row("c", 10.2), row("d", 1), row("e", 1) })
    assert.equal(3, line.cells)
    assert.near(10, line.median_difference, 1e-9)
    assert.equal(5, line.points)
  end)

  it("takes the mean of the two in the middle", function()
    assert.near(30, summary.of(run_of {}, { row("a", 110), row("b", 25) }).median_difference, 1e-9)
  end)

  it("says nothing of what is not there", function()
    local line = summary.of(run_of {}, { row("a", nil, "infeasible"), row("d", 3) })
    assert.equal(0, line.cells)
    assert.is_nil(line.median_difference)
    assert.is_nil(summary.line(line)[3])
  end)

  it("counts claims, and points that failed beside those that fail", function()
    local claims = { { status = "pass" }, { status = "pass" }, { status = "differs" }, { status = "fail" },
      { status = "skipped" }, { status = "note" }, { status = "note" }, { status = "note" } }
    local line = summary.of(run_of(claims), { row("a", 100), row("b", nil, "failed") })
    assert.same({ "t", 2, 1, 0, 2, 1, 2, 1, 3 }, summary.line(line))
  end)

  it("adds up", function()
    local line = summary.of(run_of { { status = "pass" } }, { row("a", 110) })
    local sheet = summary.sheet { line, line }
    assert.equal(3, #sheet.lines)
    assert.equal("all", sheet.lines[3][1])
    assert.equal(2, sheet.lines[3][5])
    assert.is_nil(sheet.lines[3][4])
    assert.equal(1, #summary.sheet({ line }).lines)
  end)
end)
