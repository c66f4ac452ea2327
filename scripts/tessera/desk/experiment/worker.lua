-- A worker process of a sweep: loads the script once, then runs the points that come over the channel.

local channel = require "tessera.workers.channel"
local core = require "tessera.core"
local host = require "tessera.host"
local point = require "tessera.desk.experiment.point"

local M = {}

--- `setup`: script, arguments, run_options, quick, time_limit_s, memory_bytes, output_dir.
function M.main(setup)
  host.run_options = setup.run_options
  local run_script = host.load_script(setup.script)
  local experiment = run_script(unpack(setup.arguments or {}))
  if getmetatable(experiment) ~= "tessera.Experiment" then
    core.raise("invalid_argument", ("%s returned no experiment this time; without --jobs 0 it is loaded once more in "
      .. "every worker"):format(setup.script), setup.script)
  end
  host.forget_loaded_files()
  core.start_read_log()
  channel.ready()
  while true do
    local id, text = channel.receive()
    if not id then return end
    local item = core.from_json(text)
    local row = point.run(experiment, item, setup)
    local last = row.status == "out_of_memory" -- what is left of a full memory is nothing to go on with
    channel.answer(id, point.encode(row), last)
    if last then return end
  end
end

return M
