-- tasks.lua PAGE: runs the tasks of a page as their readers would, in one folder: each has at most five steps, every
-- step ends well, and what it says is there. What this build cannot run is skipped by name.

local core = require "tessera.core"
local host = require "tessera.host"

local most_steps = 5
local page = core.read_file(arg[1])
local tree = host.installation.scripts_dir .. "/.."
local folder = os.tmpname()
os.remove(folder)
host.make_folder(folder)

local environment = { "env", "MODELS=" .. host.installation.datasets_dir .. "/language_models",
  "GGUF=" .. tree .. "/tests/reference/decoders/gguf", "PYTHONPATH=" .. tree .. "/scripts/python",
  "PYTHONDONTWRITEBYTECODE=1", "PATH=" .. host.program:match "^(.*)/" .. ":" .. os.getenv "PATH" }

-- Lines that begin with $ are steps; what follows belongs to them.
local function steps_of(block)
  local lines, count = {}, 0
  for line in block:gmatch "[^\n]*" do
    local step = line:match "^%$ (.*)$"
    count = count + (step and 1 or 0)
    lines[#lines + 1] = step or line
  end
  return table.concat(lines, "\n"), count
end

local failed, skipped, tried = 0, 0, 0
local function complain(title, text)
  failed = failed + 1
  print(("FAIL  %s\n%s"):format(title, text))
end

for title, block, says in page:gmatch "## ([^\n]*)\n```\n(.-)```\nsays: ([^\n]*)" do
  local script, count = steps_of(block)
  tried = tried + 1
  local words = { unpack(environment) }
  for _, word in ipairs { "bash", "-euo", "pipefail", "-c", "cd " .. folder .. "\n" .. script } do
    words[#words + 1] = word
  end
  local status, out, err = host.run_program(words, "")
  local text = out .. err
  if count > most_steps then complain(title, ("%d steps, at most %d"):format(count, most_steps))
  elseif status ~= 0 and text:find("quickstart.sh", 1, true) then
    skipped = skipped + 1
    print(("skip  %s: this build runs no models"):format(title))
  elseif status ~= 0 then complain(title, ("status %d\n%s"):format(status, text))
  elseif not text:find(says, 1, true) then complain(title, ("'%s' is not said:\n%s"):format(says, text))
  else print(("ok    %s (%d %s)"):format(title, count, count == 1 and "step" or "steps")) end
end

host.run_program({ "rm", "-rf", folder }, "")
print(("%d tasks, %d failed, %d skipped"):format(tried, failed, skipped))
if tried ~= 10 then print "a page has ten tasks" end
os.exit((failed > 0 or tried ~= 10) and 1 or 0)
