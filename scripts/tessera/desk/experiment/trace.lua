-- The way through a script to what it did wrong, without the frames of the library that called it.

local of_library = { "%[builtin#", "/desk/experiment/", "%[C%]: in function '[%w_]*'$" }

--- The traceback of the error that a handler of xpcall is called for; "" where nothing of the script's is in it.
return function()
  local kept = {}
  for line in debug.traceback("", 3):gmatch "\n(\t[^\n]*)" do
    local own = true
    for _, pattern in ipairs(of_library) do own = own and not line:find(pattern) end
    if own then kept[#kept + 1] = line end
  end
  return #kept > 0 and "stack traceback:\n" .. table.concat(kept, "\n") or ""
end
