-- The page of an engine: requests, queue, KV blocks, steps and rates. A server sends it with nothing in it; ts.view
-- writes it with a run.

local core = require "tessera.core"
local escape = require "tessera.desk.escape"
local host = require "tessera.host"
local options = require "tessera.options"
local serving = require "tessera.serving"

local M = {}

local file = host.installation.scripts_dir .. "/tessera/serving/view/page.html"

--- Its HTML. What it shows comes from a server's /events.
function M.page() return core.read_file(file) end

options.card {
  name = "ts.view",
  doc = "Writes a recorded run as the page that tessera serve has at /, which plays it: requests, queue, KV blocks as "
    .. "a map, steps, rates. The simulator takes the run again for it, as ts.replay does, whose answer it returns.",
  parameters = {
    { "run", "tessera.Served|string", "Of ts.serve, or the file of served:save_trace or of tessera serve --step-log" },
    { "path", "string", "File to write, .html" },
  },
  returns = "table",
}

local function name_of(run) return type(run) == "string" and run:match "[^/]*$" or "A run" end

--- @return table as ts.replay
function M.view(run, path)
  local replay, views = serving.replay(run), serving.views(run)
  if #views == 0 then core.refuse("ts.view", "the run has no steps") end
  local head = core.to_json { name = name_of(run), identical = replay.identical,
    first_difference = replay.first_difference or "" }
  local data = ('%s,"views":[%s]}'):format(head:sub(1, -2), table.concat(views, ",\n"))
  local page = M.page()
  local _, to = page:find('<script id="recorded" type="application/json">null', 1, true)
  core.write_file(path, page:sub(1, to - #"null") .. escape.script(data) .. page:sub(to + 1))
  return replay
end

return M
