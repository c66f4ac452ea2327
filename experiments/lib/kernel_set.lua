-- A kernel set that ships, as its file says: { host_step_s = 0.0012, ... }.

local core = require "tessera.core"
local host = require "tessera.host"

return function(name)
  return core.from_json(core.read_file(("%s/kernel_sets/%s.json"):format(host.installation.datasets_dir, name)))
end
