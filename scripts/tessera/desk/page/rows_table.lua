-- A table of plain rows as reports have them: sorted and searched by the page's script, readable without it.

local results_table = require "tessera.desk.report.results_table"

--- id: of the table in the page; title: what the rows are of; columns: names, in this order, of which those without any
--- value are left out; source: where all numbers come from ("modelled", "measured"), nil where that differs.
return function(id, title, list, columns, source)
  local filled, rows = {}, {}
  for i, row in ipairs(list) do
    rows[i] = { point = {}, meta = { provenance = source } }
    for _, name in ipairs(columns) do
      rows[i][name], filled[name] = row[name], filled[name] or row[name] ~= nil
    end
  end
  local function choose(all)
    local by_name, kept = {}, {}
    for _, column in ipairs(all) do by_name[column.name] = column end
    for _, name in ipairs(columns) do
      local column = filled[name] and by_name[name]
      if column then
        column.role = source and column.role or "plain"
        kept[#kept + 1] = column
      end
    end
    return kept
  end
  return results_table.draw({ experiment = title, declaration = { columns = columns } }, rows, id, function() end,
    choose)
end
