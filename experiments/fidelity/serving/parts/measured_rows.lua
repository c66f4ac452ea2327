-- Rows of a table of measurements, or nil and why: fields as text by the names of the header, quoted ones too.
--
-- local read = dofile("experiments/fidelity/serving/parts/measured_rows.lua")
-- local rows, why = read(path): of tessera.measured, which gives nil and why where the file is not here

local function split(line)
  local fields, at = {}, 1
  while at <= #line + 1 do
    local quoted, next_at = line:match('^"([^"]*)",?()', at)
    if not quoted then quoted, next_at = line:match("^([^,]*),?()", at) end
    fields[#fields + 1] = quoted
    if next_at > #line and line:sub(#line, #line) ~= "," then break end
    at = next_at == at and at + 1 or next_at
  end
  return fields
end

return function(path, why)
  if not path then return nil, why end
  local header, rows = nil, {}
  for line in io.lines(path) do
    local fields = split((line:gsub("\r$", "")))
    if header then
      local row = {}
      for i, key in ipairs(header) do row[key] = fields[i] or "" end
      rows[#rows + 1] = row
    else
      header = fields
    end
  end
  return rows
end
