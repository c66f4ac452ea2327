-- `tessera examples`: lists the worked examples, or copies some, or experiments that ship, with the files that they
-- read.

local core = require "tessera.core"
local exists = require "tessera.files".exists
local host = require "tessera.host"
local sorted_keys = require "tessera.sorted_keys"
local terminal = require "tessera.terminal"

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

-- "examples/01_first_plan" or "splitquant/table6", with or without folder and .lua. Worked examples come before others
-- of their name.
local function find(name, examples)
  local wanted, known = name:gsub("%.lua$", ""), {}
  local has_folder = wanted:find("/", 1, true)
  for _, all in ipairs { examples, host.experiments() } do
    local matches = {}
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
  end
  core.raise("not_found", ("there is no example '%s'%s; `tessera examples` lists them, `tessera list` all experiments")
    :format(name, core.did_you_mean(wanted, sorted_keys(known))), name)
end

-- The script, the files beside it that it names ("data/my-gpu.json"), and the modules of experiments that they require
-- (but for those in lib, which any script finds): { from, to }.
local function files_of(script, target)
  local folder, name = script.path:match "^(.*)/([^/]+)$"
  local files, seen = {}, {}
  local function add(from, path)
    if seen[path] or core.file_kind(from .. "/" .. path) ~= "file" then return end
    seen[path], files[#files + 1] = true, { from = from .. "/" .. path, to = target .. "/" .. path }
    if not path:find "%.lua$" then return end
    local text = core.read_file(from .. "/" .. path)
    for other in text:gmatch '["/]([%w_%-]+/[%w_%-][%w_.%-]*)' do add(folder, other) end
    for module in text:gmatch 'require "([%w_.]+)"' do
      if not module:find "^lib%." then add(host.installation.experiments_dir, module:gsub("%.", "/") .. ".lua") end
    end
  end
  add(folder, name)
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
  for _, script in ipairs(all) do
    terminal.say(terminal.wrapped(("%-" .. width .. "s  %s"):format(script.name, script.doc)))
  end
  terminal.say(terminal.wrapped("\n`tessera examples NAME` copies one into this folder, with its data; so it does "
    .. "with an experiment of `tessera list`."))
end

--- @param given table names, to, force
function M.main(given)
  local all = worked_examples()
  if #given.names == 0 then return list(all) end
  local target, files, scripts, originals = (given.to or "."):gsub("/+$", ""), {}, {}, {}
  if target == "" then target = "/" end
  for _, name in ipairs(given.names) do
    local script = find(name, all)
    for i, file in ipairs(files_of(script, target)) do
      files[#files + 1] = file
      if i == 1 then scripts[#scripts + 1] = file.to end
    end
    local declares = core.read_file(script.path):match 'ts%.experiment {%s*name = "([^"]+)"'
    originals[#scripts] = declares or false
  end
  copy(files, given.force)
  if host.json then
    local copied = {}
    for i, file in ipairs(files) do copied[i] = file.to end
    return host.set_result { scripts = scripts, files = copied }
  end
  for _, file in ipairs(files) do print("wrote " .. file.to) end
  for i, script in ipairs(scripts) do
    print("run it: tessera " .. script:gsub("^%./", ""))
    if originals[i] then
      print(("its rows are stored as %s, like the original's: give it another `name` before you change it")
        :format(originals[i]))
    end
  end
end

return M
