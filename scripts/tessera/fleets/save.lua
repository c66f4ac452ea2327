-- fleet:save(path): what is below it, columns on nodes, which ts.load_plan reads as such.

return function(fleet, path) return fleet.abstract:save(path) end
