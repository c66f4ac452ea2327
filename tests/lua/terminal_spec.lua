-- Text for terminals, and what the host says about stdout.
local host = require "tessera.host"
local support = require "support"
local terminal = require "tessera.terminal"
local raises = support.raises

describe("tessera.terminal", function()
  it("knows what stdout is", function()
    local facts = terminal.facts()
    assert.equal("boolean", type(facts.is_terminal))
    assert.is_true(facts.columns > 0)
    if not facts.is_terminal then assert.is_false(facts.colour) end
  end)

  it("counts, cuts and pads characters", function()
    assert.equal(3, terminal.width "aé█")
    assert.equal("ab…", terminal.fit("abcd", 3))
    assert.equal("█é", terminal.fit("█é", 2))
    assert.equal("a  |", terminal.pad("a", 3) .. "|")
    assert.equal("  a", terminal.pad("a", 3, true))
    assert.equal("…", terminal.pad("abc", 1))
  end)

  it("paints where colour is allowed", function()
    assert.equal("\27[31mx\27[0m", terminal.paint("x", "red", { colour = true }))
    assert.equal("x", terminal.paint("x", "red", { colour = false }))
    assert.equal("x", terminal.paint("x", "no such colour", { colour = true }))
  end)
end)

describe("tessera.host.run_program", function()
  it("starts programs without a shell", function()
    assert.same({ 0, "a b;$HOME", "" }, { host.run_program({ "printf", "%s", "a b;$HOME" }, "") })
    assert.equal(3, (host.run_program({ "sh", "-c", "exit 3" }, "")))
    assert.equal(128 + 9, (host.run_program({ "sh", "-c", "kill -9 $$" }, "")))
    local status, out, err = host.run_program({ "sh", "-c", "cat; echo problem >&2" }, ("x"):rep(1000000))
    assert.same({ 0, 1000000, "problem\n" }, { status, #out, err })
    assert.equal(0, (host.run_program({ "true" }, ("x"):rep(1000000)))) -- it does not read its input
  end)

  it("refuses wrong use", function()
    raises("not_found", "cannot start 'no_such_program_here'", function()
      host.run_program({ "no_such_program_here" }, "")
    end)
    raises("invalid_argument", "name a program", function() host.run_program({}, "") end)
    raises("invalid_argument", "strings only", function() host.run_program({ 3 }, "") end)
    raises("invalid_argument", "input", function() host.run_program { "true" } end)
  end)
end)

describe("tessera.desk.escape", function()
  local escape = require "tessera.desk.escape"

  it("leaves no markup and no broken text", function()
    assert.equal("&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;", escape.xml [[<a href="x" b='y'>&]])
    assert.equal("a?b?c?", escape.clean "a\0b\nc\27")
    assert.equal("a\n\tb?", escape.clean("a\n\tb\0", true))
    assert.equal("é€😀", escape.clean "é€😀")
    for _, bytes in ipairs { "\255", "\195", "\192\128", "\224\128\128", "\237\160\128", "\244\144\128\128", "\128",
      "\239\191\191" } do
      assert.equal("a\239\191\189b", (escape.clean("a" .. bytes .. "b"):gsub("(\239\191\189)+", "\239\191\189")))
    end
  end)

  it("keeps data inside its script element", function()
    local text = escape.script(escape.json_string "</script><!--\226\128\168&\"\\\n")
    assert.equal([["\u003c/script\u003e\u003c!--\u2028\u0026\"\\\n"]], text)
  end)
end)
