-- The editor's definitions say what the program does.
local host = require "tessera.host"
require("tessera").help_topics() -- loads the parts that wait to be used

describe("scripts/tessera/types/tessera.lua", function()
  it("is what the program generates", function()
    local file = assert(io.open(host.installation.scripts_dir .. "/tessera/types/tessera.lua"))
    local text = file:read "*a"
    file:close()
    assert.is_true(text == host.luacats(), "it is stale; run: bash scripts/generate_types.sh")
  end)

  it("names every function of the library", function()
    local text = host.luacats()
    for name, value in pairs(require "tessera") do
      if type(value) == "function" then
        assert.truthy(text:find("function ts." .. name .. "(", 1, true), name .. " has no definition")
      end
    end
  end)
end)
