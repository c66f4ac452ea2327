-- Tables of measurements as lists of rows.
--
-- local csv = dofile "experiments/fidelity/fit/csv.lua"; for row in csv.rows(path) do print(row.latency) end

local M = {}

local function split(line)
  local fields = {}
  for field in (line:gsub("\r$", "") .. ","):gmatch "([^,]*)," do fields[#fields + 1] = field end
  return fields
end

-- Calls give one row after another: its fields, as text, by the names of the header.
function M.rows(path)
  local next_line = io.lines(path)
  local header = split(next_line() or "")
  return function()
    local line = next_line()
    if not line then return nil end
    local row = {}
    for i, field in ipairs(split(line)) do row[header[i] or i] = field end
    return row
  end
end

return M
