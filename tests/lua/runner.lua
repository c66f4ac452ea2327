-- Runs busted inside the program: tessera tests/lua/runner.lua SPEC...
local host = require "tessera.host"
host.strict(false) -- busted keeps its words (describe, it, ...) in globals of its own
package.path = arg[0]:match "^(.*)[/\\]" .. "/?.lua;" .. package.path -- for tests/lua/support.lua

-- Temporary files of specs are in one folder, which goes when they are done, whatever a spec forgets.
local folder, count = os.tmpname(), 0
os.remove(folder)
host.make_folder(folder)
function os.tmpname() -- luacheck: ignore 122
  count = count + 1
  local path = ("%s/%d"):format(folder, count)
  assert(io.open(path, "w")):close()
  return path
end

local function clean() host.run_program({ "rm", "-rf", folder }, "") end
local exit = os.exit
function os.exit(...) -- luacheck: ignore 122
  clean()
  exit(...) -- where a spec has failed
end

local ok, problem = pcall(require "busted.runner", { standalone = false })
clean()
if not ok then error(problem, 0) end
