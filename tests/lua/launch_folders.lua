-- Folders that specs have launch files written to, gone when the spec ends.

local assert = require "luassert"
local host = require "tessera.host"
local shell = require "tessera.launch.shell"

local M = {}

local folder
local count = 0

--- The path of a folder that is not there yet.
function M.fresh()
  count = count + 1
  return ("%s/out%d"):format(folder, count)
end

--- To call once, where a spec begins, with the two functions of that name that a spec has.
function M.keep(setup, teardown)
  setup(function()
    folder = os.tmpname()
    os.remove(folder)
    host.make_folder(folder)
  end)
  teardown(function() os.execute("rm -rf " .. shell.quote(folder)) end)
end

--- The folder that they are in.
function M.parent() return folder end

--- Every script among the files is one that bash can read.
function M.checked_by_bash(path, files)
  for _, name in ipairs(files) do
    if name:find "%.sh$" then
      local status, _, err = host.run_program({ "bash", "-n", path .. "/" .. name }, "")
      assert.equal(0, status, err)
    end
  end
end

return M
