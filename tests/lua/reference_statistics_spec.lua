-- The reference scripts on tiny models of several families, as transformers saves them, and what the engine makes of
-- their files. Needs Python with torch and transformers: TESSERA_PYTHON names another interpreter than python3.
local core = require "tessera.core"
local ts = require "tessera"

local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."

-- What the script prints, and its exit status.
local function run(python, folder)
  local script = here .. "/../reference/tiny_families.py"
  local pipe = assert(io.popen(("OMP_NUM_THREADS=1 '%s' '%s' '%s' 2>&1; echo \"status $?\""):format(python, script,
    folder)))
  local text = pipe:read "*a"
  pipe:close()
  return text, tonumber(text:match "status (%d+)%s*$")
end

describe("the reference scripts", function()
  it("write what indicators of every family take", function()
    local folder = os.tmpname()
    os.remove(folder)
    os.execute("mkdir '" .. folder .. "'")
    local named = os.getenv "TESSERA_PYTHON"
    local text, status = run(named or "python3", folder)
    if status == 77 or (status == 127 and not named) then
      os.execute("rm -rf '" .. folder .. "'")
      return pending("transformers was not asked: " .. text)
    end
    assert.equal(0, status, text)
    local expected = core.from_json(core.read_file(folder .. "/expected.json"))
    for _, family in ipairs { "bloom", "gpt2", "opt", "qwen2" } do
      local stem = folder .. "/" .. family
      local measured = ts.indicator {
        model = stem, kind = "measured", statistics = stem .. ".statistics.safetensors", bitwidths = { 3, 4, 8 },
      }
      local loss = ts.indicator(stem .. ".loss.json")
      for layer, errors in ipairs(expected[family]) do
        for i, bitwidth in ipairs { 3, 4, 8 } do
          assert.near(1, measured:omega(layer - 1, bitwidth) / errors[i], 1e-3)
          assert.is_true(loss:standard_error(layer - 1, bitwidth) > 0)
        end
      end
      assert.equal(2, #expected[family])
      assert.equal("measured", loss.kind)
    end
    os.execute("rm -rf '" .. folder .. "'")
  end)
end)
