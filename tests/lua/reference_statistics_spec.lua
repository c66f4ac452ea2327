-- Calibration, and indicators made with it, on tiny models of several families as transformers saves them, against
-- what transformers computes. Needs Python with torch and transformers: TESSERA_PYTHON names another interpreter than
-- python3.
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

local bitwidths = { 3, 4, 8 }

local function compare(folder, family, expected)
  local path, out = folder .. "/" .. family, folder .. "/" .. family .. ".statistics.safetensors"
  local lm = ts.language_model { path = path, progress = false }
  lm:calibrate { file = folder .. "/text.txt", out = out, num_samples = 4, sample_tokens = 64, with_hessian = true }
  local measured = ts.indicator { model = path, kind = "measured", statistics = out, bitwidths = bitwidths }
  local divergence = ts.indicator {
    model = path, kind = "divergence", file = folder .. "/text.txt", samples = 4, tokens = 64, bitwidths = bitwidths,
    granularity = "channel", progress = function() end,
  }
  assert.equal(2, #expected.output_error)
  for layer = 0, 1 do
    for i, bitwidth in ipairs(bitwidths) do
      local at = ("%s, layer %d, %d bits"):format(family, layer, bitwidth)
      assert.near(1, measured:omega(layer, bitwidth) / expected.output_error[layer + 1][i], 1e-3, at)
      -- The model that runs keeps scales in f16 and sums in f32, which are felt where little is lost: at 8 bits.
      local ratio = divergence:omega(layer, bitwidth) / expected.divergence[layer + 1][i]
      assert.near(1, ratio, bitwidth == 8 and 0.4 or 0.1, at)
      assert.is_true(divergence:standard_error(layer, bitwidth) > 0, at)
    end
  end
end

describe("calibration", function()
  it("finds what transformers does, in every family", function()
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
    for _, family in ipairs { "bloom", "gpt2", "opt", "qwen2" } do compare(folder, family, expected[family]) end
    os.execute("rm -rf '" .. folder .. "'")
  end)
end)
