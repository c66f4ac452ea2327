-- The Python of its page: it runs against this program.
local core = require "tessera.core"
local host = require "tessera.host"
local support = require "support"

local page = core.read_file(host.installation.scripts_dir .. "/tessera/man/python.md")

-- The page's code, then `code`; status, stdout, stderr.
local function python(code)
  local parts = { "import os; os.environ['PATH'] = ''" } -- the program is the one that is named below
  for block in page:gmatch "```python\n(.-)```" do parts[#parts + 1] = block end
  local text = table.concat(parts, "\n"):gsub("build/release/bin/tessera", host.program)
  return host.run_program({ "python3", "-c", text .. "\n" .. code }, "")
end

describe("the page on Python", function()
  local has_python = pcall(host.run_program, { "python3", "-c", "" }, "")
  after_each(support.remove_files)

  it("runs as it stands", function()
    if not has_python then return pending "python3 is not installed" end
    local status, out, err = python "print(rows)"
    assert.same({ 0, "" }, { status, err })
    assert.matches("^[^\n]*L4 %d[%d.]* %d", out)
    assert.matches("\ninfeasible no deployment on this cluster keeps to the SLO", out)
    assert.matches("{'cluster': '2xL4', 'latency_s': %d", out)
  end)

  it("raises what the program says, and reads results", function()
    if not has_python then return pending "python3 is not installed" end
    local path = support.temporary()
    os.remove(path)
    local script = support.temporary [[return require("tessera").experiment { name = "my/sweep",
      grid = { x = { 1, 2 } }, run = function(point) return { y_s = point.x / 2 } end }]]
    assert.equal(0, (host.run_program({ host.program, "run", script, "--results", path }, "")))
    local status, out, err = python(([[
for wrong in [dict(moddel="opt-13b"), dict(model="nope", cluster="1xL4")]:
    try:
        tessera("plan", **wrong)
    except TesseraError as error:
        print(error.code)
print([row["y_s"] for row in rows_of("my/sweep", "%s")])
print([row["y_s"] for row in tessera("results", "my/sweep", results="%s", where="x=2")])]]):format(path, path))
    assert.same({ 0, "" }, { status, err })
    assert.matches("usage\nnot_found\n%[0%.5, 1%]\n%[1%]\n$", out)
  end)
end)
