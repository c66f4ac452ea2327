-- Two sweeps of one experiment on one file of results: the same points are refused, other points go on beside.
local core = require "tessera.core"
local host = require "tessera.host"
local support = require "support"

describe("two sweeps at once", function()
  local folder

  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    host.make_folder(folder)
    -- A point waits until the file `go` is there, for at most a minute.
    core.write_file(folder .. "/slow.lua", ([[
return require("tessera").experiment { name = "slow", grid = { i = { 1, 2, 3 } }, run = function(point)
  local started = os.time()
  while not io.open("%s/go") and os.time() - started < 60 do os.execute "sleep 0.05" end
  return { x = point.i }
end }
]]):format(folder))
  end)
  after_each(function() host.run_program({ "rm", "-rf", folder }, "") end)

  -- A sweep under way, then `command`, then the end of the first: what `command` said, its status, what the first said.
  local function beside(command)
    local script = ([[
cd '%s'
'%s' run slow.lua --jobs 1 --results r.db >first.txt 2>&1 &
for i in $(seq 600); do ls r.db-run1-*.lock >/dev/null 2>&1 && break; sleep 0.05; done
%s >second.txt 2>&1
echo $? >status.txt
touch go
wait
]]):format(folder, host.program, command:gsub("TESSERA", "'" .. host.program .. "'"))
    assert.equal(0, (host.run_program({ "sh", "-c", script }, "")))
    local function text(name) return support.read(folder .. "/" .. name) end
    return text "second.txt", tonumber(text "status.txt"), text "first.txt"
  end

  local function rows()
    local _, out = host.run_program({ host.program, "results", "slow", "--results", folder .. "/r.db", "--json" }, "")
    return core.from_json(out)
  end

  it("refuses the same points, and names who is at them", function()
    local second, status, first = beside "TESSERA run slow.lua --jobs 1 --results r.db"
    assert.equal(1, status, second)
    assert.matches("r.db: another sweep of these points is under way: process %d+ on %S+ since %d+%-%d+%-%d+ ", second)
    assert.truthy(second:find("--shard 0/2 and --shard 1/2 share the points", 1, true), second)
    assert.truthy(first:find("3 points in", 1, true), first)
    assert.equal(3, #rows())
    local _, left = host.run_program({ "ls", folder }, "")
    assert.is_nil(left:find(".lock", 1, true), left)
  end)

  it("keeps one row of a point that both have run", function()
    local second, status, first = beside "(sleep 0.3; touch go) & TESSERA run slow.lua --where i=3 --results r.db"
    assert.equal(0, status, second)
    assert.is_nil((first .. second):find("replace = true", 1, true), first .. second)
    assert.truthy(first:find("3 points in", 1, true), first)
    assert.equal(3, #rows())
  end)

  it("takes over from a sweep that was killed", function()
    core.write_file(folder .. "/go", "")
    local script = ([[
cd '%s'
rm go
'%s' run slow.lua --jobs 0 --results r.db >first.txt 2>&1 &
for i in $(seq 600); do ls r.db-run1-*.lock >/dev/null 2>&1 && break; sleep 0.05; done
kill -9 $!
touch go
'%s' run slow.lua --jobs 0 --results r.db
]]):format(folder, host.program, host.program)
    local status, out, err = host.run_program({ "sh", "-c", script }, "")
    assert.equal(0, status, out .. err)
    assert.equal(3, #rows())
  end)
end)

describe("a folder that takes no file", function()
  it("is what is wrong, and no log of somebody", function()
    local status, _, err = host.run_program({ host.program, "run", "tutorial/06_table", "--quick", "--results",
      "/proc/never.db" }, "")
    assert.equal(1, status)
    assert.truthy(err:find("results file '/proc/never.db': cannot be made", 1, true), err)
    assert.is_nil(err:find("killed program", 1, true))
  end)
end)

describe("a locale without UTF-8", function()
  local function printed(locale, code)
    local _, out = host.run_program({ "env", "LC_ALL=" .. locale, host.program, "-e", code }, "")
    return out
  end
  local plot = 'print(require("tessera").plot { kind = "%s", x = "a", y = "%s", value = "v", by = "c", '
    .. 'rows = { { a = 1, b = 2, c = "k", v = 1 }, { a = 2, b = 3.3, c = "k", v = 3 } } })'

  it("gets plots in ASCII, of the same width", function()
    for _, kind in ipairs { "bars", "lines", "scatter", "heatmap" } do
      local code = plot:format(kind, kind == "heatmap" and "c" or "b")
      local ascii, full = printed("C", code), printed("C.UTF-8", code)
      assert.is_nil(ascii:find "[\128-\255]", kind)
      assert.truthy(full:find "[\128-\255]", kind)
      assert.equal(select(2, full:gsub("[^\128-\191]", "")), #ascii, kind)
    end
  end)

  it("keeps text that is no drawing, and data", function()
    assert.equal("é #\n", printed("C", 'print("é █")'))
    assert.equal('"█"', (printed("POSIX", 'io.write(require("tessera.core").to_json "█")'):gsub("%s+$", "")))
  end)
end)
