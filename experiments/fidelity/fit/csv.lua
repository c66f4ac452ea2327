-- Tables of measurements as lists of rows.
--
-- local csv = require "fidelity.fit.csv"; for row in csv.rows(path) do print(row.latency) end

local M = {}

-- Fields are between commas, or between quotes where they have commas of their own.
local function split(line)
  local fields, at = {}, 1
  line = line:gsub("\r$", "") .. ","
  while at <= #line do
    local field, after = line:match('^"([^"]*)",()', at)
    if not field then field, after = line:match("^([^,]*),()", at) end
    fields[#fields + 1], at = field, after
  end
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
