-- The tutorial's Lua blocks are parts of its scripts, word for word, and every script has a step.
local folder = assert((...), "give the tutorial's folder")

local function read(name)
  local file = assert(io.open(folder .. "/" .. name))
  local text = file:read "*a"
  file:close()
  return text
end

local text = read "README.md"
local scripts, num_scripts = {}, 0
for name in text:gmatch "`(%d%d_[%w_]+%.lua)`" do
  if not scripts[name] then num_scripts = num_scripts + 1 end
  scripts[name] = read(name)
end
assert(num_scripts == 6, ("%d scripts are named, not 6"):format(num_scripts))

local num_blocks = 0
for block in text:gmatch "```lua\n(.-)```" do
  num_blocks = num_blocks + 1
  local found = false
  for _, script in pairs(scripts) do found = found or script:find(block, 1, true) ~= nil end
  assert(found, "no script has this block:\n" .. block)
end
assert(num_blocks >= num_scripts, ("%d blocks for %d scripts"):format(num_blocks, num_scripts))
print(("%d blocks of %d scripts"):format(num_blocks, num_scripts))
