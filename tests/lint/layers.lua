-- Checks the source tree: tessera tests/lint/layers.lua [ROOT]. One line per finding; exit status 1 if there is any.
-- With a second argument, map, it draws who includes whom instead: a folder stands below all that it includes.
local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local rules = dofile(here .. "/rules.lua")
local data_set_rules = dofile(here .. "/data_set_rules.lua")
local data_sets = require "tessera.desk.data_sets"
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
local findings, included = rules.check(files)
for _, finding in ipairs(data_set_rules.check(files, data_sets.declared())) do findings[#findings + 1] = finding end

-- Folders by their height: 1 for those that include none, else one more than the highest that they include. Those of a
-- circle have none.
local function heights()
  local height = {}
  local function of(folder, way)
    if way[folder] then return nil end
    if height[folder] == nil then
      way[folder] = true
      local highest = 0
      for owner in pairs(included[folder] or {}) do
        local other = of(owner, way)
        highest = other and highest and math.max(highest, other)
      end
      way[folder] = nil
      height[folder] = highest and highest + 1 or false
    end
    return height[folder] or nil
  end
  for folder in pairs(included) do of(folder, {}) end
  return height
end

local function draw_map()
  local height, counts, folders = heights(), {}, {}
  for _, file in ipairs(files) do
    local folder = rules.is_cpp(file.path) and rules.module_of(file.path)
    if folder then counts[folder] = (counts[folder] or 0) + 1 end
  end
  for folder in pairs(counts) do folders[#folders + 1] = folder end
  local function rank(folder) return height[folder] or (included[folder] and math.huge or 1) end
  table.sort(folders, function(a, b)
    if rank(a) ~= rank(b) then return rank(a) < rank(b) end
    return a < b
  end)
  for _, folder in ipairs(folders) do
    local owners = {}
    for owner in pairs(included[folder] or {}) do owners[#owners + 1] = owner end
    table.sort(owners)
    print(("%s  %-20s %3d files  %s"):format(rank(folder) < math.huge and ("%2d"):format(rank(folder)) or " o", folder,
      counts[folder], table.concat(owners, " ")))
  end
end

if host.arguments[2] == "map" then
  draw_map()
  os.exit(0)
end
for _, f in ipairs(findings) do
  print(("%s:%d: [%s] %s"):format(f.path, f.line, f.rule, f.message))
end
print(("%d files, %d findings"):format(#files, #findings))
os.exit(#findings == 0 and 0 or 1)
