-- Checks the source tree: tessera tests/lint/layers.lua [ROOT]. One line per finding; exit status 1 if there is any.
local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local rules = dofile(here .. "/rules.lua")
local host = require "tessera.host"

local root = host.arguments[1] or here .. "/../.."

local function files_under(folder)
  local files = {}
  local quoted = "'" .. folder:gsub("'", "'\\''") .. "'"
  local pipe = assert(io.popen("cd " .. quoted .. " && find . -mindepth 1 \\( -name '.?*' -o -path ./build \\) -prune"
    .. " -o -type f -print | sort"))
  for line in pipe:lines() do
    local path = line:sub(3)
    local file = assert(io.open(folder .. "/" .. path, "rb"))
    files[#files + 1] = { path = path, text = file:read "*a" }
    file:close()
  end
  pipe:close()
  return files
end

local files = files_under(root)
assert(#files > 100, ("only %d files under %s: is that the source tree?"):format(#files, root))
local findings = rules.check(files)
for _, f in ipairs(findings) do
  print(("%s:%d: [%s] %s"):format(f.path, f.line, f.rule, f.message))
end
print(("%d files, %d findings"):format(#files, #findings))
os.exit(#findings == 0 and 0 or 1)
