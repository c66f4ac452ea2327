-- What scripts get from the host.
local host = require "tessera.host"

describe("tessera.host", function()
  it("tells scripts where they run", function()
    assert.is_false(host.json)
    assert.is_table(host.arguments)
    assert.is_string(host.version.commit)
    assert.matches("LuaJIT", host.version.luajit)
    assert.is_string(host.installation.scripts_dir)
  end)

  it("has help on its own verbs", function()
    assert.matches("prompt_tokens", host.help "tessera plan")
    assert.is_nil(host.help "no such topic")
    assert.is_table(host.help_topics())
  end)

  it("refuses a result that is no data", function()
    local ok, err = pcall(host.set_result, { a = { print } })
    assert.is_false(ok)
    assert.equal("invalid_argument", err.code)
    assert.matches("result%.a%[1%]: a function", err.message)
  end)

  it("refuses wrong arguments by name", function()
    for _, call in ipairs {
      function() host.strict "yes" end,
      function() host.limit_memory(0 / 0) end,
      function() host.limit_memory(1) end,
      function() host.help(3) end,
      function() os.exit(3.5) end,
    } do
      local ok, err = pcall(call)
      assert.is_false(ok)
      assert.not_matches("\n", tostring(err))
      assert.is_string(err.where)
    end
  end)
end)

describe("strict globals", function()
  before_each(function() host.strict(true) end)
  after_each(function() host.strict(false) end)

  it("names the nearest global", function()
    local ok, err = pcall(loadstring "return tabel.concat {}")
    assert.is_false(ok)
    assert.matches("undeclared global 'tabel'; did you mean 'table'", err.message)
  end)

  it("refuses assignment", function()
    local ok, err = pcall(loadstring "answer = 42")
    assert.is_false(ok)
    assert.matches("use 'local'", err.message)
  end)

  it("lets system modules probe, and rawset declare", function()
    assert.is_table(require "pl.compat")
    rawset(_G, "declared_here", 1)
    assert.equal(1, loadstring "return declared_here"())
    rawset(_G, "declared_here", nil)
  end)
end)

describe("print", function()
  it("refuses a __tostring that returns no string", function()
    local odd = setmetatable({}, { __tostring = function() return 1 end })
    assert.is_false((pcall(print, odd)))
  end)
end)

describe("the command line", function()
  local function tessera(...) return host.run_program({ host.program, ... }, "") end

  it("says what is a word without a flag", function()
    for verb, usage in pairs { support = "MODEL [DEVICE [BITWIDTH]]", indicator = "MODEL_DIR", generate = "MODEL" } do
      local status, _, err = tessera(verb, "--model=opt-13b")
      assert.equal(2, status)
      local said = ("'--model'; it is a word without a flag: tessera %s %s\n"):format(verb, usage)
      assert.truthy(err:find(said, 1, true), err)
    end
    local _, _, err = tessera("support", "--mode", "x")
    assert.is_nil(err:find("a word without", 1, true))
    _, _, err = tessera("plan", "--modle", "x")
    assert.matches("did you mean '%-%-model'", err)
  end)

  it("shows once which flags may be turned off", function()
    local _, out = tessera("plan", "--help")
    assert.matches("\n  %-%-%[no%-%]beside +Shows", out)
    assert.is_nil(out:find("{false}", 1, true))
  end)
end)
