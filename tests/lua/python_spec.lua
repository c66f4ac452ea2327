-- The Python of its page, by the package beside it: it runs against this program.
local core = require "tessera.core"
local host = require "tessera.host"
local support = require "support"

local scripts = host.installation.scripts_dir
local page = core.read_file(scripts .. "/tessera/man/python.md")

-- Python code with the package; status, stdout, stderr.
local function python(code, program)
  return host.run_program({ "env", "PYTHONPATH=" .. scripts .. "/python", "PYTHONDONTWRITEBYTECODE=1",
    "TESSERA=" .. (program or host.program), "python3", "-c", code }, "")
end

local function of_page()
  local parts = {}
  for block in page:gmatch "```python\n(.-)```" do parts[#parts + 1] = block end
  return table.concat(parts, "\n")
end

describe("the page on Python", function()
  local has_python = pcall(host.run_program, { "python3", "-c", "" }, "")
  local function it_runs(what, run)
    it(what, function()
      if not has_python then return pending "python3 is not installed" end
      run()
    end)
  end
  after_each(support.remove_files)

  it_runs("runs as it stands", function()
    local status, out, err = python(of_page() .. "\nprint(rows)")
    assert.same({ 0, "" }, { status, err })
    assert.matches("^[^\n]*L4 %d[%d.]* %d", out)
    assert.matches("\ninfeasible no deployment on this cluster keeps to the SLO", out)
    assert.matches("{'cluster': '2xL4', 'latency_s': %d", out)
  end)

  it_runs("raises what the program says", function()
    local status, out, err = python [==[
import tessera
for wrong in [dict(moddel="opt-13b"), dict(model="nope", cluster="1xL4")]:
    try:
        tessera.plan(**wrong)
    except tessera.TesseraError as error:
        print(error.code)
try:
    tessera.lua("error 'my fault'")
except tessera.TesseraError as error:
    print(error)
print(tessera.lua("return { text = text, sum = a[1] + a[2] }", text='é"\\n]]', a=[1, 2.5]))]==]
    assert.same({ 0, "" }, { status, err })
    assert.matches("^usage\nnot_found\n[^\n]*my fault", out)
    assert.truthy(out:find([==['sum': 3.5, 'text': 'é"\\n]]']==], 1, true), out)
  end)

  it_runs("names a program that is not there, and the way to one", function()
    local status, out = python([[
import tessera
try:
    tessera.run("version")
except tessera.ProgramNotFound as error:
    print(error.code, error)]], "/nowhere/tessera")
    assert.equal(0, status)
    assert.matches("^not_found %$TESSERA names '/nowhere/tessera', which is no program: build it with `bash "
      .. "scripts/quickstart.sh`", out)
  end)

  it_runs("reads results, their means and their plots", function()
    local path = support.temporary()
    os.remove(path)
    local script = support.temporary [[return require("tessera").experiment { name = "my/sweep", over = "rep",
      grid = { x = { 1, 2 }, rep = { 1, 2 } }, run = function(point) return { y_s = point.x / 2 + point.rep } end }]]
    assert.equal(0, (host.run_program({ host.program, "run", script, "--results", path }, "")))
    local status, out, err = python(of_page() .. ([[

names, found, pictures = show("%s", "my/sweep")
print(names, sorted(row["y_s"] for row in found), pictures[0]._repr_svg_()[:4])
results = tessera.Results("%s")
print([row["y_s"] for row in results.means("my/sweep", over="rep")])
print([row["y_s"] for row in results.means("my/sweep", over="rep", against="x=1")])
print("<h1>my/sweep</h1>" in results.report("my/sweep").html, "srcdoc" in results.report("my/sweep")._repr_html_())
for wrong in [lambda: results.rows("nope"), lambda: tessera.Results("/nowhere.db")]:
    try:
        wrong()
    except (KeyError, FileNotFoundError) as error:
        print(type(error).__name__)]]):format(path, path))
    assert.same({ 0, "" }, { status, err })
    assert.matches("%['my/sweep'%] %[1%.5, 2, 2%.5, 3%] <svg\n%[2, 2%.5%]\n%[0%.5%]\nTrue True\nKeyError\n"
      .. "FileNotFoundError\n$", (out:gsub("%.0([,%]])", "%1")))
  end)
end)
