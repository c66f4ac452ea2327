-- What shells know of the program: tessera(1), and what completes its command line in bash.
local support = require "support"
local bash_completion = require "tessera.cli.bash_completion"
local host = require "tessera.host"
local unix_page = require "tessera.cli.unix_page"
require("tessera").help_topics() -- loads every part of the library, with its cards

local cards = host.cards()
local usage = select(3, host.run_program({ host.program }, ""))

describe("tessera(1)", function()
  local page = unix_page.text(usage, cards, "1.2.3")
  local plain = page:gsub("\\([%-&])", { ["-"] = "-", ["&"] = "" }):gsub("\\e", "\\")

  it("has every verb, every flag and what is said of them", function()
    local verbs = 0
    for name, card in pairs(cards.options) do
      if name:find "^tessera " and #card.options > 0 then
        verbs = verbs + 1
        assert.truthy(plain:find(".SS " .. name .. "\n" .. card.doc, 1, true), name)
        for _, option in ipairs(card.options) do
          assert.truthy(plain:find("\n.B --" .. option.name:gsub("_", "-"), 1, true), option.name)
          assert.truthy(plain:find(option.doc, 1, true), option.name)
        end
      end
    end
    assert.is_true(verbs >= 20, verbs)
    for line in usage:gmatch "[^\n]+" do assert.truthy(plain:find(line, 1, true), line) end
  end)

  it("has no request that is none of its own", function()
    local own = { TH = 1, SH = 1, SS = 1, TP = 1, B = 1, br = 1, ["in"] = 1, nf = 1, fi = 1 }
    for line in page:gmatch "[^\n]+" do
      assert.truthy(not line:find "^[.']" or own[line:match "^%.(%a+)"], line)
    end
  end)
end)

describe("completion in bash", function()
  local path
  setup(function() path = support.temporary(bash_completion.text(usage, cards)) end)
  teardown(support.remove_files)

  -- What may stand in the place of the last word, sorted.
  local function completed(...)
    local status, out, err = host.run_program({ "bash", "-c", [[source "$1" && shift && COMP_WORDS=("$@") &&
      COMP_CWORD=$(($# - 1)) && { _tessera; printf '%s\n' "${COMPREPLY[@]}"; }]], "bash", path, "tessera", ... }, "")
    assert.equal("0 ", status .. " " .. err)
    local words = {}
    for word in out:gmatch "[^\n]+" do words[#words + 1] = word end
    table.sort(words)
    return words
  end

  it("knows verbs, flags, and what they take", function()
    assert.same({ "plan", "plot" }, completed "pl")
    assert.same({ "repl", "report", "results" }, completed "re")
    assert.same({ "--launch" }, completed("plan", "--model", "opt-13b", "--laun"))
    assert.same({ "opt-13b" }, completed("plan", "--model", "opt-13"))
    assert.same({ "compose", "kubernetes", "ray", "shell" }, completed("plan", "--as", ""))
    assert.same({ "tutorial" }, completed("man", "tut"))
    assert.same({ "--json" }, completed("list", "--js"))
  end)

  it("leaves other words to the names of files", function()
    assert.same({}, completed("run", "x"))
    assert.same({}, completed("plan", "--out", ""))
    assert.same({}, completed("my.lua", "--"))
  end)
end)
