-- Mutates files of every kind that the product reads, and uses each as a user would.
--   tessera readers.lua SEED FIRST COUNT FOLDER [KIND]
-- Case i is a matter of seed and i alone. Its lines are those of battery.h; files of failed cases are kept in FOLDER.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local random_of = require "random"
local mutate = require "mutate"
local kinds = require "kinds"
local verdict = require "verdict"

local seed, first, count, folder = tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3]), arg[4]

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "*a"
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local chosen = {}
for _, kind in ipairs(kinds.list) do
  if not arg[5] or kind.name == arg[5] then chosen[#chosen + 1] = kind end
end
assert(#chosen > 0, "no such kind")

kinds.prepare(folder)
for _, kind in ipairs(chosen) do
  kind.path, kind.texts, kind.tally = folder .. "/" .. kind.at, {}, { value = 0, refused = 0 }
  os.execute(("mkdir -p '%s'"):format(kind.path:match "^(.*)/"))
  for i, path in ipairs(kind.inputs()) do kind.texts[i] = read(path) end
end

for case = first, first + count - 1 do
  local kind, random = chosen[1 + case % #chosen], random_of(seed, case)
  local text = random:pick(kind.texts)
  -- A few as they are: a kind of which nothing is ever accepted tests nothing.
  if not random:once_in(25) then text = mutate[kind.form](text, random) end
  write(kind.path, text)
  io.stdout:write(("@case %d %s %s\n"):format(case, kind.name, kind.path))
  io.stdout:flush()
  local outcome, defect = verdict.of(kind.use, kind.path, random)
  if outcome then
    kind.tally[outcome] = kind.tally[outcome] + 1
  else
    write(("%s/failed-%d-%s"):format(folder, case, kind.name), text)
    io.stdout:write(("@fail %d %s %s\n"):format(case, kind.name, (defect:gsub("%c", "?"))))
  end
end
for _, kind in ipairs(chosen) do
  io.stdout:write(("@tally %s %d %d\n"):format(kind.name, kind.tally.value, kind.tally.refused))
end
io.stdout:write "@done\n"
