-- Rows of CSV as tools write it: { { cell, ... }, ... }; rows may have unlike numbers of cells.

local function cells_of(line)
  local cells, at = {}, 1
  while at <= #line + 1 do
    local quoted, stop = line:match('^%s*"(.-)"%s*,?()', at)
    if quoted then
      while line:sub(stop - 1, stop - 1) == '"' and line:find('"', stop) do -- a doubled quote
        local more, next_stop = line:match('^(.-)"%s*,?()', stop)
        quoted, stop = quoted .. '"' .. more, next_stop
      end
      cells[#cells + 1], at = quoted, stop
      if at > #line and line:sub(-1) ~= "," then break end
    else
      local cell
      cell, at = line:match("^([^,]*),?()", at)
      cells[#cells + 1] = cell:match "^%s*(.-)%s*$"
      if at > #line and line:sub(-1) ~= "," then break end
      if at > #line then
        cells[#cells + 1] = ""
        break
      end
    end
  end
  return cells
end

return function(text)
  local rows = {}
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do
    if line:find "%S" then rows[#rows + 1] = cells_of(line) end
  end
  return rows
end
