-- `tessera examples`: lists the worked examples, or copies some with the data that they read.

local core = require "tessera.core"
local exists = require "tessera.files".exists
local host = require "tessera.host"
local sorted_keys = require "tessera.sorted_keys"

local M = {}

local folders = { "tutorial/", "examples/" } -- of the experiments that ship; others reproduce papers

local function worked_examples()
  local found = {}
  for _, folder in ipairs(folders) do
    for _, script in ipairs(host.experiments()) do
      if script.name:sub(1, #folder) == folder then found[#found + 1] = script end
    end
  end
  return found
end

-- "examples/01_first_plan", with or without folder and .lua.
local function find(name, all)
  local wanted, known, matches = name:gsub("%.lua$", ""), {}, {}
  local has_folder = wanted:find("/", 1, true)
  for _, script in ipairs(all) do
    local short = script.name:match "[^/]+$"
    known[has_folder and script.name or short] = true
    if wanted == script.name or wanted == short then matches[#matches + 1] = script end
  end
  if #matches == 1 then return matches[1] end
  if #matches > 1 then
    core.raise("usage", ("several examples are called '%s'; say which: %s or %s"):format(name,
      matches[1].name, matches[2].name), name)
  end
  core.raise("not_found", ("there is no example '%s'%s; `tessera examples` lists them"):format(name,
    core.did_you_mean(wanted, sorted_keys(known))), name)
end

-- The script and the files that it reads from the folder `data` beside it: { from, to }.
local function files_of(script, target)
  local folder, name = script.path:match "^(.*)/([^/]+)$"
  local files, seen = { { from = script.path, to = target .. "/" .. name } }, {}
  for data in core.read_file(script.path):gmatch "data/[%w_%-][%w_.%-]*" do
    if not seen[data] and exists(folder .. "/" .. data) then
      files[#files + 1] = { from = folder .. "/" .. data, to = target .. "/" .. data }
    end
    seen[data] = true
  end
  return files
end

local function copy(files, force)
  for _, file in ipairs(files) do
    if not force and exists(file.to) then
      core.raise("io", ("'%s' is there already; --force overwrites it, --to copies elsewhere"):format(file.to), file.to)
    end
  end
  for _, file in ipairs(files) do
    host.make_folder(file.to:match "^(.*)/")
    core.write_file(file.to, core.read_file(file.from))
  end
end

local function list(all)
  if host.json then return host.set_result(all) end
  local width = 0
  for _, script in ipairs(all) do width = math.max(width, #script.name) end
  for _, script in ipairs(all) do print(("%-" .. width .. "s  %s"):format(script.name, script.doc)) end
  print "\n`tessera examples NAME` copies one into this folder, with its data."
end

--- @param given table names, to, force
function M.main(given)
  local all = worked_examples()
  if #given.names == 0 then return list(all) end
  local target, files, scripts = (given.to or "."):gsub("/+$", ""), {}, {}
  if target == "" then target = "/" end
  for _, name in ipairs(given.names) do
    for i, file in ipairs(files_of(find(name, all), target)) do
      files[#files + 1] = file
      if i == 1 then scripts[#scripts + 1] = file.to end
    end
  end
  copy(files, given.force)
  if host.json then
    local copied = {}
    for i, file in ipairs(files) do copied[i] = file.to end
    return host.set_result { scripts = scripts, files = copied }
  end
  for _, file in ipairs(files) do print("wrote " .. file.to) end
  for _, script in ipairs(scripts) do print("run it: tessera " .. script:gsub("^%./", "")) end
end

return M
