-- tessera man and tessera examples.
local core = require "tessera.core"
local examples = require "tessera.cli.examples"
local host = require "tessera.host"
local man = require "tessera.cli.man"
local markdown = require "tessera.cli.markdown"
local support = require "support"

local function printed(f, ...)
  local lines, real_print, real_write = {}, _G.print, io.write
  _G.print = function(text) lines[#lines + 1] = text .. "\n" end
  io.write = function(text) lines[#lines + 1] = text end -- luacheck: ignore
  local ok, message = pcall(f, ...)
  _G.print, io.write = real_print, real_write -- luacheck: ignore
  if not ok then error(message, 0) end
  return table.concat(lines)
end

describe("markdown", function()
  it("lays out headings, paragraphs, lists and code", function()
    assert.equal("TITLE\n\none two\nthree four\n\n- item that\n  is long\n\n    code  ok\n",
      markdown.text("# Title\n\none two\nthree `four`\n\n- item that is\n  long\n\n```\ncode  ok\n```\n",
        { width = 12 }))
  end)

  it("breaks code at blanks, with remarks before it and what stands beside it below itself", function()
    local function code(line, width) return markdown.text("```\n" .. line .. "\n```\n", { width = width }) end
    assert.equal("    tessera plan \\\n        --model x\n", code("tessera plan --model x", 22))
    assert.equal("    plan(x,\n        y, z)\n", code("plan(x, y, z)", 14))
    assert.equal("    -- says what\n    -- it is\n    run(x)\n", code("run(x)  -- says what it is", 17))
    assert.equal("    ls     what is\n           there\n", code("ls     what is there", 18))
    assert.equal("    bash -x \\\n        -- a b\n", code("bash -x -- a b", 17))
  end)

  it("makes headings bold where asked", function()
    assert.equal("so:\n\n    one\n    two\n\nmore text\n",
      markdown.text("so:\n\n    one\n    two\n\nmore\ntext\n", { width = 40 }))
    assert.equal("\27[1mTitle\27[0m\n", markdown.text("# Title\n", { width = 40, bold = true }))
  end)

  it("aligns tables and wraps what does not fit", function()
    local text = markdown.text("| a | what |\n|---|---|\n| `x\\|y` | one two three four five |\n", { width = 20 })
    assert.equal("a    what\n---  ---------------\nx|y  one two three\n     four five\n", text)
    text = markdown.text("| name | type | what |\n|---|---|---|\n| a | tessera.Model\\|string | one two |\n",
      { width = 20 })
    assert.equal("a\n    type:\n      tessera.Model|\n      string\n    what: one two\n", text)
  end)
end)

describe("tessera man", function()
  it("lists the pages and shows each, within the width", function()
    local list = printed(man.main, { names = {} })
    local count = 0
    for topic in ("\n" .. list):gmatch "\n(%l+) +%u[^\n]+" do
      count = count + 1
      local page = printed(man.main, { names = { topic } })
      assert.truthy(#page > 300, topic)
      assert.falsy(page:find("@flags", 1, true), topic)
      assert.falsy(page:find("\27", 1, true), topic)
    end
    assert.truthy(count >= 11, list)
  end)

  it("has commands that can be copied: what is said of one beside it is a remark of the shell", function()
    local folder, commands = host.installation.scripts_dir .. "/tessera/man", 0
    for _, name in ipairs(core.folder_files(folder)) do
      local text = core.read_file(folder .. "/" .. name)
      for block in text:gmatch "\n```%l*\n(.-)\n```" do
        for line in (block .. "\n"):gmatch "(tessera [^\n]*)\n" do
          commands = commands + 1
          assert.is_nil(line:match "^[^#]-%S  +[^#%s]", name .. ": " .. line)
        end
      end
    end
    assert.is_true(commands > 12, commands)
  end)

  it("writes the flags of a verb from the table that parses them", function()
    local page = printed(man.main, { names = { "experiments" } })
    for _, option in ipairs(host.cards().options["tessera run"].options) do
      assert.truthy(page:find("--" .. option.name:gsub("_", "-"), 1, true), option.name)
    end
  end)

  it("names the nearest page", function()
    support.raises("not_found", "did you mean 'sandbox'", function() man.main { names = { "sandbx" } } end)
  end)
end)

describe("tessera examples", function()
  local folder
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
  end)
  after_each(function() os.execute("rm -rf '" .. folder .. "'") end)

  it("lists every example with a line", function()
    local list = printed(examples.main, { names = {} })
    assert.matches("examples/01_first_plan +The first plan", list)
    assert.matches("tutorial/", list)
  end)

  it("copies one with its data, and does not overwrite", function()
    local text = printed(examples.main, { names = { "02_own_model" }, to = folder })
    assert.truthy(text:find("run it: tessera " .. folder .. "/02_own_model.lua", 1, true))
    assert.truthy(support.read(folder .. "/data/tiny-llama.config.json"):find("llama", 1, true))
    support.raises("io", "is there already", function()
      examples.main { names = { "examples/02_own_model.lua" }, to = folder }
    end)
    printed(examples.main, { names = { "02_own_model" }, to = folder, force = true })
  end)

  it("names what is not there, and asks where a name is not enough", function()
    support.raises("not_found", "did you mean '02_own_model'", function()
      examples.main { names = { "02_own_modl" }, to = folder }
    end)
    support.raises("not_found", "there is no example '01_frist_plan'; did you mean '01_first_plan'?;", function()
      examples.main { names = { "01_frist_plan" }, to = folder }
    end)
    support.raises("usage", "say which", function()
      examples.main { names = { "01_first_plan" }, to = folder }
    end)
  end)
end)
