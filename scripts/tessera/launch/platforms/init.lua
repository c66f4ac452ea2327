-- Where servers of a launch run, besides shells on the nodes: the files that start them there, rendered from the nodes
-- that the scripts are written from, so that both start the same.

local M = {}

local modules = { compose = "tessera.launch.platforms.compose", kubernetes = "tessera.launch.platforms.kubernetes",
  ray = "tessera.launch.platforms.ray" }

M.names = { "shell", "compose", "kubernetes", "ray" }

--- Whether there is such a platform.
function M.has(name) return name == "shell" or modules[name] ~= nil end

--- Files, steps of README.md and notes of a platform; nil and why where it cannot start such a layout. `opt`: kind (the
--- runtime), version, key_variable, router_port.
function M.files(name, layout, parts, opt)
  return require(modules[name]).files(layout, parts, opt)
end

return M
