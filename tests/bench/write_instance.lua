-- tessera tests/bench/write_instance.lua "32 GPUs" FILE: one of the instances of instances.lua as a file.
local here = debug.getinfo(1, "S").source:match "^@(.*)/" or "."
local arguments = require("tessera.host").arguments
assert(#arguments == 2, "usage: tessera tests/bench/write_instance.lua NAME FILE")
dofile(here .. "/instances.lua").write(arguments[1], arguments[2])
