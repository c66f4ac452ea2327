-- `tessera report`: the newest runs as one HTML file.

local host = require "tessera.host"
local report = require "tessera.desk.report"

local M = {}

function M.main(given)
  local done = report.write { results = given.results, names = given.names, run = given.run, out = given.out }
  if host.json then
    host.set_result(done)
  else
    print(("wrote %s: %d %s, %d rows, %.0f kB"):format(done.out, done.experiments,
      done.experiments == 1 and "experiment" or "experiments", done.points, done.bytes / 1000))
  end
end

return M
